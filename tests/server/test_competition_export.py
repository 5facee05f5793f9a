"""`competitions export`: one archive with all that the caller may see, and nothing more."""

import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grader.cli import competition_export
from grader.cli.exits import GraderFailed, UsageError
from grader.cli.session import Target
from grader.server.rehearsal import ORGANISER_KEY, USER_KEY, RehearsalStage, prepare
from tests.server.test_rehearsal import served

USER = "rehearsal-01"


@pytest.fixture
def export(monkeypatch, tmp_path):
    """Export the rehearsal of this server with this key; the archive."""

    async def made(running, key, name="a.zip"):
        monkeypatch.setenv("GRADER_KEY", key)
        await competition_export.export(Target(server=running.address), "rehearsal", tmp_path / name, force=False)
        return tmp_path / name

    return made


def submissions(path: Path) -> list[str]:
    """The lines of the list of submissions."""
    with zipfile.ZipFile(path) as file:
        return file.read("rehearsal/submissions.csv").decode().splitlines()[1:]


async def test_an_organiser_has_everything_and_a_user_their_own(place, export):
    """While the board is frozen. A user's board in the archive is the frozen one."""
    made = await prepare(place / "r", stage=RehearsalStage.FROZEN, now=datetime.now(UTC))
    organiser, user = [(made.directory / one).read_text().strip() for one in (ORGANISER_KEY, USER_KEY)]
    async with served(made) as (running, _, _):
        whole, own = await export(running, organiser), await export(running, user, "own.zip")
    assert len(submissions(whole)) == made.record.submission_count
    assert submissions(own) and all(f",{USER}," in line for line in submissions(own))
    with zipfile.ZipFile(whole) as all_of_it, zipfile.ZipFile(own) as part:
        board = "rehearsal/boards/overall.rehearsal-simulated-times.csv"
        assert all_of_it.read(board) != part.read(board)
        names, fewer = all_of_it.namelist(), part.namelist()
        assert len([one for one in names if "/sources/kernel." in one]) == made.record.submission_count
        assert len([one for one in fewer if "/sources/kernel." in one]) == len(submissions(own))
        assert set(fewer) < set(names)
        assert "rehearsal/competition.json" in names and "rehearsal/boards/double.rehearsal-simulated-times.json" in names
        assert {one.external_attr >> 16 for one in all_of_it.infolist()} == {0o600}
        assert b"secret_seed" not in b"".join(all_of_it.read(one) for one in names)
    assert whole.stat().st_mode & 0o777 == 0o600


async def test_the_same_competition_makes_the_same_bytes(place, export):
    """After the end a user sees all, where the competition allows it."""
    made = await prepare(place / "r", stage=RehearsalStage.ENDED, now=datetime.now(UTC))
    user = (made.directory / USER_KEY).read_text().strip()
    async with served(made) as (running, _, _):
        first, second = await export(running, user), await export(running, user, "b.zip")
        assert first.read_bytes() == second.read_bytes() and len(submissions(first)) == made.record.submission_count
        with pytest.raises(UsageError, match=r"a\.zip is there already; name another file with --out"):
            await export(running, user)


@pytest.mark.parametrize("path", ["../x.cu", "/x.cu", "a/../../x.cu", "a\\x.cu", ""])
def test_a_path_that_leads_out_of_the_archive_is_refused(path):
    """A server is not trusted with the file system of who unpacks."""
    with pytest.raises(GraderFailed, match="nothing was written"):
        competition_export._safe(path)
    assert competition_export._safe("a/./x.cu") == "a/x.cu"


def test_a_failed_export_leaves_nothing(tmp_path):
    """Neither the file nor a part of it."""
    with pytest.raises(GraderFailed), competition_export._written(tmp_path / "a.zip", force=False) as file:
        competition_export.CompetitionArchive(file).add("x", "y")
        raise GraderFailed("gone")
    assert list(tmp_path.iterdir()) == []
