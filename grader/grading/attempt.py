"""Parts that the steps of one attempt share: run boxes, the seams to the machine that grades, the clock, and from these its jobs.

`grader/dispatch/local_fleet.py` fills the seams.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from grader.artifacts import ArtifactCache, SubmissionFiles
from grader.errors import SandboxBroken
from grader.extensions import CORE_MODES
from grader.formats import with_calling_convention
from grader.isolation import Box, BoxExit, BoxSpec, GpuAccess, Held, Isolation, IsolationBroken, Limits, Purpose, before_end
from grader.model import Lease, NewSubmission
from sandbox.protocol import wire
from sandbox.protocol.box_files import GO, READY, WAIT
from sandbox.protocol.box_start import FORK_SOCKET
from sandbox.protocol.languages import languages
from sandbox.protocol.signatures import CUDA, entry_in
from sandbox.protocol.wire import Stage, Step

# A run box imports what it needs, waits, and is given one job. Two named pipes in its {link} take it through that, and are there from
# before its start to after its end. It writes to `ready` once it has imported everything, which is believed for scheduling only. It reads
# `go`, asleep and without a timer, until it is given its job.

IMPORT_S = 60.0


class JobPipes:
    """The pipes of one box. ready: set once it says that it waits."""

    def __init__(self, link_dir: Path) -> None:
        self._paths = link_dir / READY, link_dir / GO
        for path, mode in zip(self._paths, (0o622, 0o644), strict=True):  # whatever the server's umask is
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            path.chmod(mode)
        # Both ends are held: what is written before the box opens its own stays, and nothing blocks. If this process dies, it reads an end.
        self._ready, self._go = (os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for path in self._paths)
        self.ready = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._ready, self._hear)

    def give(self) -> None:
        """There is a job."""
        os.write(self._go, b"g")

    def close(self) -> None:
        """Remove them."""
        asyncio.get_running_loop().remove_reader(self._ready)
        for descriptor in (self._ready, self._go):
            os.close(descriptor)
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _hear(self) -> None:
        self.ready.set()
        asyncio.get_running_loop().remove_reader(self._ready)  # what else it writes there is of no interest


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBox:
    """A box that waits for its job, and {link} as the host sees it. wall_s: how long it may take for the job."""

    box: Box
    link_dir: Path
    wall_s: float
    pipes: JobPipes

    async def imported(self) -> bool:
        """Wait until it reports that it has imported everything, or has ended, for IMPORT_S at most. Return whether it has reported,
        which decides nothing else."""
        await before_end(self.box, self.pipes.ready.wait(), IMPORT_S)
        return self.pipes.ready.is_set()

    def give_job(self) -> None:
        """Let it go on to its judge. Its time counts from here."""
        self.box.begin(self.wall_s)
        with suppress(BlockingIOError):  # a pipe is full after thousands of them
            self.pipes.give()


@asynccontextmanager
async def open_box(isolation: Isolation, spec: BoxSpec) -> AsyncIterator[Box]:
    """Start a box; an isolation that cannot is our fault. Leaving ends it and waits until nothing of it is left."""
    try:
        async with isolation.start(spec) as box:
            yield box
    except IsolationBroken as error:
        raise SandboxBroken(str(error)) from error


@asynccontextmanager
async def started(isolation: Isolation, spec: BoxSpec) -> AsyncIterator[RunBox]:
    """Start a run box; leaving ends it and waits until nothing of it is left."""
    assert spec.link_dir is not None
    pipes = JobPipes(spec.link_dir)
    try:
        async with open_box(isolation, spec) as box:
            yield RunBox(box=box, link_dir=spec.link_dir, wall_s=spec.limits.wall_s, pipes=pipes)
    finally:
        pipes.close()


async def ending(box: Box, patience_s: float) -> BoxExit:
    """Return how a box ended that should end by itself within this time; after it the box is killed."""
    try:
        async with asyncio.timeout(patience_s):
            return await box.wait()
    except TimeoutError:
        return await box.kill()


@asynccontextmanager
async def closed_link(box: Box, link: Path) -> AsyncIterator[None]:
    """While inside, tell the judge when the box has ended, or is lost, so that it does not wait for a runner that never comes."""
    closed = link.with_name(f"{link.name}.closed")
    closed.unlink(missing_ok=True)  # of the box before

    async def watch() -> None:
        with suppress(Exception):  # a box that broke has ended too; who asks how gets the error
            await box.wait()
        closed.touch()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


# The seams between grading and the machine that it is done on.

MEASURE_FACTOR = 3.0  # warm-up, what is taken alone, turns taken again
COMPILE_S, AUTOTUNE_S = 60.0, 900.0  # of torch.compile for one shape, when a judge first meets the problem


class Lane(Protocol):
    """A device and its judge, ours until the context is left. By then the run box is gone, for the device is checked after."""

    @property
    def environment(self) -> wire.Environment:
        """Return the environment that reports from here name."""

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The judge's facts up to Finished or Broken; JudgeBroken where it died."""


