"""The fleet of one host: its lanes, its builders, its boxes' directories."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tomllib
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from grader import devices
from grader.artifacts import ArtifactCache, BuildResult
from grader.artifacts.files import SubmissionFiles
from grader.dispatch.gpus import Gpu
from grader.dispatch.judge_process import JudgeProcess
from grader.dispatch.lanes import LOOK_AGAIN_S, DeviceLane, Lanes
from grader.dispatch.turns import Turns
from grader.dispatch.warm_boxes import WarmBoxes, WarmPlace
from grader.grading import pipeline
from grader.grading.build import build_for_another
from grader.grading.ports import BuildElsewhere, LaneReservation, Profile, Workspace
from grader.grading.run_box import RunBox
from grader.isolation import BoxSpec, GpuAccess, Isolation, Limits
from grader.isolation.directories import box_output, hold_slot, run_directory, shared_slot_directory
from grader.isolation.settings import BoxSettings
from grader.model import Lease
from grader.observability.observer import LaneNow, WarmNow
from sandbox.protocol import wire

PROFILES = Path(__file__).parents[2] / "sandbox" / "profiles"
BASELINES = "baselines"  # below the artifacts' directory, which no box sees


class MakeJudge(Protocol):
    """Makes a lane's judge, without starting it."""

    def __call__(self, device_kind: str, gpu: GpuAccess | None, cache_dir: Path | None, /) -> JudgeProcess:
        """Make it."""


