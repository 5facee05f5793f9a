"""The options of `grader-cli sweep`.  What it does is in `sweep.py`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from grader.cli import sweep as sweep_module
from grader.cli.exits import Exit
from grader.cli.options import DeviceOption, SandboxOption, Server, StateDir
from grader.cli.running import run
from grader.cli.session import Target
from grader.isolations import AUTO
from grader.views.sweeps import SweepMetric


def sweep_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The kernels: each file is one, and one line of the plot.")],
    problem: Annotated[str | None, typer.Option(help="The problem. Default: as for submit; it has to be the same for all files.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write PROBLEM_AXIS.svg and .csv there.", show_default=False),
    ] = None,
    metric: Annotated[
        SweepMetric | None,
        typer.Option(help="GB/s, TFLOP/s, or times. Default: what suits the problem's moved_bytes and flops.", show_default=False),
    ] = None,
    axis: Annotated[str, typer.Option(metavar="AXIS", help="Default: that of the problem's first sweep.", show_default=False)] = "",
    start: Annotated[int | None, typer.Option(metavar="SIZE", help="The first size.", show_default=False)] = None,
    stop: Annotated[int | None, typer.Option(metavar="SIZE", help="No size is larger.", show_default=False)] = None,
    factor: Annotated[float | None, typer.Option(metavar="NUMBER", help="A size is the one before times this.", show_default=False)] = None,
    step: Annotated[int | None, typer.Option(metavar="SIZE", help="A size is the one before plus this.", show_default=False)] = None,
    at: Annotated[
        list[str] | None,
        typer.Option("--at", metavar="AXIS=SIZE", help="The size of another axis; may be given more than once.", show_default=False),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="About how long to time one size, at most 30. Default: the server's (2).", show_default=False),
    ] = None,
    device: DeviceOption = AUTO,
    sandbox: SandboxOption = AUTO,
    server: Server = None,
    state_dir: StateDir = None,
    json: Annotated[bool, typer.Option("--json", help="Print the points and submissions as JSON, and nothing else, on stdout.")] = False,
) -> None:
    """Time kernels and PyTorch over a range of sizes: a table, and with --out a plot. Each size is verified first.

    The first sweep in the problem says which sizes; options change them. A kernel that is wrong at a size has no time there. Nothing is
    scored.
    """

    async def work() -> Exit:
        wanted = sweep_module.sweep_message(axis=axis, start=start, stop=stop, factor=factor, step=step, others=at or (), seconds=seconds)
        order = sweep_module.SweepOptions(
            files=tuple(files),
            problem=problem,
            device_kind="" if device == AUTO else device,
            sweep=wanted,
            out_dir=out,
            metric=metric,
        )
        target = Target(server=server, state_dir=state_dir, sandbox=sandbox, device=device, quiet=json and not sys.stderr.isatty())
        return await sweep_module.sweep(target, order, json=json)

    run(work())
