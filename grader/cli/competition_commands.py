"""`grader-cli competitions check`, `new` and `export`: their options.  What they do is in the other modules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader.cli import competition_export, extras
from grader.cli.exits import Exit
from grader.cli.options import Server, StateDir
from grader.cli.running import run
from grader.cli.session import Target

if TYPE_CHECKING:
    from grader.cli import competition_files
else:
    competition_files = extras.CommandModule("grader.cli.competition_files", "server")

ProblemDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--problems",
        metavar="DIR",
        help="A directory of problems, as of the server. May be repeated. Default: kernels_examples of a source tree. "
        "Imported problems are known too.",
        show_default=False,
    ),
]
ImportedIn = Annotated[
    Path | None,
    typer.Option(
        "--state-dir", metavar="DIR", help="Where problems were imported. [default: $GRADER_STATE_DIR, or the user's state directory]"
    ),
]


def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A competition.toml, or its directory.")],
    problems: ProblemDirs = None,
    state_dir: ImportedIn = None,
) -> None:
    """Check a competition's file, and print every mistake with its line, its key and what to write.

    Exit code: 0 if a server takes it, 1 if not.
    """

    async def work() -> Exit:
        return competition_files.check(file, problems or (), state_dir)

    run(work())


def new_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The competition's name, and the directory that is made for it.")],
    problem: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A problem of it. May be repeated. Default: the first.", show_default=False)
    ] = None,
    problems: ProblemDirs = None,
    state_dir: ImportedIn = None,
) -> None:
    """Write NAME/competition.toml: a competition of two days from tomorrow, with a comment on each key and a random seed."""

    async def work() -> Exit:
        return competition_files.new(name, problem or (), problems or (), state_dir)

    run(work())


def export_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="competitions/ID, or just ID.")],
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="The zip file to write. Default: ID.zip.", show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    server: Server = None,
    state_dir: StateDir = None,
) -> None:
    """Write a competition as one zip file: boards (CSV, JSON), submissions with reports, and sources.

    It holds what you may see: of an administrator everything, of a user their own submissions, and those of all where the competition shows
    them after its end. The same submissions make the same file.
    """
    run(competition_export.export(Target(server=server, state_dir=state_dir), name, out, force=force))