class LaneReservation(Protocol):
    """Place of an attempt at a lane, from before the build on. It may end up at another lane whose device is alike."""

    @property
    def gpu(self) -> GpuAccess | None:
        """The GPU of the lane, as its run box gets it; None on the emulated device."""

    @property
    def kind(self) -> str:
        """The kind of device of the lane."""

    @property
    def idle(self) -> bool:
        """Return whether a run box may be started before the lane is asked for. Where there is a GPU it is then kept for this seat."""

    @property
    def contended(self) -> bool:
        """Return whether more attempts have a place at lanes like this one than there are such lanes."""

    async def settle(self) -> None:
        """Wait a moment for the device if it is being checked; `idle` is known then."""

    async def environment(self) -> wire.Environment:
        """Return the environment that reports from this lane name."""

    def lane(self) -> AbstractAsyncContextManager[Lane]:
        """Wait for the device. One job at a time is on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """Directories and slot of an attempt; all gone when the attempt ends."""

    source_dir: Path
    out_dir: Path
    link_dir: Path
    artifact_path: Path
    slot: int
    box_id: str
    make_output: Callable[[], AbstractContextManager[Path]]  # a fresh {out} for another box


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Limits of boxes, and how long the judge is patient; `sandbox/profiles/limits.toml`."""

    build: Limits
    run: Limits  # on the emulated device
    run_cuda: Limits
    load_s: float
    measure_s: float
    practice_s: float = 1.5  # for all workloads together, on the emulated device; in each process of a ranked submission
    precision: float = 0.01
    ranked_precision: float = 0.005
    sweep_measure_s: float = 2.0
    sweep_s: float = 900.0
    sweep_process_count: int = 4

    def run_limits(self, problem: wire.ProblemSpec, mode: wire.Mode, *, on_gpu: bool, measure_s: float | None = None) -> Limits:
        """A run box's limits: what one workload takes, and for every workload that is timed as much more as the judge may take for it,
        its baselines' compilation too. A runner that hangs meets the judge's own limits long before. measure_s: as the submission asks."""
        limits = self.run_cuda if on_gpu else self.run
        if mode in (wire.Mode.TEST, wire.Mode.SANITIZE, wire.Mode.PROFILE):
            return limits
        if mode is wire.Mode.SWEEP:  # however many sizes: the last one begins before sweep_s is over
            return replace(limits, wall_s=limits.wall_s + self.sweep_s, cpu_s=limits.cpu_s + self.sweep_s)
        compile_s = COMPILE_S + AUTOTUNE_S * ("max-autotune" in problem.baselines) if on_gpu else 0.0
        more_s = len(problem.workloads) * (MEASURE_FACTOR * max(self.measure_s, measure_s or 0.0) + compile_s)
        # A runner that waits for the judge keeps a core busy.
        return replace(limits, wall_s=limits.wall_s + more_s, cpu_s=limits.cpu_s + more_s)

    def timing(self, submission: NewSubmission, problem: wire.ProblemSpec, *, on_gpu: bool) -> tuple[float, float]:
        """Return for how long a workload is measured at most, and how narrow its intervals are to be: as the submission asks, where that
        is allowed (`grader/intake/gate.py`); else as the profile says. On the emulated device all times are practice, and short."""
        ranked = submission.mode is wire.Mode.RANKED
        precision, measure_s = (None, None) if ranked else (submission.precision, submission.measure_s)
        if measure_s is None:
            measure_s = self.measure_s
            if submission.mode in (wire.Mode.BENCHMARK, wire.Mode.RANKED) and not on_gpu:
                measure_s = min(measure_s, self.practice_s / max(1, sum(not workload.hidden for workload in problem.workloads)))
        return measure_s, precision or (self.ranked_precision if ranked else self.precision)


