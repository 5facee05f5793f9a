"""`grader-cli source`: prints or saves what was submitted.  What the server sends is untrusted: paths are checked here again."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated

import typer

from grader.cli.exits import Exit, GraderFailed, Misuse
from grader.cli.options import Name, Server, StateDir
from grader.cli.progress import stdout_console
from grader.cli.running import run
from grader.cli.session import Need, Target, connect
from grader.cli.short_ids import whole_name
from grader.cli.text import one_line, plain, print_untrusted
from grader.cli.written_files import open_directory
from grader.v1 import submission_pb2

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def source_command(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Save the files there. Nothing is overwritten. Default: print them.", show_default=False),
    ] = None,
    server: Server = None,
    state_dir: StateDir = None,
) -> None:
    """Print the sources of a submission, or save them. Several files are printed with a line '==> PATH <==' before each."""
    run(source(Target(server=server, state_dir=state_dir), name, out))


async def source(target: Target, name: str, out: Path | None) -> Exit:
    """Print or save the sources."""
    async with connect(target, Need.READ) as client:
        submission = await client.get_submission(await whole_name(client, name))
    if submission.sources_removed or not submission.sources:
        raise Misuse(f"{one_line(submission.name)}: its sources are not kept any more; verdict and score are: grader-cli show")
    if out is not None:
        for path in save(submission.sources, out):
            stdout_console().print(plain(str(path)), soft_wrap=True)
        return Exit.DONE
    for one in submission.sources:
        if len(submission.sources) > 1:
            print(f"==> {one_line(one.path)} <==")
        print_untrusted(one.content)
    return Exit.DONE


def save(sources: Sequence[submission_pb2.SourceFile], out: Path) -> list[Path]:
    """Write the files below a directory, and return their paths. None that is there is overwritten, and no link is followed."""
    directory = open_directory(out)
    try:
        return [out / _save(one, directory, out) for one in sources]
    finally:
        os.close(directory)


def _save(one: submission_pb2.SourceFile, directory: int, out: Path) -> PurePosixPath:
    path = PurePosixPath(one.path)
    if not path.name or path.is_absolute() or ".." in path.parts or not one.path.isprintable():
        raise GraderFailed(f"the server names a file {one.path[:100]!r}, which is not a path below a directory; it was not saved")
    folder = os.dup(directory)
    try:
        for part in path.parts[:-1]:
            folder = _enter(folder, part)
        with os.fdopen(os.open(path.name, _NEW, 0o644, dir_fd=folder), "w", encoding="utf-8", newline="") as file:
            file.write(one.content)
    except FileExistsError:
        raise Misuse(f"--out: {out / path} is there already; remove it, or name another directory") from None
    except OSError as error:
        raise Misuse(f"--out: {out / path} can't be written: {error.strerror}; name another directory") from None
    finally:
        os.close(folder)
    return path


def _enter(folder: int, part: str) -> int:
    """A descriptor of a directory in another, whose own is closed."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=folder)
    entered = os.open(part, _FOLDER, dir_fd=folder)
    os.close(folder)
    return entered
