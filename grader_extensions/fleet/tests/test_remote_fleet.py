"""Workers that join a server: what they are given, what is believed of them, and what becomes of what they had when they go."""

import asyncio
import hashlib
import pickle
from collections import Counter
from contextlib import aclosing
from dataclasses import replace

import aiohttp
import grpc
import pytest

from grader.artifacts import SubmissionFiles
from grader.config import Settings
from grader.dispatch.dispatcher import UNCOUNTED
from grader.errors import (
    HostBroken,
    ModeNotInstalled,
    NoSuchDevice,
    ProblemBroken,
    SandboxBroken,
    SettingsInvalid,
    WorkerFault,
    WorkerLost,
)
from grader.fleet.v1 import fleet_pb2
from grader.observability.observer import LaneNow, LaneState
from grader.server.running import serving
from grader.v1 import report_pb2, submission_pb2
from grader_extensions.fleet import admin_workers, remote_fleet
from grader_extensions.fleet import fleet_port as port_module
from grader_extensions.fleet.fleet_port import FleetCertificates, fleet_path, fleet_port, joined
from grader_extensions.fleet.remote_fleet import RemoteFleet, lease_from_bytes, lease_to_bytes
from grader_extensions.fleet.serve import FleetRefused, FleetSession, _attached, channel_credentials
from grader_extensions.fleet.tests.fleet_workers import attached, begun, graded, inside, lease, served, standing, working
from sandbox.protocol import wire
from tests import fakes
from tests.server.test_operation import until as until_is
from tests.waiting import until

LINES = (fakes.ENVIRONMENT, wire.Progress(stage=wire.Stage.BUILDING), fakes.trial())
FILE = b"what a profiler left"
DIGEST = hashlib.sha256(FILE).hexdigest()


def test_a_lease_arrives_as_it_was_but_for_what_a_worker_need_not_know() -> None:
    """Sources, problem, mode; nothing of the server's own worker, and no report of an earlier attempt."""
    sent = replace(lease("accept"), submission=replace(lease("accept").submission, report=fakes.report(), rejudge_id="r1"))
    received = lease_from_bytes(lease_to_bytes(sent))
    assert received.submission.new == sent.submission.new and received.problem == sent.problem and received.attempt == 1
    assert received.submission.report is None and received.worker_id == "" and received.submission.rejudge_id == ""
    with pytest.raises(ValueError, match="not a lease") as refusal:
        lease_from_bytes(b'{"attempt": "many"}')
    assert "many" not in str(refusal.value)  # a log would have sources and hidden sizes


async def test_facts_come_back_in_their_order(fleet, address) -> None:
    """To whom the lease belongs; a file before the fact that names it."""
    async with inside(address) as worker:
        grading, attempt = await begun(fleet, worker)
        assert lease_from_bytes(attempt.lease).submission.submission_id == "s1"
        for number, fact in enumerate(LINES):
            await worker.fact(attempt.attempt, number, fact)
        await worker.say(file_piece=fleet_pb2.FilePiece(attempt=attempt.attempt, digest=DIGEST, content=FILE[:5]))
        await worker.say(file_piece=fleet_pb2.FilePiece(attempt=attempt.attempt, digest=DIGEST, content=FILE[5:], last=True))
        named = wire.ArtifactFile(name="a.txt", tool="nvcc", digest=DIGEST, size_bytes=len(FILE))
        await worker.fact(attempt.attempt, len(LINES), named)
        await worker.end(attempt.attempt)
        assert await grading == [*LINES, named] and fleet._files.read(DIGEST) == FILE


def fact(number=0, attempt=1, line=None):
    return {"fact": fleet_pb2.Fact(attempt=attempt, number=number, line=line or wire.encode(LINES[0]))}


def piece(content=FILE, digest=DIGEST, *, last=True):
    return {"file_piece": fleet_pb2.FilePiece(attempt=1, digest=digest, content=content, last=last)}


