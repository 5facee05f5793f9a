"""`grader-cli doctor`: its options.  What it does needs an extra, which is loaded then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from grader.cli import extras
from grader.cli.exits import Exit

if TYPE_CHECKING:
    from grader_extensions.operation import host_doctor
else:
    host_doctor = extras.CommandModule("grader_extensions.operation.host_doctor", "server")


async def doctor(json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> Exit:
    """Show which devices, isolations and compilers work here; for the others, why not and what to do.

    Exit code: 0 if kernels can be graded here, 3 if not.
    """
    return await host_doctor.doctor(json=json)
