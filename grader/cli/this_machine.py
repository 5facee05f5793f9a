"""`grader-cli doctor`, `demo` and `problems import`: their options.  What they do needs extras, which are loaded then."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader.cli import extras
from grader.cli.exits import Exit
from grader.cli.options import (
    AllowLowerPrecision,
    DeviceOption,
    KeepWeights,
    SandboxForCheck,
    SandboxOption,
    SetConstants,
    StateDir,
    ToleranceOption,
    Trusted,
)
from grader.cli.session import Target
from grader.isolations import AUTO

if TYPE_CHECKING:
    from grader.cli import demo as demo_command
    from grader.cli import doctor as doctor_command
    from grader.cli import imports
else:
    demo_command = extras.CommandModule("grader.cli.demo", "server", "judge")
    doctor_command = extras.CommandModule("grader.cli.doctor", "server")
    imports = extras.CommandModule("grader.cli.imports", "server", "judge")


async def doctor(json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> Exit:
    """Show which devices, isolations and compilers work here; for the others, why not and what to do.

    Exit code: 0 if kernels can be graded here, 3 if not.
    """
    return await doctor_command.doctor(json=json)


async def demo(sandbox: SandboxOption = AUTO, device: DeviceOption = AUTO, state_dir: StateDir = None) -> Exit:
    """Grade six kernels of a triangular matmul, and check that each gets its expected verdict.

    Exit code: 0 if every verdict is the one that the kernel's first line expects, 1 if not.
    """
    return await demo_command.demo(Target(state_dir=state_dir, sandbox=sandbox, device=device))


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
    adjustments = imports.read_adjustments(set_constants, tolerance, allow_lower_precision, keep_weights)
    return await imports.import_problems(
        path, state_dir, adjustments, format_name, precision, prefix, check=check, sandbox=sandbox, trusted=trusted, force=force, json=json
    )