class LocalFleet:
    """This host's lanes; `grade` is what the dispatcher calls. Use as an async context.

    gpus: one lane each. lane_count: how many emulated devices there are next to them.
    warm_count: how many run boxes may wait for a job.
    default: the device of a submission that names none; None: any GPU, or the emulated device where there is no GPU.
    Without a lane it grades nothing, and builds for other hosts.
    """

    def __init__(
        self,
        *,
        isolation: Isolation,
        settings: BoxSettings,
        gpus: Sequence[Gpu] = (),
        default: str | None = None,
        lane_count: int = 1,
        builder_count: int = 2,
        profile: Profile | None = None,
        cache: ArtifactCache | None = None,
        files: SubmissionFiles | None = None,
        warm_count: int = 0,
        look_again_s: float = LOOK_AGAIN_S,
        make_judge: MakeJudge = JudgeProcess,
    ) -> None:
        self.isolation = isolation
        self.profile = profile or read_profile(PROFILES / "limits.toml")
        self.cache, self.files = cache, files
        self.build_elsewhere: BuildElsewhere | None = None
        self._settings = settings
        self._looking: asyncio.Task[str] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._triton_dir = run_directory(settings) / f"triton-{secrets.token_hex(4)}"
        baselines = cache.directory / BASELINES if cache is not None and gpus else None
        lanes = [DeviceLane(devices.EMULATED, make_judge(devices.EMULATED, None, None)) for _ in range(lane_count)]
        for gpu in gpus:
            access = self._access(gpu)
            lanes.append(DeviceLane(gpu.kind, make_judge(gpu.kind, access, baselines), access))
        self._lanes = Lanes(lanes, default or (gpus[0].kind if gpus else devices.EMULATED), look_again_s)
        self._builders = asyncio.Semaphore(builder_count)
        self._turns = Turns()
        self._warm = WarmBoxes(isolation, self._warm_place, size=warm_count, fingerprint=isolation.fingerprint)
        # While a lane is busy, what goes there next is built.
        self._most = len(lanes) + max(builder_count, len(lanes))

    async def __aenter__(self) -> LocalFleet:
        await self.isolation.sweep()
        await self._warm.__aenter__()
        if self.cache is not None:
            self._looking = asyncio.create_task(self.isolation.fingerprint())  # now, so that the first job does not wait for it
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._warm.__aexit__()
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.gather(self._preparing, return_exceptions=True)
        await self._lanes.close()
        shutil.rmtree(self._triton_dir, ignore_errors=True)
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)  # who needed it asked again

    @property
    def capacity(self) -> int:
        """How many attempts may be under way, builds and runs together; none where no lane is usable."""
        return self._most if self._lanes.ready else 0

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """What a submission may ask for."""
        return self._lanes.offers

    @property
    def ready_kinds(self) -> tuple[str, ...]:
        """Those of them of which a lane is usable."""
        return self._lanes.ready

    def cordon(self, names: Collection[str]) -> None:
        """Give nothing more to the lanes of these names, as `lanes` has them, and to all others again."""
        self._lanes.cordon(names)

    def recheck(self, names: Collection[str]) -> None:
        """Look at the devices of those of these lanes that are quarantined now."""
        self._lanes.recheck(names)

    async def quarantine(self, name: str, illness: str) -> None:
        """Give nothing more to the lane of this name until a later look finds it well."""
        await self._lanes.quarantine(name, illness)

    def prepare(self, problems: Sequence[wire.ProblemSpec]) -> None:
        """Compile and time, in the background, the baselines of as many of these problems as a judge keeps, so that the first submission
        to one does not wait for that. GPUs only: nothing is compiled for the emulated device."""
        self._preparing = asyncio.create_task(self._lanes.prepare(problems[: wire.KEPT_PROBLEM_COUNT]))

    def lanes(self) -> tuple[LaneNow, ...]:
        """What each lane is doing now."""
        return self._lanes.now

    def warm(self) -> WarmNow:
        """The run boxes that wait for a job."""
        return self._warm.now

    def grade(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        """Grade one attempt on this host."""
        return pipeline.grade(lease, self)

    async def environment(self, device_kind: str) -> wire.Environment:
        """What a device of that kind says of itself."""
        with self.seat(device_kind) as seat:
            return await seat.environment()

    # -- what the pipeline needs of a host -------------------------------------------------------------------------------

    def run_box(self, spec: BoxSpec) -> AbstractAsyncContextManager[RunBox]:
        """A run box: one that waits, or a new one."""
        return self._warm.run_box(spec)

    def times(self, attempt: object, *, busy: bool, by_host_clock: bool) -> None:
        """Start no box that would disturb what an attempt times."""
        self._warm.times(attempt, busy=busy, by_host_clock=by_host_clock)

    @contextmanager
    def _warm_place(self) -> Iterator[WarmPlace]:
        """What a box needs that is started before there is a job for it."""
        root = run_directory(self._settings) / secrets.token_hex(8)
        root.mkdir(mode=0o711)
        root.chmod(0o711)
        try:
            (root / "link").mkdir()
            (root / "link").chmod(0o755)
            with hold_slot(shared_slot_directory()) as slot:
                yield WarmPlace(link_dir=root / "link", slot=slot, box_id=f"warm-{secrets.token_hex(8)}")
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def seat(self, device_kind: str) -> AbstractContextManager[LaneReservation]:
        """Sit down at a lane of that kind, where the fewest sit."""
        return self._lanes.seat(device_kind)

    @contextmanager
    def workspace(self, lease: Lease) -> Iterator[Workspace]:
        """Make an attempt's directories below the server's own, under a name that nobody guesses."""
        with self._workspace(f"{lease.submission.submission_id}-{lease.attempt}") as work:
            yield work

    async def build(self, job: wire.BuildJob, files: Mapping[str, bytes], user: str) -> BuildResult:
        """Build for another host. files: by their paths below the directory of sources."""
        with self._workspace(f"built-{secrets.token_hex(8)}") as work:
            return await build_for_another(job, files, user, self, work)

    @contextmanager
    def _workspace(self, box_id: str) -> Iterator[Workspace]:
        root = run_directory(self._settings) / secrets.token_hex(8)
        root.mkdir(mode=0o711)
        root.chmod(0o711)
        try:
            for name in ("src", "link"):
                (root / name).mkdir()
                (root / name).chmod(0o755)
            make_output = partial(box_output, self._settings, limit_bytes=self.profile.build.file_bytes)
            with hold_slot(shared_slot_directory()) as slot, make_output() as out_dir:
                yield Workspace(
                    source_dir=root / "src",
                    out_dir=out_dir,
                    link_dir=root / "link",
                    artifact_path=root / "artifact",
                    slot=slot,
                    box_id=box_id,
                    make_output=make_output,
                )
        finally:
            shutil.rmtree(root, ignore_errors=True)

    @asynccontextmanager
    async def builder(self) -> AsyncIterator[None]:
        """Wait for a core to build on."""
        async with self._builders:
            yield

    def turn(self, *, secret: bool) -> AbstractAsyncContextManager[None]:
        """Wait until a box may run code of submissions here."""
        return self._turns.take(secret=secret)

    def _access(self, gpu: Gpu) -> GpuAccess:
        """The GPU as a box may see it. Its lane's judge fills triton_dir; boxes read it, hence the open mode."""
        triton_dir = self._triton_dir / str(gpu.index)
        for directory in (self._triton_dir, triton_dir):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o755)
        return GpuAccess(index=gpu.index, uuid=gpu.uuid, name=gpu.name, minor=gpu.minor, triton_dir=triton_dir)


def read_profile(path: Path) -> Profile:
    """Read limits.toml."""
    table = tomllib.loads(path.read_text("utf-8"))
    run = table["run"]
    return Profile(build=Limits(**table["build"]), run=Limits(**run), run_cuda=Limits(**table.get("run_cuda", run)), **table["judge"])
