"""Options of `grader-cli problems check` and `import`: where a problem's code runs.  Imports nothing of the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from grader.cli.exits import Misuse
from grader.cli.options import among, one_of
from grader.isolations import AUTO, isolations


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlace:
    """Where to run a problem's code. trusted: as our own user, without a box."""

    sandbox: str = AUTO
    trusted: bool = False

    def __post_init__(self) -> None:
        if self.trusted and self.sandbox != AUTO:
            raise Misuse("--trusted runs the problem's code without a sandbox; leave out --sandbox or --trusted")


def safe_isolations() -> list[str]:
    """The isolations that a problem's code may run in, strongest first."""
    return [one.name for one in isolations().values() if one.safe]


SandboxForCheck = Annotated[
    str,
    typer.Option(
        "--sandbox",
        metavar=one_of((AUTO, *safe_isolations())),
        callback=among((AUTO, *safe_isolations())),
        help="The sandbox for the problem's code; auto takes the strongest that works here.",
    ),
]
Trusted = Annotated[
    bool, typer.Option("--trusted", help="Run the problem's code as you, without a sandbox. Only for problems whose authors you trust.")
]
