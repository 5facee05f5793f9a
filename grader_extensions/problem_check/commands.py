"""`grader-cli problems check`: its options.  What it does is in `checks.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import devices
from grader.cli import extras
from grader.cli.exits import Exit
from grader.cli.options import (
    AllowLowerPrecision,
    KeepWeights,
    SandboxForCheck,
    SetConstants,
    ToleranceOption,
    Trusted,
    device_choice,
)
from grader.isolations import AUTO

if TYPE_CHECKING:
    from grader_extensions.problem_check import checks
else:
    checks = extras.CommandModule("grader_extensions.problem_check.checks", "server", "judge")


async def check_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A problem, or a directory of problems.")],
    device: Annotated[
        str,
        typer.Option(
            metavar="DEVICE", callback=device_choice, help=f"What to check on: {devices.FORMS}. Not a GPU that a server is using."
        ),
    ] = devices.EMULATED,
    budget: Annotated[float, typer.Option(min=1.0, max=3600.0, help="Seconds for each problem; larger workloads are left out.")] = 30.0,
    set_constants: SetConstants = None,
    tolerance: ToleranceOption = None,
    allow_lower_precision: AllowLowerPrecision = False,
    keep_weights: KeepWeights = False,
    sandbox: SandboxForCheck = AUTO,
    trusted: Trusted = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> Exit:
    """Check whether a problem rejects wrong answers: run its reference, and try wrong answers on its tolerance.

    The reference runs in a sandbox without network, unless --trusted is given.

    Exit code: 0 if it is admitted, 1 if not.
    """
    return await checks.check_all(
        path,
        device,
        budget,
        checks.read_adjustments(set_constants, tolerance, allow_lower_precision, keep_weights),
        sandbox=sandbox,
        trusted=trusted,
        json=json,
    )