NAMED = wire.encode(wire.ArtifactFile(name="a.txt", tool="nvcc", digest=DIGEST, size_bytes=len(FILE)))
FORGED = {
    "another attempt": [fact(attempt=2)],
    "a gap": [fact(number=1)],
    "the same fact twice": [fact(), fact()],
    "a pickle": [fact(line=pickle.dumps(Counter))],
    "a message that is no fact": [fact(line=wire.encode(wire.Check(job_id="j")))],
    "a fact with an unknown field": [fact(line=b'{"type": "Finished", "job_id": "j", "verdict": "ACCEPTED"}')],
    "a file that is not its digest": [piece(b"other")],
    "a file that was not sent": [fact(line=NAMED)],
    "another size of a file": [piece(), fact(line=NAMED.replace(b"20", b"21"))],
    "two files at once": [piece(last=False), piece(digest="0" * 64)],
    "files without end": [piece(bytes(1 << 20), last=False)] * 17,
    "a second hello": [{"hello": fleet_pb2.Hello()}],
    "nothing at all": [{}],
    "an end of what it does not have": [{"ended": fleet_pb2.Ended(attempt=7)}],
    "a fact after the end": [{"ended": fleet_pb2.Ended(attempt=1)}, fact()],
    "more places than there are": [{"standing": standing(capacity=10**6)}],
    "a device that there is not": [{"standing": standing("tpu")}],
    "a lane with an escape": [{"standing": standing(lanes=[fleet_pb2.Lane(name="\x1b[2J", state="FREE")])}],
    "a flood": [fact(number=number) for number in range(11)],
    "a flood of bytes": [
        fact(number=number, line=wire.encode(wire.Progress(stage=wire.Stage.BUILDING, workload_id="x" * 900))) for number in range(6)
    ],
    "too many files": [piece(b"%d" % number, hashlib.sha256(b"%d" % number).hexdigest()) for number in range(65)],
}


@pytest.mark.parametrize("messages", FORGED.values(), ids=FORGED)
async def test_what_no_worker_says_ends_its_stream_and_reaches_no_ledger(fleet, address, monkeypatch, messages) -> None:
    """The attempt is given back, and another worker gets it. The control is the test above, where a worker keeps to the protocol."""
    monkeypatch.setattr(remote_fleet, "FACT_LIMIT", 10)
    monkeypatch.setattr(remote_fleet, "FACTS_LIMIT_BYTES", 5000)
    reached: list[wire.Fact] = []

    async def collected() -> None:
        async with aclosing(fleet.grade(lease())) as facts:
            async for received in facts:
                reached.append(received)

    async with inside(address) as worker, asyncio.timeout(300):
        grading = asyncio.create_task(collected())
        assert (await worker.grade()).attempt == 1
        for message in messages:
            await worker.say(**message)
        code, details = await worker.refusal()
        assert code is grpc.StatusCode.INVALID_ARGUMENT, details
        if "ended" in messages[0] and len(messages) == 2:  # what came before was in order
            await grading
        else:
            with pytest.raises(WorkerLost, match="local-1"):
                await grading
    assert all(isinstance(received, wire.Environment | wire.Progress) for received in reached) and len(reached) <= 10
    assert not any(isinstance(received, wire.ArtifactFile | wire.Finished) for received in reached)


async def test_a_file_for_which_there_is_no_room_is_left_out_with_its_fact(tmp_path, place) -> None:
    """A full disk is not the worker's fault: its stream goes on. The control is the first test of this page, where there is room."""
    fleet = RemoteFleet(tmp_path / "devices.json", SubmissionFiles(tmp_path / "files", 0))
    async with fleet_port(Settings(state_dir=place, fleet_listen=f"unix:{place}/fleet"), fleet) as address, inside(address) as worker:
        grading, assignment = await begun(fleet, worker)
        attempt = assignment.attempt
        await worker.say(file_piece=fleet_pb2.FilePiece(attempt=attempt, digest=DIGEST, content=FILE, last=True))
        await worker.fact(attempt, 0, NAMED)
        await worker.fact(attempt, 1, LINES[0])
        await worker.end(attempt)
        assert await grading == [LINES[0]]


async def test_a_lease_that_is_too_large_is_the_problems_fault(fleet, address, monkeypatch) -> None:
    """Such a lease is not sent, and ends no stream."""
    monkeypatch.setattr(remote_fleet, "LEASE_LIMIT_BYTES", 10)
    async with inside(address):
        with pytest.raises(ProblemBroken, match="make the problem smaller"):
            await graded(fleet, lease())
        assert fleet.capacity() == 2 and fleet.ready_kinds() == ("emulated",)


