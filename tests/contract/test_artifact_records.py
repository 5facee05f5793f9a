"""Which files belong to which submission, on both databases."""

from datetime import UTC, datetime, timedelta

from grader.artifacts import SubmissionFiles
from grader.model import Failure
from grader.server.operation import remove_old_files
from sandbox.protocol import wire
from tests import fakes

START = datetime(2026, 1, 1, tzinfo=UTC)


def artifact(name, digest="a" * 64):
    return wire.ArtifactFile(name=name, tool="ptxas", digest=digest, size_bytes=5)


async def submitted(ledger):
    return (await ledger.submit(fakes.new_submission(), fakes.problem())).submission_id


async def names(ledger, submission_id, **options):
    return [artifact_record.name for artifact_record in await ledger.artifacts.of(submission_id, **options)]


async def test_files_come_with_the_facts_and_with_the_verdict(ledger):
    """By name, of this submission only."""
    other_id, submission_id = await submitted(ledger), await submitted(ledger)
    for current_id in (other_id, submission_id):
        lease = await ledger.lease("w", ttl_s=30)
        await ledger.append(lease, [fakes.ENVIRONMENT, artifact(f"b-{current_id}"), artifact("c")])
        await ledger.settle(lease, fakes.report(), [artifact("a")])
    assert await names(ledger, submission_id) == ["a", f"b-{submission_id}", "c"]
    (first, *_) = await ledger.artifacts.of(submission_id)
    assert (first.tool, first.digest, first.size_bytes, first.create_time) == ("ptxas", "a" * 64, 5, START)


async def test_only_the_latest_attempt_counts(ledger):
    """Files of an attempt that the grader spoiled are not shown next to those of the one after it."""
    submission_id = await submitted(ledger)
    lease = await ledger.lease("w", ttl_s=30)
    await ledger.append(lease, [artifact("old"), artifact("both")])
    await ledger.release(lease, Failure(reason="SANDBOX_BROKEN", message="no box"))
    lease = await ledger.lease("w", ttl_s=30)
    await ledger.append(lease, [artifact("both", "b" * 64)])
    await ledger.settle(lease, fakes.report())
    assert [(record.name, record.digest) for record in await ledger.artifacts.of(submission_id)] == [("both", "b" * 64)]


async def test_files_expire_and_their_bytes_go(ledger, clock, tmp_path):
    """Rows older than the period are forgotten, then the bytes that nobody has; verdict and facts stay."""
    files = SubmissionFiles(tmp_path / "files", 1 << 20)
    old, shared = files.keep(b"old"), files.keep(b"shared")
    first = await submitted(ledger)
    lease = await ledger.lease("w", ttl_s=30)
    await ledger.settle(lease, fakes.report(), [artifact("o", old), artifact("s", shared)])
    clock.now = START + timedelta(days=20)
    second = await submitted(ledger)
    await ledger.settle(await ledger.lease("w", ttl_s=30), fakes.report(), [artifact("s", shared)])
    clock.now = START + timedelta(days=31)
    assert await names(ledger, first, made_after=clock.now - timedelta(days=30)) == []  # before anything was removed
    for path in files.directory.iterdir():
        path.touch()
    assert await remove_old_files(ledger, 30, files) == 2
    assert files.holds(old)  # the control: it may be of an attempt that goes on
    assert await files.remove_unknown(ledger.artifacts.unknown, fresh_s=-60) == 1
    assert not files.holds(old) and files.holds(shared)
    assert await names(ledger, first) == [] and await names(ledger, second) == ["s"]
    assert (await ledger.get(first)).report == fakes.report()
