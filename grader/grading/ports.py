"""The seams between grading and the machine that it is done on; `grader/dispatch/local_fleet.py` fills them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from grader.artifacts import ArtifactCache
from grader.artifacts.files import SubmissionFiles
from grader.grading.run_box import RunBox
from grader.isolation import BoxSpec, GpuAccess, Isolation, Limits
from grader.model import Lease, NewSubmission
from sandbox.protocol import wire

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

    def workspace(self, lease: Lease) -> AbstractContextManager[Workspace]:
        """Make an attempt's directories."""

    def run_box(self, spec: BoxSpec) -> AbstractAsyncContextManager[RunBox]:
        """A run box of this specification, which waits for its job. Leaving ends it."""

    def times(self, attempt: object, *, busy: bool, by_host_clock: bool) -> None:
        """An attempt times something, or no longer: meanwhile nothing is started on this host that can wait and would disturb it.

        by_host_clock: whether the host's clock times it, and not that of a GPU.
        """

    def seat(self, device_kind: str) -> AbstractContextManager[LaneReservation]:
        """Sit down at a lane of that kind, where the fewest sit."""
