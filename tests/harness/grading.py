"""Grades kernels as the server does, without the server: fleet, boxes, judge and verdict are the real ones.

    async with grader(isolation="docker") as grading:
        graded = await grading.grade(load_problem("triad"), source, language="cuda")

`Conditions` change what the kernel is graded under: limits, protections, whether its build may come from the cache.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from grader.artifacts import ArtifactCache
from grader.dispatch.gpus import Gpu, discover, why_unusable
from grader.dispatch.lanes import LOOK_AGAIN_S
from grader.dispatch.local_fleet import LocalFleet
from grader.formats import native
from grader.grading import cascade as cascades
from grader.grading.attempt import LaneReservation, Profile, RunBox, StepClock, Workspace, started
from grader.grading.pipeline import build_artifact
from grader.isolation import Box, BoxSpec, Isolation, Limits, Purpose
from grader.isolation.select import ObservedIsolation, choose, make
from grader.isolation.settings import BoxSettings, Protections
from grader.model import Lease, NewSubmission, Problem, Report, SourceFile, Submission, SubmissionState
from grader.verdict.fold import fold
from sandbox.protocol import wire

ROOT = Path(__file__).parents[2]
PROBLEM_ROOTS = (ROOT / "tests" / "gpu" / "problems", ROOT / "kernels_examples")
CACHE_BYTES = 1 << 30
BUILDER_COUNT = max(4, len(os.sched_getaffinity(0)) // 2)
SOURCE_NAMES = {"python": "kernel.py"}
Sources = str | tuple[SourceFile, ...]  # the text of a single kernel file, or all files of a submission


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Conditions of one grading; None keeps the fleet's own value.

    protections: which of the box's protections are on. cached: whether the build may be taken from the cache. daemon: the name of a process
    that counts as a leftover even where another user owns it.
    """

    run_limits: Limits | None = None
    load_s: float | None = None
    measure_s: float | None = None
    build_s: float | None = None
    protections: Protections | None = None
    cached: bool = True
    daemon: str = ""

    def applied(self, profile: Profile) -> Profile:
        """The profile with these limits."""
        build = profile.build if self.build_s is None else replace(profile.build, wall_s=self.build_s)
        return replace(
            profile,
            build=build,
            run=self.run_limits or profile.run,
            run_cuda=self.run_limits or profile.run_cuda,
            load_s=profile.load_s if self.load_s is None else self.load_s,
            measure_s=profile.measure_s if self.measure_s is None else self.measure_s,
        )


USUAL = Conditions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """The result of one submission. seconds: from submitting to the verdict. leftovers: processes of its run boxes that outlived them."""

    report: Report
    facts: tuple[wire.Fact, ...] = ()
    seconds: float = 0.0
    leftovers: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """The output of the kernel's process, hidden workloads left out."""
        end = next((fact for fact in self.facts if isinstance(fact, wire.RunEnd)), None)
        return end.output if end else ""

    @property
    def log(self) -> str:
        """The output of the compiler."""
        return self.report.build.log if self.report.build else ""

    @property
    def verdict(self) -> str:
        """Verdict and reason, as the kernels' first lines write it."""
        return f"{self.report.verdict.value} {self.report.reason}".strip()

    def is_one_of(self, expected: tuple[str, ...]) -> bool:
        """Return whether the verdict is among these; one without a reason stands for every reason."""
        return self.verdict in expected or self.report.verdict.value in expected

    @property
    def explanation(self) -> str:
        """The text to show for a verdict that was not expected."""
        ends = [replace(fact, output=fact.output[:200]) for fact in self.facts if isinstance(fact, wire.RunEnd)]
        return f"{self.verdict}: {self.report.summary}\n{self.output[:2000]}\n{self.log[-3000:]}\n{ends}"

    def certified_ns(self, workload_id: str) -> float | None:
        """The median of the certified times; None where the kernel was not measured, or not accepted."""
        measurement = self._measurement(workload_id)
        return None if measurement is None else statistics.median(measurement.certified.durations_ns)

    def reported_ns(self, workload_id: str) -> float | None:
        """The median of what do_bench reported in the kernel's own process: a claim."""
        measurement = self._measurement(workload_id)
        return None if measurement is None or measurement.reported is None else statistics.median(measurement.reported.durations_ns)

    def baseline_ns(self, workload_id: str, baseline: str) -> float | None:
        """The median of a baseline's times: by do_bench in the trusted runner where it was taken so, else certified."""
        measurement = self._measurement(workload_id)
        samples = None if measurement is None else measurement.reported_baselines.get(baseline) or measurement.baselines.get(baseline)
        return None if samples is None else statistics.median(samples.durations_ns)

    def _measurement(self, workload_id: str) -> wire.Measurement | None:
        return next((measurement for measurement in self.report.measurements if measurement.workload_id == workload_id), None)