async def test_a_worker_speaks_of_its_own_attempts_only(fleet, address) -> None:
    """Of two that have an attempt of the same number each ends only its own; a stream's numbers are of that stream."""
    async with inside(address, standing(capacity=1)) as first, inside(address, standing(capacity=1)) as second:
        first_task, second_task = (asyncio.create_task(graded(fleet, lease(submission_id=name))) for name in ("s1", "s2"))
        workers = {
            lease_from_bytes((order := await worker.grade()).lease).submission.submission_id: (worker, order) for worker in (first, second)
        }
        worker, order = workers["s2"]
        await worker.fact(order.attempt, 0, LINES[2])
        await worker.end(order.attempt)
        assert await second_task == [LINES[2]] and not first_task.done()
        worker, order = workers["s1"]
        await worker.end(order.attempt)
        assert await first_task == []


async def test_another_protocol_or_a_weaker_isolation_is_refused(fleet, address) -> None:
    """With what to do about it. The control is a worker that is let in."""
    for hello, words in (({"protocol": "0" * 16}, "install the same version"), ({"safe": False}, "does not confine")):
        async with attached(address, **hello) as worker:
            code, details = await worker.refusal()
        assert code is grpc.StatusCode.FAILED_PRECONDITION and words in details and fleet.capacity() == 0
    async with inside(address):
        assert fleet.capacity() == 2


async def test_a_server_of_plain_processes_takes_such_workers(place, fleet) -> None:
    """The operator asked for it."""
    settings = Settings(state_dir=place, sandbox="process", fleet_listen=f"unix:{place}/fleet")
    async with fleet_port(settings, fleet) as address, inside(address, safe=False):
        assert fleet.capacity() == 2


def credentials(content: bytes, place) -> grpc.ChannelCredentials:
    path = place / "worker.pem"
    path.write_bytes(content)
    tls_credentials = channel_credentials("host:1", path)
    assert tls_credentials is not None
    return tls_credentials


async def test_only_a_certificate_that_is_still_good_lets_in(place, tmp_path, fleet, monkeypatch) -> None:
    """The node is named by it. One of another authority, an older one, and one that was removed are refused; and none at all."""
    monkeypatch.setattr(port_module, "CERTIFICATE_LOOK_S", 0.05)
    settings = Settings(state_dir=place, fleet_listen="127.0.0.1:0")
    certificates, foreign = FleetCertificates(fleet_path(settings)), FleetCertificates(tmp_path / "other")
    old, good = certificates.issue("gpu-1"), certificates.issue("gpu-1")
    refused = {"old": old, "of another authority": _with_authority(foreign.issue("gpu-1"), certificates.authority())}
    async with fleet_port(settings, fleet) as address, asyncio.timeout(300):
        async with inside(address, credentials=credentials(good, place)) as worker:
            assert [lane.node for lane in fleet._workers.values()] == ["gpu-1"]
            for name, content in refused.items():
                code = await refusal_of(address, credentials(content, place))
                assert code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE), name
            assert await refusal_of(address, grpc.ssl_channel_credentials(certificates.authority())) is grpc.StatusCode.UNAVAILABLE
            grading = asyncio.create_task(busy(fleet))  # a worker that gets messages all the time is looked at, too
            await worker.grade()
            assert certificates.remove("gpu-1") and not certificates.remove("gpu-1")
            while await worker.heard() is not grpc.aio.EOF:
                pass
            await grading
        assert await refusal_of(address, credentials(good, place)) is grpc.StatusCode.UNAUTHENTICATED


async def busy(fleet):
    """Give a worker something and take it back, again and again, until it is gone."""
    while fleet.capacity():
        grading = asyncio.create_task(graded(fleet, lease()))
        await asyncio.sleep(0.01)
        (worker,) = fleet._workers.values() or (None,)
        for attempt in worker._attempts.values() if worker else ():
            attempt.ended.set()
        grading.cancel()
        await asyncio.gather(grading, return_exceptions=True)


async def refusal_of(address, tls_credentials):
    """With what code a worker with these credentials is kept out. A stream that the server resets before its answer is read is INTERNAL to
    gRPC, on a busy machine; a worker tries again then."""
    for _ in range(5):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async with inside(address, credentials=tls_credentials):
                pass
        if caught.value.code() is not grpc.StatusCode.INTERNAL:
            break
    return caught.value.code()


