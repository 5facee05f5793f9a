"""Options of `grader-cli report`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from grader.cli import extras
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
