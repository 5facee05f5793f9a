"""The state that the steps of one attempt share: its lease, lane, directories and clock, and from these its run boxes and jobs."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from grader.extensions import CORE_MODES
from grader.formats import with_calling_convention
from grader.grading.ports import Host, LaneReservation, Workspace
from grader.grading.run_box import HeldRunBox, RunBox
from grader.isolation import Box, BoxSpec, GpuAccess, Purpose
from grader.model import Lease, NewSubmission
from sandbox.protocol import wire
from sandbox.protocol.box_files import WAIT
from sandbox.protocol.languages import languages
from sandbox.protocol.signatures import entry_in
from sandbox.protocol.wire import Stage, Step

OpenRunBox = Callable[[], AbstractAsyncContextManager[RunBox]]

SPAN_LIMIT = 500  # of an attempt; a sweep has many sizes
STALE_S = 120.0  # a box that has waited for so long is replaced; the next may have waited less
LOOK_S = 0.01
_STEPS = {
    Stage.LOADING: Step.LOAD,
    Stage.BASELINE: Step.BASELINE,
    Stage.VERIFYING: Step.VERIFY,
    Stage.MEASURING: Step.MEASURE,
    Stage.PROFILING: Step.PROFILE,
}


class StepClock:
    """The steps of one attempt in sequence without gaps, by the clock of the process that grades. clock: monotonic nanoseconds.

    host: is told at each step, until the context is left, if something is timed in it.
    """

    def __init__(self, clock: Callable[[], int] = time.monotonic_ns, host: Host | None = None) -> None:
        self._clock, self._host = clock, host
        self._origin_ns = clock()
        self.by_host_clock = True  # whether the host's clock times kernels, and not that of a GPU
        self._begun: list[tuple[Step, int]] = []  # each step, and when it began

    def __enter__(self) -> StepClock:
        return self

    def __exit__(self, *_: object) -> None:
        self._tell(busy=False)

    def enter(self, step: Step) -> None:
        """Begin this step, and end the one before it."""
        if (not self._begun or self._begun[-1][0] is not step) and len(self._begun) < SPAN_LIMIT:
            self._begun.append((step, self._clock()))
        self._tell(busy=step in (Step.BASELINE, Step.MEASURE))

    def follow(self, fact: wire.Fact) -> None:
        """Enter the step that a judge's fact begins. Its discovery and its arrival are the same to a millisecond."""
        if isinstance(fact, wire.Progress) and fact.stage in _STEPS:
            self.enter(_STEPS[fact.stage])
        elif isinstance(fact, wire.Environment):
            self.by_host_clock = fact.clock is wire.Clock.HOST
        elif isinstance(fact, wire.Finished):
            self.enter(Step.CLOSE)

    def _tell(self, *, busy: bool) -> None:
        if self._host is not None:
            self._host.times(self, busy=busy, by_host_clock=self.by_host_clock)

    def timeline(self) -> wire.AttemptTimeline:
        """Return the steps up to now."""
        ends = [begin_ns for _, begin_ns in self._begun[1:]] + [self._clock()]
        return wire.AttemptTimeline(
            spans=tuple(
                wire.Span(step=step, begin_ns=begin_ns - self._origin_ns, duration_ns=end_ns - begin_ns)
                for (step, begin_ns), end_ns in zip(self._begun, ends, strict=True)
            )
        )