def _with_authority(content: bytes, authority: bytes) -> bytes:
    """A worker's file whose own certificate another authority has signed."""
    key, certificate, _ = content.split(b"-----BEGIN CERTIFICATE-----")
    return key + b"-----BEGIN CERTIFICATE-----" + certificate + authority


def test_the_command_makes_lists_and_removes_certificates(place, capsys, monkeypatch) -> None:
    """A name that can't be, a file that is there, a worker that is not: each says what to do."""
    monkeypatch.chdir(place)
    words = ["--state-dir", str(place)]
    assert admin_workers.main([*words, "add", "gpu-1"]) == 0 and (place / "gpu-1.pem").stat().st_mode & 0o777 == 0o600
    assert "grader-worker --join" in capsys.readouterr().out and channel_credentials("h:1", place / "gpu-1.pem") is not None
    assert admin_workers.main([*words, "list"]) == 0 and capsys.readouterr().out == "gpu-1\n"
    for wrong, hint in ((["add", "../x"], "lower case"), (["add", "gpu-1"], "--out"), (["remove", "gpu-2"], "workers list")):
        assert admin_workers.main([*words, *wrong]) == 2 and hint in capsys.readouterr().err
    assert admin_workers.main([*words, "remove", "gpu-1"]) == 0 and FleetCertificates(place / "fleet").nodes() == []


@pytest.mark.parametrize("content", [b"", b"no pem", None])
def test_a_file_that_is_no_workers_says_so(place, content) -> None:
    """And where a right one comes from."""
    path = place / "x.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsInvalid, match="certificate"):
        channel_credentials("host:1", path if content is not None else None)


async def test_a_submission_goes_to_a_worker_that_has_its_device(fleet, address) -> None:
    """And waits where there is none with room; what there has been is known after a restart."""
    gpu_lease = lease(device_kind="cuda:H200")
    waiting = asyncio.create_task(graded(fleet, gpu_lease))
    async with inside(address, standing("emulated")) as emulated:
        assert fleet.device_kinds() == fleet.ready_kinds() == ("emulated",)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        async with inside(address, standing("cuda", "cuda:0", "cuda:NVIDIA H200", capacity=1)) as gpu:
            attempt = await gpu.grade()
            assert fleet.ready_kinds() == ("emulated",)  # the other one has no room
            await gpu.end(attempt.attempt)
            assert await waiting == []
        any_device = asyncio.create_task(graded(fleet, lease()))
        attempt = await emulated.grade()
        await emulated.end(attempt.attempt)
        await any_device
    assert RemoteFleet(fleet._memory, fleet._files).device_kinds() == ("emulated", "cuda", "cuda:0", "cuda:NVIDIA H200")


async def test_a_worker_without_a_modes_package_hands_the_submission_back(fleet, address) -> None:
    """Another one gets it, and the one that lacks it gets the other modes; where all lack it, the submission fails with what to do."""
    original = lease()
    profile = replace(original, submission=replace(original.submission, new=replace(original.submission.new, mode=wire.Mode.PROFILE)))
    async with inside(address, standing(capacity=1)) as first:
        for refusal in (WorkerLost, ModeNotInstalled):
            grading = asyncio.create_task(graded(fleet, profile))
            if refusal is WorkerLost:
                await first.end((await first.grade()).attempt, ModeNotInstalled.reason, "MODE_PROFILE is not installed here")
            with pytest.raises(refusal, match="MODE_PROFILE is not installed"):
                await grading
        async with inside(address, standing(capacity=1)) as second:
            grading, plain = (asyncio.create_task(graded(fleet, request)) for request in (profile, original))
            for worker in (second, first):
                await worker.end((await worker.grade()).attempt)
            assert await grading == await plain == []


