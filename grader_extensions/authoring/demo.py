"""`grader-cli demo`: the six kernels of the triangular matmul story, each with the verdict that its first line expects."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from grader import devices
from grader.api.client import GraderClient
from grader.cli import report, sources
from grader.cli.exits import Exit, UsageError
from grader.cli.output import print_line, print_parts, text_table
from grader.cli.progress import GradingStages, ProgressDisplay
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

    path: Path
    expected: tuple[str, ...]
    stages: GradingStages = field(default_factory=lambda: GradingStages(time.monotonic()))
    final: submission_pb2.Submission = field(default_factory=submission_pb2.Submission)

    @property
    def name(self) -> str:
        """The name of the file without its ending."""
        return self.path.stem

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Print the lines that an event adds."""
        for line in self.stages.feed(event, time.monotonic()):
            print_line(f"{self.name}: {one_line(line)}")

    @property
    def outcome(self) -> str:
        """The verdict, or the failure of the grader."""
        if self.final.HasField("report"):
            return formatting.verdict_name(self.final.report)
        return f"{formatting.state_name(self.final)} {one_line(self.final.error.message)}"

    @property
    def as_expected(self) -> bool:
        """Compare verdict and reason with the expected ones."""
        outcome = (formatting.verdict_name(self.final.report), self.final.report.reason)
        return self.final.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED and outcome[: len(self.expected)] == self.expected


async def demo(target: Target) -> Exit:
    """Grade the story's kernels side by side and compare their verdicts."""
    kernels = [read_kernel(EXAMPLES / PROBLEM / f"{name}.cu") for name in STORY]
    print(f"grading {len(kernels)} kernels for {PROBLEM} on {where(target.device)}; the first build of each takes some seconds")
    scratch = tempfile.TemporaryDirectory(prefix="grader-demo-") if target.state_dir is None else nullcontext(str(target.state_dir))
    with scratch as state_dir:
        async with connect(replace(target, state_dir=Path(state_dir)), ServerRequirement.GRADE) as client:
            try:
                async with asyncio.TaskGroup() as group:
                    for kernel in kernels:
                        group.create_task(_grade(client, kernel))
            except ExceptionGroup as failures:  # all of them share the server, so that the first says enough
                raise failures.exceptions[0] from None
    print_parts(_summary(kernels))
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
    return Kernel(path=path, expected=tuple(first.removeprefix(_EXPECT).split()))


async def _grade(client: GraderClient, kernel: Kernel) -> None:
    files = sources.read([kernel.path], PROBLEM)
    submission = await client.submit(
        submission_pb2.Submission(
            problem=f"problems/{PROBLEM}",
            sources=[submission_pb2.SourceFile(path=source.path, content=source.content) for source in files.sources],
        )
    )
    kernel.final = await follow(client, submission.name, kernel)
    print_line(f"{kernel.name}: {kernel.outcome}")


def _summary(kernels: Sequence[Kernel]) -> Iterator[RenderableType]:
    numbers = ("unwritten", "max error", "reported", "certified")
    yield Text()
    yield text_table(("kernel", "verdict", "reason", *numbers, "isolation", "device", "as expected"), map(_row, kernels), right=numbers)
    for kernel in kernels:
        if kernel.final.report.HasField("environment"):
            yield from report.environment(kernel.final.report.environment)
            break
    if wrong := [kernel.name for kernel in kernels if not kernel.as_expected]:
        yield Text(f"not as expected: {', '.join(wrong)}", style="bold red")
    else:
        yield Text(f"all {len(kernels)} verdicts are as expected", style="bold green")


def _row(kernel: Kernel) -> list[str | Text]:
    expected = Text("yes", style="green") if kernel.as_expected else Text(f"no: {' '.join(kernel.expected)}", style="red")
    graded = kernel.final.report
    trials = list(graded.trials)
    unwritten = max(trials, key=lambda trial: trial.unwritten_count / max(trial.element_count, 1), default=report_pb2.Trial())
    return [
        kernel.name,
        kernel.outcome,
        graded.reason,
        formatting.share(unwritten.unwritten_count, unwritten.element_count),
        formatting.error(max_error(trials)),
        _middle_time(graded.measurements, "reported"),
        _middle_time(graded.measurements, "certified"),
        graded.environment.isolation,
        graded.environment.device_kind,
        expected,
    ]


def _middle_time(measurements: Sequence[report_pb2.Measurement], field: str) -> str:
    medians = [getattr(measurement, field).median_duration for measurement in measurements if measurement.HasField(field)]
    return formatting.time(statistics.median(median.ToNanoseconds() for median in medians)) if medians else "-"
