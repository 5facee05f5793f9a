"""`grader-cli demo`: the six kernels of the triangular matmul story, each with the verdict that its first line expects."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader import devices
from grader.api.client import GraderClient
from grader.cli import sources
from grader.cli.exits import Exit, UsageError
from grader.cli.output import open_console, plain, print_line, print_parts
from grader.cli.progress import ProgressDisplay
from grader.cli.session import EXAMPLES, ServerRequirement, Target, connect
from grader.cli.submit import follow
from grader.dispatch.gpus import Gpu, discover, why_unusable
from grader.isolations import AUTO, description, safe_isolations
from grader.v1 import submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line
from grader_extensions.operation import host_findings

IN_PROCESS, IN_PROCESS_S = "tools.inprocess_check", 120.0
ACCEPTED, BROKEN, REFUSED = 0, 1, 3  # its exit codes
PROBLEM = "tril_matmul"
STORY = ("correct_2d", "correct_unrolled", "divergent_sync", "zeros", "stale_memory", "wmma_float")
_EXPECT = "// expect:"


@dataclass(slots=True, kw_only=True)
class Kernel:
    """A kernel of the demo on its way to a verdict. in_process: the exit code of a check in its own process."""

    path: Path
    expected: tuple[str, ...]
    final: submission_pb2.Submission = field(default_factory=submission_pb2.Submission)
    in_process: int = 0

    @property
    def name(self) -> str:
        """The name of the file without its ending."""
        return self.path.stem

    @property
    def outcome(self) -> str:
        """The verdict with its headline and the sentence why, or the failure of the grader."""
        if not self.final.HasField("report"):
            return f"{formatting.state_name(self.final)}: {self.final.error.message}"
        headline = formatting.headline(self.final)
        why = "" if headline == formatting.RIGHT_ON_CPU else self.final.report.summary.partition(". ")[0]
        return f"{formatting.verdict_name(self.final.report)}{f', {headline}' if headline else ''}{f': {why}' if why else ''}"

    @property
    def as_expected(self) -> bool:
        """Compare verdict and reason with the expected ones."""
        outcome = (formatting.verdict_name(self.final.report), self.final.report.reason)
        return self.final.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED and outcome[: len(self.expected)] == self.expected


async def demo(target: Target) -> Exit:
    """Grade the story's kernels side by side, each also checked in its own process, and compare their verdicts."""
    kernels = [read_kernel(EXAMPLES / PROBLEM / f"{name}.cu") for name in STORY]
    wrong = [kernel for kernel in kernels if kernel.expected[0] != "ACCEPTED"]
    device = where(target.device)
    print_line(f"{len(kernels)} kernels for {PROBLEM}, {len(wrong)} of them wrong, on {device}: about a minute on an idle machine")
    print_parts(await _isolation(target.sandbox))
    scratch = tempfile.TemporaryDirectory(prefix="grader-demo-") if target.state_dir is None else nullcontext(str(target.state_dir))
    console = open_console()
    status = console.status("starting a server")  # on a terminal only
    with scratch as state_dir, status:
        async with connect(replace(target, state_dir=Path(state_dir)), ServerRequirement.GRADE) as client:
            try:
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(_grade(client, kernel, console)) for kernel in kernels]
                    for count, graded in enumerate(asyncio.as_completed(tasks)):
                        status.update(f"{count} of {len(kernels)} kernels graded")
                        await graded
            except ExceptionGroup as failures:  # all of them share the server, so that the first says enough
                raise failures.exceptions[0] from None
            status.update("checking the wrong kernels in their own processes, as other harnesses do")
            kind = devices.CUDA if device.startswith(devices.CUDA) else devices.EMULATED
            await asyncio.gather(*(_check_in_process(kernel, kind) for kernel in wrong))
    print_parts(_summary(kernels, wrong))
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


async def _grade(client: GraderClient, kernel: Kernel, console: Console) -> None:
    files = sources.read([kernel.path], PROBLEM)
    submission = await client.submit(
        submission_pb2.Submission(
            problem=f"problems/{PROBLEM}",
            sources=[submission_pb2.SourceFile(path=source.path, content=source.content) for source in files.sources],
        )
    )
    kernel.final = await follow(client, submission.name, ProgressDisplay())
    line = f"{kernel.name}: {one_line(kernel.outcome, most_chars=400)}"
    console.print(plain(line, "" if kernel.as_expected else "bold red"), soft_wrap=True)


async def _isolation(choice: str) -> list[Text]:
    """The isolation that this choice means here, and what a stronger one needs."""
    findings = await host_findings.isolations()
    used = next((finding.name for finding in findings if finding.usable and choice in (AUTO, finding.name)), choice)
    unsafe = used not in safe_isolations()
    stronger = [f"{finding.name}: {finding.remedy}" for finding in findings if unsafe and finding.name != used and not finding.usable]
    return [plain(f"isolation: {description(used)}", "bold yellow" if unsafe else ""), *(plain(f"  for {line}") for line in stronger)]


async def _check_in_process(kernel: Kernel, kind: str) -> None:
    """Note the exit code of a check that shares the kernel's process. Without a box: only the demo's own kernels come here."""
    command, null = (sys.executable, "-m", IN_PROCESS, str(kernel.path), kind), subprocess.DEVNULL
    checking = await asyncio.create_subprocess_exec(*command, cwd=EXAMPLES.parent, stdout=null, stderr=null, start_new_session=True)
    try:
        kernel.in_process = await asyncio.wait_for(checking.wait(), IN_PROCESS_S)
    except TimeoutError:  # a hanging kernel is noticed in its process, too
        kernel.in_process = REFUSED
    finally:
        with suppress(ProcessLookupError):
            os.killpg(checking.pid, signal.SIGKILL)


def _summary(kernels: Sequence[Kernel], wrong: Sequence[Kernel]) -> Iterator[Text]:
    if surprising := [f"{kernel.name} (not {' '.join(kernel.expected)})" for kernel in kernels if not kernel.as_expected]:
        yield Text(f"not as expected: {', '.join(surprising)}", style="bold red")
        return
    yield Text(f"all {len(kernels)} verdicts are as expected", style="bold green")
    for kernel in wrong:
        if kernel.in_process == BROKEN:
            yield plain(
                f"{kernel.name} could not be checked in its process: {sys.executable} -m {IN_PROCESS} {kernel.path} DEVICE", "yellow"
            )
    deceived = [kernel.name for kernel in wrong if kernel.in_process == ACCEPTED]
    names = f" ({', '.join(deceived)})" if deceived else ""
    count = f"{len(wrong)} wrong kernels were caught; a check inside the kernel's process would have accepted"
    yield plain(f"{count} {len(deceived)} of them{names}", "bold")