async def test_a_mode_whose_workers_are_away_for_a_moment_is_waited_for(fleet, address) -> None:
    """The submission is given to the worker that comes back, and does not fail at those that lack the package."""
    fleet._mode_wait_s = 60.0
    original = lease()
    profile = replace(original, submission=replace(original.submission, new=replace(original.submission.new, mode=wire.Mode.PROFILE)))
    async with inside(address, standing(capacity=1)) as first:
        grading = asyncio.create_task(graded(fleet, profile))
        await first.end((await first.grade()).attempt, ModeNotInstalled.reason, "MODE_PROFILE is not installed here")
        with pytest.raises(WorkerLost):
            await grading
        grading = asyncio.create_task(graded(fleet, profile))
        async with inside(address, standing(capacity=1)) as second:
            await second.end((await second.grade()).attempt)
            assert await grading == []


async def test_a_mode_is_waited_for_once_and_not_by_each_submission(fleet, address) -> None:
    """Each would hold a place for others in vain. A worker that joins may have the package: after it the wait begins anew."""
    original = lease()
    profile = replace(original, submission=replace(original.submission, new=replace(original.submission.new, mode=wire.Mode.PROFILE)))

    async def lacks_it(worker) -> None:
        grading = asyncio.create_task(graded(fleet, profile))
        await worker.end((await worker.grade()).attempt, ModeNotInstalled.reason, "MODE_PROFILE is not installed here")
        with pytest.raises(WorkerLost):
            await grading

    async with inside(address, standing(capacity=1)) as first:
        await lacks_it(first)
        for fleet._mode_wait_s in (0.01, 3600.0):
            async with asyncio.timeout(60):
                with pytest.raises(ModeNotInstalled):
                    await graded(fleet, profile)
        async with inside(address, standing(capacity=1)) as second:
            await lacks_it(second)
            grading = asyncio.create_task(graded(fleet, profile))
            await asyncio.sleep(0.05)
            assert not grading.done()
            grading.cancel()


async def test_a_device_that_there_never_was_is_refused_and_not_waited_for(fleet, address) -> None:
    """The submission was in the queue when the server forgot its devices."""
    async with inside(address, standing("cuda", "cuda:0")):
        with pytest.raises(NoSuchDevice, match="cuda:7"):
            await graded(fleet, lease(device_kind="cuda:7"))


async def test_a_worker_that_leaves_is_given_nothing_more(fleet, address) -> None:
    """The worker ends what it has."""
    async with inside(address) as worker:
        grading, attempt = await begun(fleet, worker)
        await worker.say(standing=standing(leaving=True))
        await worker.end(attempt.attempt)
        await grading
        assert fleet.capacity() == 0 and fleet.ready_kinds() == ()


async def test_lanes_are_shown_with_their_node(fleet, address) -> None:
    """As the metrics have them."""
    lanes = [fleet_pb2.Lane(name="cuda:0", state="TAKEN")]
    async with inside(address, standing("cuda", lanes=lanes)):
        assert fleet.lanes() == (LaneNow(name="local-1/cuda:0", state=LaneState.TAKEN),)
    await until(lambda: not fleet.lanes())


async def test_a_submission_that_loses_one_worker_after_the_other_ends(fleet, address) -> None:
    """The submission may be the reason. The control are the first losses, after which it is given to the next."""
    for number in range(remote_fleet.LOSS_LIMIT):
        async with inside(address) as worker:
            grading, _ = await begun(fleet, worker)
        with pytest.raises(WorkerFault if number == remote_fleet.LOSS_LIMIT - 1 else WorkerLost) as caught:
            await grading
    assert caught.value.reason == "WORKERS_LOST" and caught.value.final


async def test_what_fails_at_a_worker_fails_as_it_would_here(fleet, address) -> None:
    """With its reason, and where it was."""
    async with inside(address) as worker:
        grading, attempt = await begun(fleet, worker)
        await worker.end(attempt.attempt, SandboxBroken.reason, "no docker")
        with pytest.raises(WorkerFault, match=r"no docker \(at the worker local-1\)") as caught:
            await grading
    assert caught.value.reason == SandboxBroken.reason


async def test_a_broken_host_takes_nothing_more_before_it_gives_back_what_it_had(fleet, address, files) -> None:
    """Else the server would send it one after the other until its next standing. What it had is not
    charged."""
    broken = []

    async def grade(_):
        broken.append(True)
        raise HostBroken("no engine answers")
        yield

    for room, expected in ((lambda: 1, 1), (lambda: 0 if broken else 1, 0)):  # the control first: its standing stays as it is
        broken.clear()
        async with working(address, grade, files, room=room):
            with pytest.raises(HostBroken, match=r"no engine answers \(at the worker local"):
                await graded(fleet, lease())
            assert fleet.capacity() == expected
        await until(lambda: fleet.capacity() == 0)
    assert HostBroken.reason in UNCOUNTED


