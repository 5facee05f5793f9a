"""`grader-cli competitions export`: boards, submissions, sources and reports as one archive, as far as the caller may see them."""

from __future__ import annotations

import pickle
import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, BinaryIO, TextIO

import typer

from grader.api.client import GraderClient
from grader.api.resource_names import COMPETITIONS, PROBLEMS, SUBMISSIONS, full_name, resource_id
from grader.cli.exits import Exit, GraderFailed
from grader.cli.options import Server, StateDir
from grader.cli.output import json_text, print_line
from grader.cli.session import ServerRequirement, Target, connect
from grader.v1 import competition_pb2
from grader.views import formatting
from grader.views.sanitize import one_line
from grader_extensions.competitions.calls import CompetitionCalls
from grader_extensions.competitions.cli.competitions import CompetitionName, read_board, to_csv
from grader_extensions.export_file import csv_text, whole_file
from grader_extensions.statistics.records import fetched, row

OVERALL = "overall"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file: the same competition makes the same bytes
_PERMISSIONS = 0o600
_COLUMNS = (
    *("submission", "user", "problem", "create_time", "language", "mode", "state", "verdict", "reason"),
    *("score", "score_low", "score_high"),
)


async def export_command(
    name: CompetitionName,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The zip file to write. Default: ID.zip.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    server: Server = None,
    state_dir: StateDir = None,
) -> Exit:
    """Write a competition as one zip file: boards (CSV, JSON), submissions with reports, and sources.

    It holds what you may see: of an administrator everything, of a user their own submissions, and those of all where the competition shows
    them after its end. The same submissions make the same file.
    """
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.READ) as client:
        competition = await CompetitionCalls(client).get_competition(full_name("competitions", name))
        competition_id = resource_id(COMPETITIONS, competition.name)
        path = out or Path(f"{competition_id}.zip")
        with open_archive(path, force=force) as archive:
            add(archive, f"{competition_id}/competition.json", json_text(competition) + "\n")
            boards = await _boards(client, competition, archive, competition_id)
            count, users = await _submissions(client, competition, archive, competition_id)
    print_line(one_line(f"{path}: {boards} boards, {count} submissions of {users} users; what your key may not see is not in it"))
    return Exit.DONE


class _Entries(list[zipfile.ZipInfo]):
    """The list of an archive's files, on disk until it is written at the end: in memory it takes 0.9 kB a submission."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._count = file, 0

    def append(self, entry: zipfile.ZipInfo) -> None:
        """Add a file."""
        pickle.dump(entry, self._file)
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[zipfile.ZipInfo]:
        self._file.seek(0)
        return (pickle.load(self._file) for _ in range(self._count))


@contextmanager
def open_archive(path: Path, *, force: bool) -> Iterator[zipfile.ZipFile]:
    """Open a zip file to write to, which takes as much memory for many files as for few; see `whole_file`."""
    with whole_file(path, force=force) as file, tempfile.TemporaryFile(dir=path.parent) as entries, zipfile.ZipFile(file, "w") as archive:
        archive.filelist = _Entries(entries)
        yield archive


def add(archive: zipfile.ZipFile, path: str, content: str | TextIO) -> None:
    """Write one file, without its time."""
    entry = zipfile.ZipInfo(path, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = _PERMISSIONS << 16
    entry.create_system = 3  # Unix: the permissions are its
    with archive.open(entry, "w") as file:
        file.writelines(piece.encode() for piece in ([content] if isinstance(content, str) else content))
    archive.NameToInfo.clear()  # the same list, by name


async def _boards(client: GraderClient, competition: competition_pb2.Competition, archive: zipfile.ZipFile, root: str) -> int:
    count = 0
    for problem in ("", *competition.problems) if len(competition.problems) > 1 else tuple(competition.problems):
        first = await read_board(client, root, problem=problem, everything=True)
        for device in sorted(first.devices) or [""]:
            board = first if device == first.device else await read_board(client, root, problem=problem, device=device, everything=True)
            slug = re.sub(r"[^A-Za-z0-9]+", "-", device).strip("-").lower()[:80] or "device"
            stem = f"{root}/boards/{resource_id(PROBLEMS, problem) or OVERALL}" + (f".{slug}" if device else "")
            add(archive, f"{stem}.csv", to_csv(board))
            add(archive, f"{stem}.json", json_text(board) + "\n")
            count += 1
    return count


async def _submissions(
    client: GraderClient, competition: competition_pb2.Competition, archive: zipfile.ZipFile, root: str
) -> tuple[int, int]:
    """Write reports and sources of all, newest first, and a list; return how many submissions there are, and of how many users."""
    count, users = 0, set[str]()
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as table:
        table.write(csv_text((*(name.removeprefix("score_") for name in _COLUMNS), "withdrawn")))
        async for page in client.submission_pages(competition=competition.name):
            async for submission in fetched(client, page, full=True):
                count += 1
                users.add(submission.user)
                values = row(submission)
                table.write(csv_text((*(values[name] for name in _COLUMNS), formatting.withdrawal(submission))))
                place = f"{root}/submissions/{resource_id(SUBMISSIONS, submission.name)}"
                for source in submission.sources:
                    add(archive, f"{place}/sources/{_safe(source.path)}", source.content)
                del submission.sources[:]
                add(archive, f"{place}/submission.json", json_text(submission) + "\n")
        table.seek(0)
        add(archive, f"{root}/submissions.csv", table)
    return count, len(users)


def _safe(path: str) -> str:
    """A source's path, which stays below its directory."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\\" in path:
        raise GraderFailed(f"the server sent a source with the path {path[:80]!r}, which leads out of the archive; nothing was written")
    return "/".join(parts)
