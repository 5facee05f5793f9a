"""Options that several commands have, and the examples of `--help`.  Imports nothing of the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from grader import devices
from grader.isolations import AUTO, choices


def one_of(names: Sequence[str]) -> str:
    """How `--help` shows an option that takes one of these."""
    return f"[{'|'.join(names)}]"


def among(names: Sequence[str]) -> Callable[[str], str]:
    """A callback that refuses what is not one of these."""

    def check(value: str) -> str:
        if value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, names))}.")
        return value

    return check


def device_choice(value: str) -> str:
    """A device as options take it."""
    if value != AUTO and not devices.well_formed(value):
        raise typer.BadParameter(f"{value!r} is not a device; write {AUTO}, {devices.FORMS}")
    return value


Server = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        envvar="GRADER_SERVER",
        help="The server to use, over TLS unless it is on this host or begins with http://. "
        "Default: that of the last `login`, else the command runs its own.",
    ),
]
StateDir = Annotated[
    Path | None,
    typer.Option(
        help="Where the command's own server keeps its state; goes before the default server of `login`. "
        "[default: $GRADER_STATE_DIR, or grader in the user's state directory]"
    ),
]
OfServer = Annotated[
    str | None, typer.Option("--server", metavar="HOST:PORT", envvar="GRADER_SERVER", help="The server. Default: the default server.")
]
Json = Annotated[bool, typer.Option("--json", help="Print protobuf JSON with proto field names, and nothing else, on stdout.")]
SandboxOption = Annotated[
    str,
    typer.Option(
        metavar=one_of(choices()),
        callback=among(choices()),
        help="The sandbox for the kernel; auto takes the strongest that works here. process is UNSAFE: for your own kernels only.",
    ),
]
DeviceOption = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        callback=device_choice,
        help=f"What to grade on: auto (a GPU where there is one), {devices.FORMS}. emulated runs CUDA C++ on the CPU, for practice.",
    ),
]
Name = Annotated[str, typer.Argument(metavar="ID", help="The submission: the beginning of its id that no other has, or last: your newest.")]

# The panels of `--help`, in their order; commands are registered in theirs.
GRADE, RESULTS, PROBLEMS, SERVERS = "Grade kernels", "Look at results", "Problems and competitions", "Servers"
HERE, ADMINISTRATORS = "This machine", "For administrators"

EXIT_CODES = "Exit codes: 0 accepted or done, 1 another verdict, 2 misuse, 3 the grader failed, 129, 130 or 143 interrupted."


def examples(*pairs: tuple[str, str]) -> str:
    """Paragraphs, since help joins the lines of one."""
    return "\n\n".join(["Examples:", *(f"`{command}`: {effect}" for command, effect in pairs)])


EXAMPLES = (
    ("grader-cli problems list", "what there is to solve"),
    ("grader-cli init vector_add", "write vector_add.cu to begin with"),
    ("grader-cli submit vector_add.cu", "grade it"),
    ("grader-cli login --server grader.example.org:50551", "use this server from now on"),
    ("grader-cli list --verdict ACCEPTED", "your submissions that are right"),
    ("grader-cli show 3fa9c1d2", "one of them"),
)
SUBMIT_EXAMPLES = examples(
    ("grader-cli submit kernel.cu --problem vector_add", "verify it, and time it against PyTorch"),
    ("grader-cli submit kernel.py --mode test", "only verify it"),
    ("grader-cli submit kernel.cu --competition autumn", "enter a competition"),
    ("cat kernel.cu | grader-cli submit - --problem vector_add", "from standard input"),
    ("grader-cli submit kernel.cu --local --device emulated", "without a server or a GPU"),
)
LIST_EXAMPLES = examples(
    ("grader-cli list --verdict ACCEPTED,WRONG_ANSWER", "all with one of these"),
    ("grader-cli list --problem vector_add --limit 5", "the last five of one problem"),
)
