"""The fleet of one host: its lanes, its builders, its boxes' directories."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from grader import pipeline
from grader.artifacts import ArtifactCache
from grader.errors import NoSuchDevice
from grader.fleet.judge_process import JudgeProcess
from grader.host import Lane, Profile, Workspace
from grader.isolation import Isolation, Limits
from grader.isolation.runtime import box_output, run_directory
from grader.isolation.settings import BoxSettings
from grader.isolation.slots import hold_slot, shared_slot_directory
from grader.model import Lease
from sandbox import wire

DEVICE_KINDS = ("emulated",)
PROFILES = Path(__file__).parents[2] / "sandbox" / "profiles"


class _Lane:
    """A judge whose turn it is."""

    def __init__(self, judge: JudgeProcess, environment: wire.Environment) -> None:
        self.environment = environment
        self._judge = judge

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        return self._judge.judge(job)


class LocalFleet:
    """This host's lanes; `grade` is what the dispatcher calls. Use as an async context."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        settings: BoxSettings,
        device_kinds: tuple[str, ...] = DEVICE_KINDS,
        lane_count: int = 1,
        builder_count: int = 2,
        profile: Profile | None = None,
        cache: ArtifactCache | None = None,
        make_judge: Callable[[str], JudgeProcess] = JudgeProcess,
    ) -> None:
        self.isolation = isolation
        self.profile = profile or read_profile(PROFILES / "limits.toml")
        self.cache = cache
        self._settings = settings
        self._looking: asyncio.Task[str] | None = None
        self._judges = {kind: [make_judge(kind) for _ in range(lane_count)] for kind in device_kinds}
        # Last in, first out: a judge that has just worked is warm.
        self._free: dict[str, asyncio.LifoQueue[JudgeProcess]] = {kind: asyncio.LifoQueue() for kind in device_kinds}
        for kind, judges in self._judges.items():
            for judge in reversed(judges):
                self._free[kind].put_nowait(judge)
        self._builders = asyncio.Semaphore(builder_count)

    async def __aenter__(self) -> LocalFleet:
        await self.isolation.sweep()
        if self.cache is not None:
            self._looking = asyncio.create_task(self.isolation.fingerprint())  # now, so that the first job does not wait for it
        return self

    async def __aexit__(self, *_: object) -> None:
        for judges in self._judges.values():
            for judge in judges:
                await judge.close()
        if self._looking is not None:
            await asyncio.gather(self._looking, return_exceptions=True)  # whoever needed it asked again, and was told

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """The kinds that a submission may ask for."""
        return tuple(self._judges)

    def grade(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        """Grade one attempt on this host."""
        return pipeline.grade(lease, self)

    # -- what the pipeline needs of a host -------------------------------------------------------------------------------

    @contextmanager
    def workspace(self, lease: Lease) -> Iterator[Workspace]:
        """Make an attempt's directories below the server's own, under a name that nobody guesses."""
        box_id = f"{lease.submission.submission_id}-{lease.attempt}"
        root = run_directory(self._settings) / secrets.token_hex(8)
        root.mkdir(mode=0o711)
        root.chmod(0o711)
        try:
            for name in ("src", "link"):
                (root / name).mkdir()
                (root / name).chmod(0o755)
            with (
                hold_slot(shared_slot_directory()) as slot,
                box_output(self._settings, limit_bytes=self.profile.build.file_bytes) as out_dir,
            ):
                yield Workspace(
                    source_dir=root / "src",
                    out_dir=out_dir,
                    link_dir=root / "link",
                    artifact_path=root / "artifact",
                    slot=slot,
                    box_id=box_id,
                )
        finally:
            shutil.rmtree(root, ignore_errors=True)

    @asynccontextmanager
    async def builder(self) -> AsyncIterator[None]:
        """Wait for a core to build on."""
        async with self._builders:
            yield

    def idle(self, device_kind: str) -> bool:
        """Whether nobody is on the device or waits for it."""
        return not self._free[self._kind(device_kind)].empty()

    @asynccontextmanager
    async def lane(self, device_kind: str) -> AsyncIterator[Lane]:
        """Wait for the device."""
        free = self._free[self._kind(device_kind)]
        judge = await free.get()
        try:
            yield _Lane(judge, await judge.environment())
        finally:
            free.put_nowait(judge)

    async def environment(self, device_kind: str) -> wire.Environment:
        """What the device's judge says of itself."""
        return await self._judges[self._kind(device_kind)][0].environment()

    def _kind(self, wanted: str) -> str:
        kind = wanted or next(iter(self._judges))
        if kind not in self._judges:
            raise NoSuchDevice(kind, self.device_kinds)
        return kind


def read_profile(path: Path) -> Profile:
    """Read limits.toml."""
    table = tomllib.loads(path.read_text("utf-8"))
    return Profile(build=Limits(**table["build"]), run=Limits(**table["run"]), **table["judge"])
