"""`grader-cli report` and `diff`: their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from grader.cli import diff, extras
from grader.cli.exits import Exit
from grader.cli.options import Name, Server, StateDir
from grader.cli.running import run
from grader.cli.session import Target

if TYPE_CHECKING:
    from grader.cli import html_report
else:
    html_report = extras.CommandModule("grader.cli.html_report")  # it needs no extra; its templates take long to import


def report_command(
    name: Name,
    html: Annotated[str, typer.Option("--html", metavar="FILE", help="The file to write, or '-' for stdout.", show_default=False)],
    server: Server = None,
    state_dir: StateDir = None,
) -> None:
    """Write a submission's report as one HTML file: times, plots, sources with compiler remarks, environment, and raw data.

    The file needs no network and contains no script. It can be read on a phone and in dark mode.
    """

    async def work() -> Exit:
        return await html_report.report(Target(server=server, state_dir=state_dir), name, html)

    run(work())


def diff_command(
    first: Annotated[str, typer.Argument(metavar="A", help="A submission: its id, or the beginning of it that no other has.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another submission to the same problem.")],
    server: Server = None,
    state_dir: StateDir = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Compare two submissions: on each workload, is B faster, slower, or can't one tell; and what changed in the sources.

    Faster and slower need two 95 % intervals without 1 within them: that of the times, and that of the speedups over PyTorch, which were
    taken in turns with PyTorch and so do not depend on how the device was at the time.
    """
    run(diff.diff(Target(server=server, state_dir=state_dir), first, second, json=json))