def module_argv(name: str, *arguments: str) -> tuple[str, ...]:
    """Run a module of the `sandbox` package that the box has at {lib}, in isolated mode: no PYTHON* variable, no user site, no cwd."""
    start = f"import sys, runpy; sys.path[:0] = sys.argv.pop(1).split(':'); runpy.run_module('{name}', run_name='__main__', alter_sys=True)"
    return ("{python}", "-I", "-c", start, "{lib}", *arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTool:
    """A profiler that has the kernel run, in a run box of its own.

    files: what it may leave. options: the runner's. command: what launches the runner; () where the runner looks at itself.
    on_smallest: it takes too long for a large workload.
    """

    name: str
    files: tuple[str, ...]
    options: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    on_smallest: bool = False
    directory: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt at a submission. problem: with the workloads that run on this device."""

    lease: Lease
    host: Host
    seat: LaneReservation
    work: Workspace
    environment: wire.Environment
    problem: wire.ProblemSpec
    steps: StepClock

    @property
    def submission(self) -> NewSubmission:
        """The submission, as it was sent."""
        return self.lease.submission.new

    @property
    def on_gpu(self) -> bool:
        """Return whether its device is a GPU and not the emulated one."""
        return self.seat.gpu is not None

    def run_spec(self, number: int, tool: RunTool | None = None, out_dir: Path | None = None) -> BoxSpec:
        """Specify a run box. out_dir: what a profiler, and the runner under it, may write to; else it has no such place."""
        # On a GPU whatever the language, for do_bench; the GPU itself is opened once the box has its job.
        submission, gpu = self.submission, self.seat.gpu
        language = languages()[submission.language]
        options: tuple[str, ...] = ("--language", language.module)
        if tool is None:
            options += (WAIT, "{link}")
        if gpu is not None or language.needs_torch or out_dir is not None:
            options += ("--preload", "torch")
        if gpu is not None:
            options += ("--import-device", self.seat.kind)
        command: tuple[str, ...] = ()
        tool_dir: Path | None = None
        if tool is not None:
            options += tool.options
            command, tool_dir = tool.command, tool.directory
        return BoxSpec(
            box_id=f"{self.work.box_id}-run" + (f"-{number}" if number else ""),
            purpose=Purpose.RUN,
            argv=(*command, *module_argv("sandbox.runner.run", "{link}/judge.sock", *options)),
            limits=self.host.profile.run_limits(self.problem, submission.mode, on_gpu=gpu is not None, measure_s=submission.measure_s),
            slot=self.work.slot,
            link_dir=self.work.link_dir,
            out_dir=out_dir,
            gpu=gpu,
            tool_dir=tool_dir if tool_dir is not None and tool_dir.is_dir() else None,
        )

    def job(self, build: wire.Build, box: Box, problem: wire.ProblemSpec | None = None, link_dir: Path | None = None) -> wire.Job:
        """Make the judge's job. In the modes of packages a kernel is verified, as in a test. link_dir: {link}."""
        submission, problem = self.submission, problem or self.problem
        assert build.artifact_digest is not None
        measure_s, precision = self.host.profile.timing(submission, problem, on_gpu=self.on_gpu)
        return wire.Job(
            job_id=self.work.box_id,
            problem=with_calling_convention(problem, submission),
            language=submission.language,
            entry=submission.entry or entry_in(problem, submission.language),
            mode=submission.mode if submission.mode in CORE_MODES else wire.Mode.TEST,
            link_path=str((link_dir or self.work.link_dir) / "judge.sock"),
            artifact_path=str(self.work.artifact_path),
            artifact_digest=build.artifact_digest,
            runner_uid=box.uid,
            load_s=self.host.profile.load_s,
            measure_s=measure_s,
            precision=precision,
        )

    @asynccontextmanager
    async def started_early(self) -> AsyncIterator[OpenRunBox]:
        """Start the run box while the kernel is being built if its device is free or a GPU; else when it is first asked for.

        The box leaves a GPU alone until it has a job, and holds nothing of the submission until the judge hands it the artifact. It is
        gone when the context that gives it is left. After a long wait, or for another GPU, it is replaced; a second call gets a new box.
        """
        numbers = itertools.count()
        early = _EarlyBox(self, numbers)
        if self.seat.idle or self.on_gpu:
            early.open()

        @asynccontextmanager
        async def take() -> AsyncIterator[RunBox]:
            nonlocal early
            if early.opened and not await early.usable():
                await early.close()
                early = _EarlyBox(self, numbers)
            early.open()
            try:
                yield await early.box
            finally:
                await early.close()
                early = _EarlyBox(self, numbers)  # for the next process

        try:
            yield take
        finally:
            await early.close()


class _EarlyBox(HeldRunBox):
    """The box of a seat, which may be at another lane by the time that the box is used."""

    def __init__(self, attempt: Attempt, numbers: itertools.count[int]) -> None:
        super().__init__(lambda: attempt.host.run_box(attempt.run_spec(next(numbers))))
        self._seat = attempt.seat
        self._gpu: GpuAccess | None = None
        self._since = 0.0

    def open(self) -> None:
        """Begin it for the GPU that the seat has now, unless it was begun."""
        if not self.opened:
            self._gpu, self._since = self._seat.gpu, asyncio.get_running_loop().time()
            super().open()

    async def usable(self) -> bool:
        """Return whether it is of the seat's device, fresh and alive; a box that could not be started reports that when it is awaited."""
        if self._seat.gpu != self._gpu or asyncio.get_running_loop().time() - self._since > STALE_S:
            return False
        if not self.box.done() or self.box.exception() is not None:
            return True
        ended = asyncio.ensure_future(self.box.result().box.wait())
        await asyncio.wait([ended], timeout=LOOK_S)
        gone = ended.done()
        ended.cancel()
        return not gone
