"""Options of `grader-cli problems import`: what to change in a problem, and where its code runs.  Imports nothing of the server."""

from __future__ import annotations

from typing import Annotated

import typer

from grader.cli.options import among, one_of
from grader.isolations import AUTO, isolations


def safe_isolations() -> list[str]:
    """The isolations that a problem's code may run in, strongest first."""
    return [isolation.name for isolation in isolations().values() if isolation.safe]


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
SetConstants = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Set a constant that a kernelbench file assigns at its top level, such as batch_size=4. Can be given several times.",
    ),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option("--tolerance", metavar="T", help="For kernelbench: an element is right within T + T * |reference|, such as 1e-2."),
]
AllowLowerPrecision = Annotated[
    bool, typer.Option("--allow-lower-precision", help="For kernelbench: an answer computed in half precision or TF32 may be right.")
]
KeepWeights = Annotated[
    bool,
    typer.Option(
        "--keep-weights", help="For kernelbench: keep weights that start as one constant, such as a norm's, instead of drawing them."
    ),
]
