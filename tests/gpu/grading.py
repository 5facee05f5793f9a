"""Grades kernels on this host's GPUs as the server does, without the server: fleet, boxes, judge and verdict are the real ones.

    async with grader(isolation="docker") as grading:
        graded = await grading.grade(load_problem("triad"), source, language="cuda")

The emulated device does too (device="emulated"), which is how this file is proven where there is no GPU.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from grader.artifacts import ArtifactCache
from grader.building import build_artifact
from grader.fleet.gpus import Gpu, discover, why_unusable
from grader.fleet.local import LocalFleet
from grader.formats import native
from grader.isolation.select import choose
from grader.isolation.settings import BoxSettings
from grader.model import Lease, NewSubmission, Problem, Report, SourceFile, Submission, SubmissionState
from grader.verdict import fold
from sandbox import wire

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROBLEM_ROOTS = (HERE / "problems", ROOT / "kernels_examples")
ISOLATION_VARIABLE = "GRADER_GPU_ISOLATION"  # what the tests ask for; "auto" where it is not set
CACHE_BYTES = 1 << 30
BUILDER_COUNT = max(4, len(os.sched_getaffinity(0)) // 2)
SOURCE_NAMES = {"python": "kernel.py"}
Sources = str | tuple[SourceFile, ...]  # the text of a kernel alone, or a submission's files


@dataclass(frozen=True, slots=True, kw_only=True)
class Graded:
    """What came of one submission. seconds: from handing it in to the verdict, build and all."""

    report: Report
    facts: tuple[wire.Fact, ...]
    seconds: float

    @property
    def verdict(self) -> str:
        """Verdict and reason, as the kernels' first lines write it."""
        return f"{self.report.verdict.value} {self.report.reason}".strip()

    def is_one_of(self, expected: tuple[str, ...]) -> bool:
        """Whether the verdict is among these; one without a reason stands for every reason."""
        return self.verdict in expected or self.report.verdict.value in expected

    @property
    def explanation(self) -> str:
        """What to show of a verdict that was not expected."""
        log = self.report.build.log if self.report.build else ""
        return f"{self.verdict}: {self.report.summary}\n{self.report.output[:2000]}\n{log[-3000:]}"

    def certified_ns(self, workload_id: str) -> float | None:
        """The median of the certified times; None where the kernel was not measured, or not accepted."""
        found = self._measurement(workload_id)
        return None if found is None else statistics.median(found.certified.durations_ns)

    def scored_ns(self, workload_id: str) -> float | None:
        """What counts: the certified time (DESIGN section 4)."""
        return self.certified_ns(workload_id)

    def reported_ns(self, workload_id: str) -> float | None:
        """The median of what do_bench said in the kernel's own process: a claim."""
        found = self._measurement(workload_id)
        return None if found is None or found.reported is None else statistics.median(found.reported.durations_ns)

    def baseline_ns(self, workload_id: str, baseline: str) -> float | None:
        """The median of a baseline's times: by do_bench in the trusted runner where it was taken so, else certified."""
        found = self._measurement(workload_id)
        samples = None if found is None else found.reported_baselines.get(baseline) or found.baselines.get(baseline)
        return None if samples is None else statistics.median(samples.durations_ns)

    def _measurement(self, workload_id: str) -> wire.Measurement | None:
        return next((one for one in self.report.measurements if one.workload_id == workload_id), None)


