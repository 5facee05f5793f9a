"""`competitions export`: one archive with all that the caller may see, and nothing more."""

import io
import zipfile
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grader.cli.exits import GraderFailed, UsageError
from grader.ledger import Ledger, records
from grader.model import Scope
from grader.server.running import serving
from grader.v1 import competition_pb2, submission_pb2
from grader_extensions.competitions.cli import export as competition_export
from grader_extensions.export_file import whole_file
from tests import fakes
from tests.board_rows import filled, rows

HOUR = timedelta(hours=1)
COUNT, USERS, LATE = 12, ("ann", "ben", "cyd"), 8  # the submissions from LATE on came after the freeze


@pytest.fixture
async def opened(settings, place):
    """Serve a competition that is frozen, or that has ended, with keys of an organiser and of ann."""

    @asynccontextmanager
    async def start(end):
        now = datetime.now(UTC)
        freeze, entries = now - 2 * HOUR, rows(COUNT, report=records.to_text(fakes.report()), start=now - 3 * HOUR)
        for number, row in enumerate(entries):
            row |= {"user_name": USERS[number % 3], "sources": '[{"path": "kernel.cu", "content": "x"}]', "device": "NVIDIA H200"}
            if number >= LATE:
                row |= {"create_time": freeze + HOUR / 2, "score": 9.0, "score_low": 8.9, "score_high": 9.1}
        times = {"start": now - 4 * HOUR, "freeze": freeze, "end": now + end}
        text = f'name = "spring"\ntitle = "Spring"\nproblems = ["sum", "other"]\nvisibility = "after_end"\nsecret_seed = "{"ab" * 16}"\n'
        (place / "competition.toml").write_text(text + "".join(f"{key} = {time.isoformat()}\n" for key, time in times.items()))
        async with Ledger.open(settings.ledger) as ledger:
            await filled(ledger, entries)
            scopes = {"organiser": frozenset(Scope), "ann": frozenset({Scope.SUBMIT, Scope.READ})}
            keys = {user: (await ledger.keys.create(user, of_user))[1] for user, of_user in scopes.items()}
        there = settings.model_copy(update={"competitions": (place / "competition.toml",), "auth": "keys"})
        async with serving(there, fakes.wiring()) as running:
            yield running, keys

    return start


@pytest.fixture
def export(monkeypatch, tmp_path):
    """Export the competition of this server with this key; the archive."""

    async def write_archive(running, key, name="a.zip"):
        monkeypatch.setenv("GRADER_KEY", key)
        await competition_export.export_command("spring", tmp_path / name, server=running.address)
        return tmp_path / name

    return write_archive


def submissions(path: Path) -> list[str]:
    """The lines of the list of submissions."""
    with zipfile.ZipFile(path) as file:
        return file.read("spring/submissions.csv").decode().splitlines()[1:]


async def test_an_organiser_has_everything_and_a_user_their_own(opened, export):
    """While the board is frozen. A user's board in the archive is the frozen one."""
    async with opened(HOUR) as (running, keys):
        whole, own_export = await export(running, keys["organiser"]), await export(running, keys["ann"], "own.zip")
    assert len(submissions(whole)) == COUNT
    assert submissions(own_export) and all(",ann," in line for line in submissions(own_export))
    with zipfile.ZipFile(whole) as all_of_it, zipfile.ZipFile(own_export) as part:
        board = "spring/boards/overall.nvidia-h200.csv"
        assert all_of_it.read(board) != part.read(board)
        names, fewer = all_of_it.namelist(), part.namelist()
        assert len([name for name in names if "/sources/kernel." in name]) == COUNT
        assert len([name for name in fewer if "/sources/kernel." in name]) == len(submissions(own_export))
        assert set(fewer) < set(names)
        assert "spring/competition.json" in names and "spring/boards/sum.nvidia-h200.json" in names
        assert {file.external_attr >> 16 for file in all_of_it.infolist()} == {0o600}
        assert b"secret_seed" not in b"".join(all_of_it.read(name) for name in names)
    assert whole.stat().st_mode & 0o777 == 0o600


async def test_the_same_competition_makes_the_same_bytes(opened, export):
    """After the end a user sees all, where the competition allows it."""
    async with opened(-HOUR) as (running, keys):
        first, second = await export(running, keys["ann"]), await export(running, keys["ann"], "b.zip")
        assert first.read_bytes() == second.read_bytes() and len(submissions(first)) == COUNT
        with pytest.raises(UsageError, match=r"a\.zip is there already; name another file"):
            await export(running, keys["ann"])


async def test_a_page_of_submissions_is_written_before_the_next_is_read():
    """Of a competition of any size one page is in memory."""
    calls = []

    class Client:
        async def submission_pages(self, *, competition):
            for page in ("ab", "c"):
                calls.append("page")
                yield [submission_pb2.Submission(name=f"submissions/{name}", user="ann") for name in page]

        async def get_submission(self, name, *, full):
            calls.append(name[-1])
            return submission_pb2.Submission(name=name, user="ann")

    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        assert await competition_export._submissions(Client(), competition_pb2.Competition(), archive, "x") == (3, 1)
    assert calls == ["page", "a", "b", "page", "c"]


@pytest.mark.parametrize("path", ["../x.cu", "/x.cu", "a/../../x.cu", "a\\x.cu", ""])
def test_a_path_that_leads_out_of_the_archive_is_refused(path):
    """A server is not trusted with the file system of who unpacks."""
    with pytest.raises(GraderFailed, match="nothing was written"):
        competition_export._safe(path)
    assert competition_export._safe("a/./x.cu") == "a/x.cu"


def test_a_failed_export_leaves_nothing(tmp_path):
    """Neither the file nor a part of it."""
    with pytest.raises(GraderFailed), whole_file(tmp_path / "a.zip", force=False) as file, zipfile.ZipFile(file, "w") as archive:
        competition_export.add(archive, "x", "y")
        raise GraderFailed("gone")
    assert list(tmp_path.iterdir()) == []
