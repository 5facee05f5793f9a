"""`grader-cli problems check` and `import`: their options.  What they do is in `checks.py` and `imports.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader import devices
from grader.cli import extras
from grader.cli.exits import Exit
from grader.cli.options import StateDir, among, device_choice, one_of
from grader.isolations import AUTO, safe_isolations

if TYPE_CHECKING:
    from grader_extensions.problem_check import checks, imports
else:
    checks = extras.CommandModule("grader_extensions.problem_check.checks", "server", "judge")
    imports = extras.CommandModule("grader_extensions.problem_check.imports", "server", "judge")

_CHECK_SANDBOXES = (AUTO, *safe_isolations())
SandboxForCheck = Annotated[
    str,
    typer.Option(
        "--sandbox",
        metavar=one_of(_CHECK_SANDBOXES),
        callback=among(_CHECK_SANDBOXES),
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
        imports.read_adjustments(set_constants, tolerance, allow_lower_precision=allow_lower_precision, keep_weights=keep_weights),
        sandbox=sandbox,
        trusted=trusted,
        json=json,
    )


async def import_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A problem, a directory of problems at any depth, or a data set.")],
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
    adjustments = imports.read_adjustments(
        set_constants, tolerance, precision=precision, allow_lower_precision=allow_lower_precision, keep_weights=keep_weights
    )
    return await imports.import_problems(
        path, state_dir, adjustments, format_name, prefix, check=check, sandbox=sandbox, trusted=trusted, force=force, json=json
    )
