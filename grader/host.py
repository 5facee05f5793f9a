"""The seams between grading and the machine that it is done on; `grader/fleet/local.py` fills them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from grader.artifacts import ArtifactCache
from grader.isolation import GpuAccess, Isolation, Limits
from grader.model import Lease
from sandbox import wire


class Lane(Protocol):
    """A device and its judge, ours until the context is left. By then the run box is gone, for the device is checked after."""

    @property
    def environment(self) -> wire.Environment:
        """What reports from here are made on and with."""

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The judge's facts up to Finished or Broken; JudgeBroken where it died."""


class Seat(Protocol):
    """One attempt's place at a lane, from before the build on. It may end up at another lane whose device is alike."""

    @property
    def gpu(self) -> GpuAccess | None:
        """The GPU of the lane, as its run box gets it; None on the emulated device."""

    @property
    def idle(self) -> bool:
        """Whether a run box may be started before the lane is asked for. Where there is a GPU it is then kept for this seat."""

    async def environment(self) -> wire.Environment:
        """What reports from this lane are made on and with."""

    def lane(self) -> AbstractAsyncContextManager[Lane]:
        """Wait for the device. One job at a time is on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """One attempt's directories, and its slot; all gone when the attempt ends."""

    source_dir: Path
    out_dir: Path
    link_dir: Path
    artifact_path: Path
    slot: int
    box_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a box may use, and how long the judge is patient; `sandbox/profiles/limits.toml`."""

    build: Limits
    run: Limits  # on the emulated device
    run_cuda: Limits
    load_s: float
    measure_s: float


class Host(Protocol):
    """What grading needs of the machine that it runs on."""

    isolation: Isolation
    profile: Profile
    cache: ArtifactCache | None  # None: everything is built

    def workspace(self, lease: Lease) -> AbstractContextManager[Workspace]:
        """Make an attempt's directories."""

    def builder(self) -> AbstractAsyncContextManager[None]:
        """Wait for a core to build on."""

    def seat(self, device_kind: str) -> AbstractContextManager[Seat]:
        """Sit down at a lane of that kind, where the fewest sit."""
