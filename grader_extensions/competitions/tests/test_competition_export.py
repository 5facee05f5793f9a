"""`competitions export`: one archive with all that the caller may see, and nothing more."""

import io
import tracemalloc
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


class Client:
    """Lists submissions by pages, and notes what is called."""

    def __init__(self, *pages):
        self.pages, self.calls = pages, []

    async def submission_pages(self, *, competition):
        for page in self.pages:
            self.calls.append("page")
            yield [submission_pb2.Submission(name=f"submissions/{name}") for name in page]

    async def get_submission(self, name, *, full):
        self.calls.append(name.removeprefix("submissions/"))
        return submission_pb2.Submission(name=name, user="ann", sources=[submission_pb2.SourceFile(path="kernel.cu", content="x")])


async def test_a_page_of_submissions_is_written_before_the_next_is_read():
    """Of a competition of any size one page is in memory."""
    client = Client("ab", "c")
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        assert await competition_export._submissions(client, competition_pb2.Competition(), archive, "x") == (3, 1)
    assert client.calls == ["page", "a", "b", "page", "c"]


async def test_an_archive_of_many_submissions_takes_no_more_memory_than_one_of_few(tmp_path):
    """At its end, with all files in it. The control: zipfile alone, which keeps a list of them in memory."""

    async def size_of(opened, count):
        """Return the bytes that the export and zipfile have allocated."""
        pages = [[f"{page:x}-{number}" for number in range(20)] for page in range(count // 20)]
        modules = [tracemalloc.Filter(True, module.__file__) for module in (competition_export, zipfile)]
        tracemalloc.start()
        try:
            with opened as archive:
                await competition_export._submissions(Client(*pages), competition_pb2.Competition(), archive, "x")
                return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(modules).traces)
        finally:
            tracemalloc.stop()

    few, many = [await size_of(competition_export.open_archive(tmp_path / f"{count}", force=False), count) for count in (100, 1000)]
    assert many - few < 10 * 900
    few, many = [await size_of(zipfile.ZipFile(io.BytesIO(), "w"), count) for count in (100, 1000)]
    assert many - few > 300 * 900
    with zipfile.ZipFile(tmp_path / "1000") as archive:
        assert archive.testzip() is None and len(archive.namelist()) == 2 * 1000 + 1


@pytest.mark.parametrize("path", ["../x.cu", "/x.cu", "a/../../x.cu", "a\\x.cu", ""])
def test_a_path_that_leads_out_of_the_archive_is_refused(path):
    """A server is not trusted with the file system of who unpacks."""
    with pytest.raises(GraderFailed, match="nothing was written"):
        competition_export._safe(path)
    assert competition_export._safe("a/./x.cu") == "a/x.cu"


def test_a_failed_export_leaves_nothing(tmp_path):
    """Neither the file nor a part of it."""
    with pytest.raises(GraderFailed), competition_export.open_archive(tmp_path / "a.zip", force=False) as archive:
        competition_export.add(archive, "x", "y")
        raise GraderFailed("gone")
    assert list(tmp_path.iterdir()) == []