async def test_a_cancellation_is_over_when_the_boxes_are_gone(fleet, address) -> None:
    """Not before the worker says so."""
    async with inside(address) as worker:
        grading, attempt = await begun(fleet, worker)
        grading.cancel()
        assert (await worker.heard()).cancel.attempt == attempt.attempt
        await worker.fact(attempt.attempt, 0, LINES[0])  # on its way when it was told
        await asyncio.sleep(0.05)
        assert not grading.done()
        await worker.end(attempt.attempt, WorkerLost.reason)
        with pytest.raises(asyncio.CancelledError):
            await grading
        assert fleet.capacity() == 2


async def test_a_worker_that_never_ends_what_is_cancelled_is_dropped(fleet, address, monkeypatch) -> None:
    """Nobody waits for it for ever."""
    monkeypatch.setattr(remote_fleet, "CANCEL_S", 0.1)
    async with inside(address) as worker:
        grading, _ = await begun(fleet, worker)
        grading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await grading
        assert (await worker.heard()).WhichOneof("message") == "cancel" and await worker.heard() is grpc.aio.EOF


async def test_a_worker_is_not_read_while_nobody_takes_its_facts(fleet, address) -> None:
    """Or a flood would fill the server's memory."""
    async with inside(address) as worker:
        stream = fleet.grade(lease())
        first = asyncio.ensure_future(anext(stream))
        attempt = await worker.grade()

        async def flood() -> None:
            for number in range(20_000):
                await worker.fact(attempt.attempt, number, LINES[2])

        flooding = asyncio.create_task(flood())
        await first
        await asyncio.sleep(0.5)
        (here,) = fleet._workers.values()
        assert here._attempts[attempt.attempt].items.qsize() <= remote_fleet.FACTS_WAITING + 1
        flooding.cancel()
        worker.call.cancel()
        with pytest.raises(WorkerLost):
            async for _ in stream:
                pass


async def test_several_workers_of_one_host_have_names(address, fleet, files) -> None:
    """Each with its own devices; a name that would be a path is refused."""
    async with inside(address, instance="gpu-0"), inside(address, instance="gpu-1"):
        assert {worker.node for worker in fleet._workers.values()} == {"local/gpu-0", "local/gpu-1"} and fleet.capacity() == 4
        async with attached(address, instance="gpu-0") as worker:  # it would end the first one, which would come back and end it
            code, details = await worker.refusal()
        assert code is grpc.StatusCode.ALREADY_EXISTS and "--name" in details and fleet.capacity() == 4
    async with attached(address, instance="../x") as worker:
        code, details = await worker.refusal()
    assert code is grpc.StatusCode.INVALID_ARGUMENT and "--name" in details


async def test_a_new_connection_of_a_node_replaces_the_old_one(place, fleet) -> None:
    """A host that came back is not two; what the old one had is given back."""
    settings = Settings(state_dir=place, fleet_listen="127.0.0.1:0")
    content = FleetCertificates(fleet_path(settings)).issue("gpu-1")
    async with fleet_port(settings, fleet) as address, inside(address, credentials=credentials(content, place)) as old:
        grading, _ = await begun(fleet, old)
        async with inside(address, credentials=credentials(content, place)):
            with pytest.raises(WorkerLost, match="replaced"):
                await grading
            assert fleet.capacity() == 2


# -- the worker's own half, and a whole server ----------------------------------------------------------------------------


async def test_a_worker_grades_what_a_server_is_sent(remote, files, kernel, finished) -> None:
    """The same verdicts as here, and the same failures. What is sent before a worker is there waits for one, and says so."""
    async with served(remote) as (client, address):
        early = await client.submit(kernel("accept"))
        assert early.queue_position.no_worker and not early.queue_position.HasField("estimated_duration")
        async with working(address, fakes.FakeGrade(), files):
            assert (await finished(client, early)).report.verdict == report_pb2.VERDICT_ACCEPTED
            for order, verdict in (("accept", report_pb2.VERDICT_ACCEPTED), ("wrong", report_pb2.VERDICT_WRONG_ANSWER)):
                submission = await finished(client, await client.submit(kernel(order)))
                assert submission.report.verdict == verdict and submission.attempt_count == 1
            failed = await finished(client, await client.submit(kernel("fault")))
            assert failed.state == submission_pb2.SUBMISSION_STATE_FAILED and "told to break" in failed.error.message