class Grading:
    """A fleet on one isolation. `grade` may be called from several tasks at a time; lanes take them in turn."""

    def __init__(self, fleet: LocalFleet, state_id: str) -> None:
        self.fleet, self.state_id = fleet, state_id
        self._count = 0

    @property
    def isolation_name(self) -> str:
        """Which isolation the boxes have."""
        return self.fleet.isolation.NAME

    async def environment(self, device: str = "cuda") -> wire.Environment:
        """What the device's judge says of itself; starts the judge."""
        return replace(await self.fleet.environment(device), isolation=self.isolation_name)

    async def grade(
        self,
        problem: Problem,
        source: Sources,
        *,
        language: str,
        mode: wire.Mode = wire.Mode.BENCHMARK,
        device: str = "cuda",
        entry: str = "",
    ) -> Graded:
        """Grade one submission. Raises what the pipeline raises where the grader failed, not the kernel."""
        begun = time.monotonic()
        lease = self._lease(problem, source, language=language, mode=mode, device=device, entry=entry)
        facts = tuple([fact async for fact in self.fleet.grade(lease)])
        return Graded(report=fold(facts, lease.ranking), facts=facts, seconds=time.monotonic() - begun)

    async def prebuild(self, kernels: Iterable[tuple[Problem, Sources, str]], *, device: str = "cuda") -> None:
        """Build (problem, source, language) side by side into the cache, so that no compiler runs beside what is timed later."""
        environment = await self.fleet.environment(device)

        async def build(problem: Problem, source: Sources, language: str) -> None:
            lease = self._lease(problem, source, language=language, mode=wire.Mode.TEST, device=device, entry="")
            async with waiting:
                with self.fleet.workspace(lease) as work:
                    await build_artifact(lease, self.fleet, work, environment)

        waiting = asyncio.Semaphore(BUILDER_COUNT)  # a workspace takes a slot, of which there are few
        async with asyncio.TaskGroup() as group:
            for problem, source, language in {
                (source, language): (problem, source, language) for problem, source, language in kernels
            }.values():
                group.create_task(build(problem, source, language))

    def _lease(self, problem: Problem, source: Sources, *, language: str, mode: wire.Mode, device: str, entry: str) -> Lease:
        self._count += 1
        new = NewSubmission(
            problem_id=problem.problem_id,
            language=language,
            sources=(SourceFile(path=SOURCE_NAMES.get(language, "kernel.cu"), content=source),) if isinstance(source, str) else source,
            entry=entry,
            device_kind=device,
            mode=mode,
        )
        submission = Submission(
            submission_id=f"gpu{os.getpid()}n{self._count}",
            new=new,
            problem_digest=problem.spec.digest,
            state=SubmissionState.RUNNING,
            create_time=datetime.now(UTC),
        )
        return Lease(submission=submission, problem=problem, attempt=1, worker_id="gpu-tests")

    @contextmanager
    def profile(self, **changes: object) -> Iterator[None]:
        """Other limits for what is graded inside, such as measure_s=2.0; for one task at a time."""
        usual = self.fleet.profile
        self.fleet.profile = replace(usual, **changes)  # type: ignore[arg-type]
        try:
            yield
        finally:
            self.fleet.profile = usual


@asynccontextmanager
async def grader(
    *, isolation: str = "auto", lanes: tuple[int, ...] | None = None, cache: bool = True, hidden: tuple[Path, ...] = ()
) -> AsyncIterator[Grading]:
    """A fleet on this host's GPUs, or on those of these places among them, beside an emulated device. hidden: from boxes, too."""
    # Short, and open to pass: a box's uid goes through it to its link.
    state = Path(tempfile.mkdtemp(prefix="grader-gpu-"))
    state.chmod(0o711)
    hidden_paths = (*PROBLEM_ROOTS, *hidden, state / "artifacts")
    settings = BoxSettings(state_id=f"gpu{secrets.token_hex(4)}", runtime_dir=state / "run", hidden_paths=hidden_paths)
    chosen, _ = await choose(isolation, settings)
    try:
        artifacts = ArtifactCache(state / "artifacts", CACHE_BYTES) if cache else None
        gpus = usable_gpus(lanes)
        async with LocalFleet(isolation=chosen, settings=settings, gpus=gpus, builder_count=BUILDER_COUNT, cache=artifacts) as fleet:
            yield Grading(fleet, settings.state_id)
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


def isolation_from_environment() -> str:
    """What $GRADER_GPU_ISOLATION asks for."""
    return os.environ.get(ISOLATION_VARIABLE, "auto")
