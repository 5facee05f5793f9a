"""Options of `grader-cli problems import`: what to change in a problem, and where its code runs.  Imports nothing of the server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader.cli import extras
from grader.cli.exits import Exit
from grader.cli.options import StateDir, among, one_of
from grader.isolations import AUTO, isolations

if TYPE_CHECKING:
    from grader.cli import imports as imports_command
else:
    imports_command = extras.CommandModule("grader.cli.imports", "server", "judge")


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


async def import_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A problem, or a directory that holds problems, at any depth.")],
    format_name: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help="Take only problems of this format. Default: every known one.")
    ] = None,
    precision: Annotated[
        str | None, typer.Option(metavar="PRECISION", help="fp32, fp16 or bf16, for kernelbench: what floating tensors are cast to.")
    ] = None,
    set_constants: SetConstants = None,
    tolerance: ToleranceOption = None,
    allow_lower_precision: AllowLowerPrecision = False,
    keep_weights: KeepWeights = False,
    prefix: Annotated[
        str, typer.Option(metavar="PREFIX", help="Put PREFIX_ in front of every id, so that two versions of a set can be there.")
    ] = "",
    state_dir: StateDir = None,
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            help="Check each first, as `problems check` does. Default: where there is one only. --no-check runs nothing.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also keep what the check refuses, and what needs a missing package.")] = False,
    sandbox: SandboxForCheck = AUTO,
    trusted: Trusted = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> Exit:
    """Store problems in the state directory, for later commands. A check runs a problem's code in a sandbox without network.

    Exit code: 0 if any was imported, 2 if none.
    """
    return await imports_command.import_problems(
        path,
        state_dir,
        imports_command.read_adjustments(set_constants, tolerance, allow_lower_precision, keep_weights),
        format_name=format_name,
        precision=precision,
        prefix=prefix,
        check=check,
        sandbox=sandbox,
        trusted=trusted,
        force=force,
        json=json,
    )
