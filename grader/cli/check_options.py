"""Options of `grader-cli problems check` and `import`: where a problem's code runs.  Imports nothing of the server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from grader.cli.exits import Misuse


class CheckSandbox(StrEnum):
    """What keeps a problem's code in."""

    AUTO = "auto"
    DOCKER = "docker"
    BUBBLEWRAP = "bubblewrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlace:
    """Where to run a problem's code. trusted: as our own user, without a box."""

    sandbox: CheckSandbox = CheckSandbox.AUTO
    trusted: bool = False

    def __post_init__(self) -> None:
        if self.trusted and self.sandbox is not CheckSandbox.AUTO:
            raise Misuse("--trusted runs the problem's code without a sandbox; leave out --sandbox or --trusted")


SandboxForCheck = Annotated[
    CheckSandbox, typer.Option("--sandbox", help="What the problem's code runs in; auto takes the strongest that works here.")
]
Trusted = Annotated[
    bool, typer.Option("--trusted", help="Run the problem's code as you, without a sandbox. Only for problems whose authors you trust.")
]