async def test_a_worker_finds_more_after_the_verdict(remote, files, kernel, finished) -> None:
    """The finding reaches the report; a worker that is lost meanwhile takes nothing with it but that."""
    async with served(remote) as (client, address):
        for lost in (False, True):
            grade = fakes.LateFindings(fakes.PROFILE)
            async with working(address, grade, files) as (_, task):
                submission = await finished(client, await client.submit(kernel("wrong")))
                assert submission.report.verdict == report_pb2.VERDICT_WRONG_ANSWER and not submission.report.HasField("profile")
                if lost:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                grade.go.set()
                events = [event async for event in client.watch(submission.name, until_findings=not lost)]
            amended = await client.get_submission(submission.name)
            assert amended.attempt_count == 1 and amended.report.HasField("profile") is not lost
            assert events[-1].HasField("submission") is lost


async def test_a_lost_workers_submission_goes_on_at_another_and_is_not_counted(remote, files, kernel, finished) -> None:
    """And its boxes are gone before it joins again."""
    lost, second_grade = fakes.FakeGrade(), fakes.FakeGrade()
    async with served(remote) as (client, address):
        async with working(address, lost, files) as (_, task):
            submission = await client.submit(kernel("hang"))
            await until(lambda: lost.running)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert lost.running == 0 and lost.stopped == [submission.name.rpartition("/")[2]]
        async with working(address, second_grade, files):
            await until(lambda: second_grade.running)
            shown = await client.get_submission(submission.name)
            assert shown.state == submission_pb2.SUBMISSION_STATE_RUNNING and len(second_grade.attempts) == 1
            await client.cancel(submission.name)
            assert (await finished(client, submission)).state == submission_pb2.SUBMISSION_STATE_CANCELLED
            assert second_grade.running == 0


async def test_a_worker_that_is_stopped_ends_what_it_has(remote, files, kernel, finished, tmp_path) -> None:
    """With patience it is graded; without, it is given back."""
    grade = fakes.FakeGrade(tmp_path / "counted")
    async with served(remote) as (client, address), working(address, grade, files, drain_s=60.0) as (signalled, task):
        submission = await client.submit(kernel("held"))
        await until(lambda: grade.running)
        signalled.set()
        await asyncio.sleep(0.05)
        (tmp_path / "go").touch()
        final = await finished(client, submission)
        assert final.report.verdict == report_pb2.VERDICT_ACCEPTED and final.attempt_count == 1
        await asyncio.wait_for(task, 300)


async def test_a_worker_of_another_version_is_told_so(address, tmp_path, monkeypatch) -> None:
    """And does not try again: its own end would be the same."""
    from grader_extensions.fleet import serve

    monkeypatch.setattr(serve, "VERSION", "0" * 16)
    async with fakes.wiring(fakes.FakeGrade())(Settings()) as grading:
        with pytest.raises(FleetRefused, match="install the same version"):
            await serve._join(serve.JoinOptions(address=address), None, Settings(state_dir=tmp_path), grading, asyncio.Event())


async def test_a_session_sends_the_files_that_its_facts_name(fleet, address, files, tmp_path) -> None:
    """From its own directory into the server's; a file that is not there any more is left out with its fact."""
    store = SubmissionFiles(tmp_path / "own", 1 << 20)
    big = bytes(range(256)) * 2000
    facts = [wire.ArtifactFile(name=f"{n}", tool="t", digest=store.keep(data), size_bytes=len(data)) for n, data in enumerate((big, b""))]
    missing = wire.ArtifactFile(name="gone", tool="t", digest="0" * 64, size_bytes=3)

    class Grade(fakes.FakeGrade):
        async def _facts(self, assigned):
            for file in (facts[0], missing, facts[1]):
                yield file

    async with working(address, Grade(), store):
        assert await graded(fleet, lease()) == facts
    assert [files.read(file.digest) for file in facts] == [big, b""]


