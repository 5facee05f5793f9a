"""`grader-cli demo`: the six kernels of the triangular matmul story, each with the verdict that its first line expects."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console, RenderableType
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from grader import devices
from grader.api.client import GraderClient
from grader.cli import report, sources
from grader.cli.exits import Exit, UsageError
from grader.cli.output import plain, stdout_console
from grader.cli.progress import GradingStages, ProgressDisplay, live
from grader.cli.session import EXAMPLES, ServerRequirement, Target, connect
from grader.cli.submit import follow
from grader.dispatch.gpus import Gpu, discover, why_unusable
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line
from grader.views.workload_rows import max_error

PROBLEM = "tril_matmul"
STORY = ("correct_2d", "correct_unrolled", "divergent_sync", "zeros", "stale_memory", "wmma_float")
_EXPECT = "// expect:"


@dataclass(slots=True, kw_only=True)
class Kernel(ProgressDisplay):
    """A kernel of the demo on its way to a verdict."""

    name: str
    path: Path
    expected: tuple[str, ...]
    stages: GradingStages = field(default_factory=lambda: GradingStages(time.monotonic()))
    begun_s: float = field(default_factory=time.monotonic)
    final: submission_pb2.Submission | None = None
    console: Console | None = None  # where to say a line for every step; None where all is redrawn

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Take one event in."""
        for line in self.stages.feed(event, time.monotonic()):
            if self.console is not None:
                self.console.print(f"{self.name}: {one_line(line)}")

    @property
    def as_expected(self) -> bool:
        """Compare verdict and reason with the expected ones."""
        if self.final is None or self.final.state != submission_pb2.SUBMISSION_STATE_SUCCEEDED:
            return False
        outcome = (formatting.verdict_name(self.final.report), self.final.report.reason)
        return outcome[: len(self.expected)] == self.expected


async def demo(target: Target) -> Exit:
    """Grade the story's kernels side by side and compare their verdicts."""
    kernels = [read_kernel(EXAMPLES / PROBLEM / f"{name}.cu") for name in STORY]
    console = stdout_console()
    console.print(f"grading {len(kernels)} kernels for {PROBLEM} on {where(target.device)}; the first build of each takes some seconds")
    scratch = tempfile.TemporaryDirectory(prefix="grader-demo-") if target.state_dir is None else nullcontext(str(target.state_dir))
    with scratch as state_dir:
        async with connect(replace(target, state_dir=Path(state_dir)), ServerRequirement.GRADE) as client:
            if console.is_terminal:
                spinner = Spinner("dots")
                with live(console, lambda: _progress_table(kernels, spinner)):
                    await _grade_all(client, kernels)
            else:
                for kernel in kernels:
                    kernel.console = console
                await _grade_all(client, kernels)
    _conclude(console, kernels)
    return Exit.DONE if all(kernel.as_expected for kernel in kernels) else Exit.OTHER_VERDICT


def where(choice: str, find: Callable[[], Sequence[Gpu]] = discover, why_not: Callable[[], str | None] = why_unusable) -> str:
    """The device that this choice means here; the server decides the same way."""
    gpus = [] if choice == devices.EMULATED else [gpu for gpu in find() if choice == "auto" or devices.fits(choice, gpu.index, gpu.name)]
    if gpus and why_not() is None:
        return f"{devices.CUDA} ({', '.join(dict.fromkeys(gpu.name for gpu in gpus))})"
    return "the emulated device" if choice in ("auto", devices.EMULATED) else choice


def read_kernel(path: Path) -> Kernel:
    """A kernel with what its first line expects."""
    if not path.is_file():
        raise UsageError(f"the demo's kernels are part of the source tree, and {path} is missing; run it from a clone")
    first = path.read_text("utf-8").split("\n", 1)[0]
    if not first.startswith(_EXPECT):
        raise UsageError(f"{path} does not begin with '{_EXPECT} VERDICT [REASON]'; add that line")
    return Kernel(name=path.stem, path=path, expected=tuple(first.removeprefix(_EXPECT).split()))


async def _grade_all(client: GraderClient, kernels: list[Kernel]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for kernel in kernels:
                group.create_task(_grade(client, kernel))
    except ExceptionGroup as failures:  # one is as good as all: they share the server
        raise failures.exceptions[0] from None


async def _grade(client: GraderClient, kernel: Kernel) -> None:
    handed = sources.read([kernel.path], PROBLEM)
    submission = await client.submit(
        submission_pb2.Submission(
            problem=f"problems/{PROBLEM}",
            sources=[submission_pb2.SourceFile(path=source.path, content=source.content) for source in handed.sources],
        )
    )
    kernel.final = await follow(client, submission.name, kernel)
    if kernel.console is not None:
        kernel.console.print(f"{kernel.name}: {_outcome(kernel)}")


def _outcome(kernel: Kernel) -> str:
    final = kernel.final
    if final is None:
        return kernel.stages.label
    if final.HasField("report"):
        return formatting.verdict_name(final.report)
    return f"{formatting.state_name(final)} {one_line(final.error.message)}"


def _progress_table(kernels: list[Kernel], spinner: Spinner) -> Table:
    table = Table.grid(padding=(0, 2))
    now_s = time.monotonic()
    for kernel in kernels:
        mark: RenderableType = spinner if kernel.final is None else Text("+" if kernel.as_expected else "x")
        elapsed = f"{now_s - kernel.begun_s:.1f} s" if kernel.final is None else ""
        table.add_row(mark, kernel.name, plain(one_line(_outcome(kernel))), Text(elapsed, style="dim"))
    return table


def _conclude(console: Console, kernels: list[Kernel]) -> None:
    table = Table("kernel", "verdict", "reason", box=None, pad_edge=False)
    for heading in ("unwritten", "max error", "reported", "certified"):
        table.add_column(heading, justify="right")
    for heading in ("isolation", "device", "as expected"):
        table.add_column(heading)
    for kernel in kernels:
        table.add_row(*_row(kernel))
    console.print()
    console.print(table)
    environments = [
        kernel.final.report.environment for kernel in kernels if kernel.final is not None and kernel.final.report.HasField("environment")
    ]
    if environments:
        for line in report.environment(environments[0]):
            console.print(line, soft_wrap=True)
    wrong = [kernel.name for kernel in kernels if not kernel.as_expected]
    if wrong:
        console.print(Text(f"not as expected: {', '.join(wrong)}", style="bold red"))
    else:
        console.print(Text(f"all {len(kernels)} verdicts are as expected", style="bold green"))


def _row(kernel: Kernel) -> list[RenderableType]:
    final = kernel.final
    expected = Text("yes", style="green") if kernel.as_expected else Text(f"no: {' '.join(kernel.expected)}", style="red")
    if final is None or not final.HasField("report"):
        return [kernel.name, plain(_outcome(kernel)), *[""] * 7, expected]
    graded = final.report
    trials = list(graded.trials)
    unwritten = max(trials, key=lambda trial: trial.unwritten_count / max(trial.element_count, 1), default=report_pb2.Trial())
    return [
        kernel.name,
        formatting.verdict_name(graded),
        plain(one_line(graded.reason)),
        formatting.share(unwritten.unwritten_count, unwritten.element_count),
        formatting.error(max_error(trials)),
        formatting.middle_time(graded.measurements, "reported"),
        formatting.middle_time(graded.measurements, "certified"),
        plain(one_line(graded.environment.isolation)),
        plain(one_line(graded.environment.device_kind)),
        expected,
    ]
