"""The fleet of one host: its lanes, its builders, its boxes' directories."""

from __future__ import annotations

import asyncio
import math
import secrets
import shutil
import time
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from grader import devices
from grader.artifacts import ArtifactCache, SubmissionFiles
from grader.dispatch.gpus import Gpu
from grader.dispatch.lanes import LOOK_AGAIN_S, DeviceLane, JudgeMaker, JudgeProcess, Lanes
from grader.dispatch.warm_boxes import WarmBoxes
from grader.grading import cascade
from grader.grading.attempt import Profile, Workspace
from grader.isolation import BoxSpec, GpuAccess, Isolation, Limits
from grader.isolation.directories import box_output, hold_slot, run_directory, shared_slot_directory
from grader.isolation.settings import BoxSettings
from grader.model import Lease
from sandbox.protocol import wire

PROFILES = Path(__file__).parents[2] / "sandbox" / "profiles"
GRACE_S = 1.0  # from the end of a build to its run
BASELINES = "baselines"  # below the artifacts' directory, which no box sees


async def _no_wait() -> None:
    """Wait for nothing."""


class Turns:
    """Keeps processes that meet a competition's secret workloads apart from those whose text or figures are shown.

    Boxes that live at the same time can tell each other things: by pages of shared files, and by how long everything takes.
    Any amount of work of one kind is under way at a time, and none of the other. Use on one event loop only.

    Newcomers wait too while work of the other kind waits. But after a secret turn shown work goes first for as long as that
    turn took: a kernel chooses how long it takes, and may not keep a host from everybody else.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, before_secret: Callable[[], Awaitable[None]] = _no_wait) -> None:
        self._clock, self._before_secret = clock, before_secret
        self._secret, self._count = False, 0
        self._begin_s = self._owed_until_s = self._shown_end_s = -math.inf
        self._waiting: list[tuple[bool, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def take(self, *, secret: bool) -> AsyncIterator[None]:
        """Wait until no work of the other kind is under way, and hold it off until the context is left."""
        if secret:
            await self._before_secret()
        waiter = secret, asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._admit()
        try:
            await waiter[1]
            yield
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                self._count -= 1
                if not self._count and self._secret:
                    self._owed_until_s = 2 * self._clock() - self._begin_s
                elif not self._count:
                    self._shown_end_s = self._clock()
            self._admit()

    def _admit(self) -> None:
        kinds = [secret for secret, _ in self._waiting]
        owed_s = self._owed_until_s - self._clock()  # how much longer shown work goes first
        if not kinds or (self._count and (not self._secret) in kinds and (self._secret or owed_s <= 0)):
            return
        if not self._count:
            self._secret = False not in kinds if owed_s > 0 else kinds[0]
            pause_s = min(owed_s, self._shown_end_s + GRACE_S - self._clock())
            if self._secret and pause_s > 0:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = asyncio.get_running_loop().call_later(pause_s, self._admit)
                return
            self._begin_s = self._clock()
        for waiter in [waiter for waiter in self._waiting if waiter[0] is self._secret]:
            self._waiting.remove(waiter)
            self._count += 1
            if not waiter[1].done():
                waiter[1].set_result(None)


class LocalFleet:
    """This host's lanes; `grade` is what the dispatcher calls. Use as an async context.

    gpus: one lane each. lane_count: how many emulated devices there are next to them.
    warm_count: how many run boxes may wait for a job.
    default: the device of a submission that names none; None: any GPU, or the emulated device where there is no GPU.
    before_secret: is waited for before a box meets a competition's secret workloads.
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
        make_judge: JudgeMaker = JudgeProcess,
        before_secret: Callable[[], Awaitable[None]] = _no_wait,
    ) -> None:
        self.isolation = isolation
        self.profile = profile or read_profile(PROFILES / "limits.toml")
        self.cache, self.files = cache, files
        self._settings = settings
        self._looking: asyncio.Task[str] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._triton_dir = run_directory(settings) / f"triton-{secrets.token_hex(4)}"
        baselines = cache.directory / BASELINES if cache is not None and gpus else None
        lanes = [DeviceLane(devices.EMULATED, make_judge(devices.EMULATED, None, None)) for _ in range(lane_count)]
        for gpu in gpus:
            # Boxes read what the lane's judge puts there, hence the open mode.
            triton_dir = self._triton_dir / str(gpu.index)
            for directory in (self._triton_dir, triton_dir):
                directory.mkdir(exist_ok=True)
                directory.chmod(0o755)
            access = GpuAccess(index=gpu.index, uuid=gpu.uuid, name=gpu.name, minor=gpu.minor, triton_dir=triton_dir)
            lanes.append(DeviceLane(gpu.kind, make_judge(gpu.kind, access, baselines), access))
        self._lanes = Lanes(lanes, default or (gpus[0].kind if gpus else devices.EMULATED), look_again_s)
        builders = asyncio.Semaphore(builder_count)
        self._warm = warm = WarmBoxes(isolation, self._warm_place, size=warm_count)
        # What the server, the pipeline and the breaker call.
        self.cordon, self.quarantine, self.seat = self._lanes.cordon, self._lanes.quarantine, self._lanes.reserve
        self.lanes, self.device_kinds, self.ready_kinds = self._lanes.now, self._lanes.offers, self._lanes.ready
        self.run_box, self.times, self.warm, self.generation = warm.run_box, warm.times, warm.now, warm.generation
        self.end_waiting = warm.end_waiting
        self.before_secret, self.turn = before_secret, Turns(before_secret=before_secret).take
        self.builder: Callable[[], AbstractAsyncContextManager[None]] = lambda: builders
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
        return self._most if self.ready_kinds() else 0

    def prepare(self, problems: Sequence[wire.ProblemSpec]) -> None:
        """Compile and time, in the background, the baselines of as many of these problems as a judge keeps, so that the first submission
        to one does not wait for that. GPUs only: nothing is compiled for the emulated device."""
        self._preparing = asyncio.create_task(self._lanes.prepare(problems[: wire.KEPT_PROBLEM_COUNT]))

    def grade(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        """Grade one attempt on this host."""
        return cascade.grade(lease, self)

    @contextmanager
    def _warm_place(self, spec: BoxSpec) -> Iterator[BoxSpec]:
        with self._directories("link") as root, hold_slot(shared_slot_directory()) as slot:
            yield replace(spec, link_dir=root / "link", slot=slot, box_id=f"warm-{secrets.token_hex(8)}")

    @contextmanager
    def workspace(self, lease: Lease) -> Iterator[Workspace]:
        """Make an attempt's directories."""
        make_output = partial(box_output, self._settings, limit_bytes=self.profile.build.file_bytes)
        with self._directories("src", "link") as root, hold_slot(shared_slot_directory()) as slot, make_output() as out_dir:
            yield Workspace(
                source_dir=root / "src",
                out_dir=out_dir,
                link_dir=root / "link",
                artifact_path=root / "artifact",
                slot=slot,
                box_id=f"{lease.submission.submission_id}-{lease.attempt}",
                make_output=make_output,
            )

    @contextmanager
    def _directories(self, *names: str) -> Iterator[Path]:
        """Make directories below the server's own, under a name that nobody guesses."""
        root = run_directory(self._settings) / secrets.token_hex(8)
        root.mkdir(mode=0o711)
        root.chmod(0o711)
        try:
            for name in names:
                (root / name).mkdir()
                (root / name).chmod(0o755)
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)


def read_profile(path: Path) -> Profile:
    """Read limits.toml."""
    table = tomllib.loads(path.read_text("utf-8"))
    run = table["run"]
    return Profile(build=Limits(**table["build"]), run=Limits(**run), run_cuda=Limits(**table.get("run_cuda", run)), **table["judge"])