class Host(Protocol):
    """Needs of grading from the machine that it runs on."""

    isolation: Isolation
    profile: Profile
    cache: ArtifactCache | None  # None: everything is built
    files: SubmissionFiles | None  # None: no file of a submission is kept

    def builder(self) -> AbstractAsyncContextManager[None]:
        """Wait for a core to build on."""

    def turn(self, *, secret: bool) -> AbstractAsyncContextManager[None]:
        """Wait until a box may run code of submissions here. secret: whether it meets secret workloads of a competition; such boxes and
        all others are never alive at the same time. Ends when the box is gone; a task holds one turn at most."""

    def before_secret(self) -> Awaitable[None]:
        """Wait until boxes may meet a competition's secret workloads; a secret turn waits for that, too."""

    def workspace(self, lease: Lease) -> AbstractContextManager[Workspace]:
        """Make an attempt's directories."""

    def run_box(self, spec: BoxSpec) -> AbstractAsyncContextManager[RunBox]:
        """A run box of this specification, which waits for its job. Leaving ends it."""

    def generation(self) -> int:
        """Return a number that changes when boxes are given other files: one that was started before is used for no job."""

    def times(self, attempt: object, *, busy: bool, by_host_clock: bool) -> None:
        """An attempt times something, or no longer: meanwhile nothing is started on this host that can wait and would disturb it.

        by_host_clock: whether the host's clock times it, and not that of a GPU.
        """

    def seat(self, device_kind: str) -> AbstractContextManager[LaneReservation]:
        """Sit down at a lane of that kind, where the fewest sit."""


OpenRunBox = Callable[[], AbstractAsyncContextManager[RunBox]]

SPAN_LIMIT = 500  # of an attempt; a sweep has many sizes
STALE_S = 120.0  # a box that has waited for so long is replaced; the next may have waited less
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
        options: tuple[str, ...] = ()
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
        # A competition has one process for each box: what is forked shares the layout of its memory with the boxes before and after it.
        forks = tool is None and submission.mode is not wire.Mode.RANKED and not submission.competition_id
        runner, link, named = "sandbox.runner.run", "{link}/judge.sock", ("--language", language.module)
        # Next to a GPU what takes seconds to import is the same for every language, so they have one parent.
        forked = (link, *options) if gpu is not None else (link, *named, *options, "--import-device", self.seat.kind)
        return BoxSpec(
            box_id=f"{self.work.box_id}-run" + (f"-{number}" if number else ""),
            purpose=Purpose.RUN,
            argv=(*command, *module_argv(runner, link, *named, *options)),
            fork_argv=module_argv("sandbox.fork_server", f"{{link}}/{FORK_SOCKET}", runner, *forked) if forks else (),
            fork_arguments=named if forks and gpu is not None else (),
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
            argument_order=build.argument_order if submission.language == CUDA else (),  # of others the submission would say it
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
        early = _EarlyBox(self, numbers) if self.seat.idle or self.on_gpu else None

        @asynccontextmanager
        async def take() -> AsyncIterator[RunBox]:
            nonlocal early
            if early is not None and not early.usable:
                await early.close()
                early = None
            box = early = early or _EarlyBox(self, numbers)
            try:
                yield await box.opened()
            finally:
                await box.close()
                early = None  # the next process gets another

        try:
            yield take
        finally:
            if early is not None:
                await early.close()


class _EarlyBox(Held[RunBox]):
    """The box of a seat, which may be at another lane by the time that the box is used."""

    def __init__(self, attempt: Attempt, numbers: itertools.count[int]) -> None:
        super().__init__(lambda: attempt.host.run_box(attempt.run_spec(next(numbers))))
        self._seat, self._gpu, self._since_s = attempt.seat, attempt.seat.gpu, asyncio.get_running_loop().time()
        self._host, self._generation = attempt.host, attempt.host.generation()

    @property
    def usable(self) -> bool:
        """Return whether it is of the seat's device, fresh and alive; a box that could not be started reports that when it is awaited."""
        outdated = self._generation != self._host.generation() or asyncio.get_running_loop().time() - self._since_s > STALE_S
        if outdated or self._seat.gpu != self._gpu:
            return False
        return not self.value.done() or self.value.exception() is not None or not self.value.result().box.ended