async def test_a_cordoned_worker_ends_what_it_has_and_gets_nothing_more(fleet, address) -> None:
    """By its name, or its node's; the next submission goes to the other one, and to both again afterwards."""
    async with inside(address) as first, inside(address) as second:
        before = asyncio.create_task(graded(fleet, lease(submission_id="a")))
        attempt = await first.grade()
        fleet.cordon({"local-1"})
        assert fleet.capacity() == 2 and [lane.state for lane in fleet.lanes()] == []
        tasks = [asyncio.create_task(graded(fleet, lease(submission_id=name))) for name in "bcd"]
        assignments = [await second.grade(), await second.grade()]
        await first.end(attempt.attempt)
        await before
        assert not tasks[2].done()
        fleet.cordon(())
        third = await first.grade()
        await first.end(third.attempt)
        for assignment in assignments:
            await second.end(assignment.attempt)
        await asyncio.gather(*tasks)


async def test_a_cordon_holds_for_a_worker_that_joins_later(fleet, address) -> None:
    """As when it is restarted by what supervises it, after others have joined; a node's name is meant with all its workers."""
    lanes = [fleet_pb2.Lane(name="cuda:0", state="FREE")]
    for name in ("local", "local/gpu-0"):
        fleet.cordon({name})
        for _ in range(2):
            async with inside(address, standing("cuda", lanes=lanes), instance="gpu-0"):
                assert (fleet.capacity(), fleet.ready_kinds()) == (0, ())
                assert fleet.lanes() == (LaneNow(name="local/gpu-0/cuda:0", state=LaneState.CORDONED),)
            await until(lambda: not fleet.has("local/gpu-0"))  # the server sees a moment later that it left
    async with inside(address, standing("cuda", lanes=lanes), instance="gpu-1"):
        assert fleet.capacity() > 0


async def test_a_worker_is_told_which_of_its_lanes_are_cordoned(fleet, address) -> None:
    """All of them each time, and only where that changes; it says then what it can do without them."""
    async with inside(address, standing("cuda", "cuda:0", "cuda:1")) as worker:
        for names, expected in (({"local-1/cuda:1", "local-2/cuda:0"}, ["cuda:1"]), ((), [])):
            fleet.cordon(names)
            fleet.cordon(names)
            assert list((await worker.heard()).cordon.lanes) == expected
        grading = asyncio.create_task(graded(fleet, lease()))
        await worker.end((await worker.grade()).attempt)
        await grading


async def test_a_lane_is_cordoned_at_the_worker(fleet, address, place, files) -> None:
    """The real session passes it on, and its standing has the kinds that are left."""
    cordoned, ready = [], ["cuda:0", "cuda:1"]

    def cordon(names):
        cordoned.append(names)
        ready[:] = [f"cuda:{index}" for index in (0, 1) if f"cuda:{index}" not in names]

    async with fakes.wiring(None)(Settings(state_dir=place)) as faked:
        session = FleetSession(replace(faked, cordon=cordon, ready_kinds=lambda: tuple(ready)), files)
        stop = asyncio.Event()
        working = asyncio.create_task(_attached(address, None, session, stop, 1.0))
        await until(lambda: fleet.ready_kinds() == ("cuda:0", "cuda:1"))
        fleet.cordon({"local-1/cuda:1"})
        await until(lambda: fleet.ready_kinds() == ("cuda:0",))
        assert cordoned == [{"cuda:1"}] and fleet.device_kinds() == ("cuda:0", "cuda:1")
        stop.set()
        await working
        assert cordoned[1:] == [set()]  # uncordoned while it is away, it would never hear of it


async def test_a_server_without_a_worker_is_not_ready(settings, place):
    """Its workers grade, and there is none. The control: one that has joined makes it ready."""
    there = settings.model_copy(update={"fleet": "remote", "fleet_listen": f"unix:{place}/fleet", "web": "0"})
    async with serving(there, joined) as running, aiohttp.ClientSession() as session:

        async def ready():
            async with session.get(f"http://{running.web_address}/readyz") as answer:
                return answer.status, await answer.text()

        assert await ready() == (503, "nothing can be graded: no worker that can grade is connected\n")
        async with inside(there.fleet_listen):
            await until_is(ready, (200, "ok\n"))
