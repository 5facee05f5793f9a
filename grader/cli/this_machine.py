"""`grader-cli doctor` and `demo`: their options.  What they do needs extras, which are loaded then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from grader.cli import extras
from grader.cli.exits import Exit
from grader.cli.options import DeviceOption, SandboxOption, StateDir
from grader.cli.session import Target
from grader.isolations import AUTO

if TYPE_CHECKING:
    from grader.cli import demo as demo_command
    from grader.cli import doctor as doctor_command
else:
    demo_command = extras.CommandModule("grader.cli.demo", "server", "judge")
    doctor_command = extras.CommandModule("grader.cli.doctor", "server")


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