class Grading:
    """A fleet on one isolation. `grade` may be called from several tasks at a time; lanes take them in turn.

    device: what submissions ask for where a call names no other.
    """

    def __init__(self, fleet: LocalFleet, settings: BoxSettings, device: str = "cuda") -> None:
        self.fleet, self.device, self._settings = fleet, device, settings
        self._count = 0

    @property
    def state_id(self) -> str:
        """The id in the names of all that this fleet makes on the machine."""
        return self._settings.state_id

    @property
    def isolation_name(self) -> str:
        """Which isolation the boxes have."""
        return self.fleet.isolation.NAME

    async def environment(self, device: str | None = None) -> wire.Environment:
        """Return the judge's report of itself on the device; starts the judge."""
        with self.fleet.seat(device or self.device) as seat:
            return replace(await seat.environment(), isolation=self.isolation_name)

    async def grade(
        self,
        problem: Problem,
        source: Sources,
        *,
        language: str,
        mode: wire.Mode = wire.Mode.BENCHMARK,
        device: str | None = None,
        entry: str = "",
        conditions: Conditions = USUAL,
        cascade: bool = False,
    ) -> Graded:
        """Grade one submission. Raises what the pipeline raises where the grader failed, not the kernel. cascade: as of a submission."""
        begun = time.monotonic()
        lease = self._lease(problem, source, language=language, mode=mode, device=device, entry=entry, cascade=cascade)
        async with self._host(conditions) as host:
            facts = tuple([fact async for fact in cascades.grade(lease, host)])
        return Graded(
            report=fold(facts, lease.ranking), facts=facts, seconds=time.monotonic() - begun, leftovers=tuple(host.isolation.leftovers)
        )

    async def build(
        self, problem: Problem, source: Sources, *, language: str, device: str | None = None, conditions: Conditions = USUAL
    ) -> tuple[wire.Build, bytes | None]:
        """Build one submission in a box, or take it from the cache; None where there is no artifact."""
        lease = self._lease(problem, source, language=language, mode=wire.Mode.TEST, device=device, entry="")
        environment = await self.environment(device)
        async with self._host(conditions) as host:
            with host.workspace(lease) as work:
                build = await build_artifact(lease, host, work, environment, StepClock())
                return build, work.artifact_path.read_bytes() if work.artifact_path.exists() else None

    async def prebuild(self, kernels: Iterable[tuple[Problem, Sources, str]], *, device: str | None = None) -> None:
        """Build (problem, source, language) side by side into the cache, so that no compiler runs beside what is timed later."""

        async def build(problem: Problem, source: Sources, language: str) -> None:
            async with waiting:
                await self.build(problem, source, language=language, device=device)

        waiting = asyncio.Semaphore(BUILDER_COUNT)  # a workspace takes a slot, of which there are few
        async with asyncio.TaskGroup() as group:
            for problem, source, language in {
                (source, language): (problem, source, language) for problem, source, language in kernels
            }.values():
                group.create_task(build(problem, source, language))

    def _lease(
        self, problem: Problem, source: Sources, *, language: str, mode: wire.Mode, device: str | None, entry: str, cascade: bool = False
    ) -> Lease:
        self._count += 1
        draft = NewSubmission(
            problem_id=problem.problem_id,
            language=language,
            sources=(SourceFile(path=SOURCE_NAMES.get(language, "kernel.cu"), content=source),) if isinstance(source, str) else source,
            entry=entry,
            device_kind=device or self.device,
            mode=mode,
            skip_sanitizer=True,
            cascade=cascade,
        )
        submission = Submission(
            submission_id=f"{self.state_id}n{self._count}",
            new=draft,
            problem_digest=problem.spec.digest,
            state=SubmissionState.RUNNING,
            create_time=datetime.now(UTC),
        )
        return Lease(submission=submission, problem=problem, attempt=1, worker_id="tests")

    @asynccontextmanager
    async def _host(self, conditions: Conditions) -> AsyncIterator[_ConditionedHost]:
        """The fleet as one grading sees it."""
        isolation = make(self.isolation_name, self._settings, conditions.protections) if conditions.protections else None
        try:
            yield _ConditionedHost(self.fleet, isolation or self.fleet.isolation, conditions, warm=isolation is None)
        finally:
            if isolation is not None:
                await isolation.close()


class _ConditionedHost:
    """The fleet for one grading, with its own limits, isolation and cache. A `Host` of `grader.grading`. warm: its run boxes may be those
    of the fleet that wait."""

    def __init__(self, fleet: LocalFleet, isolation: Isolation, conditions: Conditions, *, warm: bool) -> None:
        self._fleet, self._warm, self._daemon = fleet, warm, conditions.daemon
        self.isolation = LeftoverWatch(isolation, conditions.daemon)
        self.profile = conditions.applied(fleet.profile)
        self.cache = fleet.cache if conditions.cached else None
        self.files = fleet.files

    def workspace(self, lease: Lease) -> AbstractContextManager[Workspace]:
        return self._fleet.workspace(lease)

    def builder(self) -> AbstractAsyncContextManager[None]:
        return self._fleet.builder()

    def turn(self, *, secret: bool) -> AbstractAsyncContextManager[None]:
        return self._fleet.turn(secret=secret)

    @asynccontextmanager
    async def run_box(self, spec: BoxSpec) -> AsyncIterator[RunBox]:
        if not self._warm:
            async with started(self.isolation, spec) as fresh:
                yield fresh
            return
        async with self._fleet.run_box(spec) as run_box:
            uids = {run_box.box.uid} - {os.geteuid(), 0}
            yield run_box
            alive = processes_of(uids, self._daemon)
        # Its slot may be another box's by now, so that a new process with its uid is not its own.
        self.isolation.leftovers += [line for line in processes_of(uids, self._daemon) if line in alive]

    async def before_secret(self) -> None:
        await self._fleet.before_secret()

    def generation(self) -> int:
        return self._fleet.generation()

    def times(self, attempt: object, *, busy: bool, by_host_clock: bool) -> None:
        self._fleet.times(attempt, busy=busy, by_host_clock=by_host_clock)

    def seat(self, device_kind: str) -> AbstractContextManager[LaneReservation]:
        return self._fleet.seat(device_kind)


class LeftoverWatch(ObservedIsolation):
    """An isolation that lists the processes that a run box left behind."""

    def __init__(self, isolation: Isolation, daemon: str = "") -> None:
        super().__init__(isolation)
        self._daemon = daemon
        self.leftovers: list[str] = []

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        before = set(os.listdir("/proc"))
        async with super().start(spec) as box:
            yield box
        if spec.purpose is Purpose.RUN:
            # The slot is still ours, so a new process with its uid is the box's.
            processes = processes_of({box.uid} - {os.geteuid(), 0}, self._daemon)
            self.leftovers += [line for line in processes if line.split()[0] not in before]


def processes_of(uids: set[int], name: str = "") -> list[str]:
    """The live processes of this host that have one of these uids or this name, each as "PID NAME"."""
    processes = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(line.split(":\t", 1) for line in (directory / "status").read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if status["State"].startswith(("Z", "X")):
            continue  # dead, and not reaped yet by whichever process has to
        if int(status["Uid"].split()[0]) in uids or (name and status["Name"] == name):
            processes.append(f"{directory.name} {status['Name']}")
    return processes


@asynccontextmanager
async def grader(
    *,
    isolation: str = "auto",
    lanes: tuple[int, ...] | None = None,
    cache: bool = True,
    hidden: tuple[Path, ...] = (),
    emulated_count: int = 1,
    artifacts: Path | None = None,
    device: str = "cuda",
    warm_count: int = 0,
    look_again_s: float = LOOK_AGAIN_S,
) -> AsyncIterator[Grading]:
    """A fleet on this host's GPUs, or on those at these places among them, beside emulated devices.

    hidden: further paths that boxes do not see. artifacts: the directory of an artifact cache that others use too; without it the cache is
    the fleet's own. device: what submissions ask for where a call names no other. warm_count: how many run boxes wait for a job.
    look_again_s: from a lane's quarantine to the next look.
    """
    # Short, and open to pass: a box's uid goes through it to its link.
    state = Path(tempfile.mkdtemp(prefix="grader-gpu-"))
    state.chmod(0o711)
    artifacts = artifacts or state / "artifacts"
    settings = BoxSettings(
        state_id=f"tests{secrets.token_hex(4)}",
        runtime_dir=state / "run",
        hidden_paths=(*PROBLEM_ROOTS, *hidden, artifacts),
        yields_cores=bool(gpus := usable_gpus(lanes)),
    )
    chosen, _ = await choose(isolation, settings)
    try:
        fleet = LocalFleet(
            isolation=chosen,
            settings=settings,
            gpus=gpus,
            lane_count=emulated_count,
            builder_count=BUILDER_COUNT,
            warm_count=warm_count,
            look_again_s=look_again_s,
            cache=ArtifactCache(artifacts, CACHE_BYTES) if cache else None,
        )
        async with fleet:
            yield Grading(fleet, settings, device)
        await chosen.sweep()
    finally:
        await chosen.close()
        shutil.rmtree(state, ignore_errors=True)


def usable_gpus(places: tuple[int, ...] | None = None) -> tuple[Gpu, ...]:
    """The GPUs that are ours, or those of these places among them in PCI order; none where the packages here can't use one."""
    if why_unusable() is not None:
        return ()
    return tuple(gpu for place, gpu in enumerate(discover()) if places is None or place in places)


def load_problem(name: str) -> Problem:
    """The problem of that name: of these tests, or one of the examples."""
    for root in PROBLEM_ROOTS:
        if native.matches(root / name):
            return native.load(root / name)
    raise FileNotFoundError(f"no problem {name!r} below {' or '.join(map(str, PROBLEM_ROOTS))}; give a directory's name")
