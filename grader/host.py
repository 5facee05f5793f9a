"""The seams between grading and the machine that it is done on; `grader/fleet/local.py` fills them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from grader.artifacts import ArtifactCache
from grader.isolation import Isolation, Limits
from grader.model import Lease
from sandbox import wire


class Lane(Protocol):
    """A device and its judge, ours until the context is left."""

    environment: wire.Environment

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The judge's facts up to Finished or Broken; JudgeBroken where it died."""


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
    run: Limits
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

    def idle(self, device_kind: str) -> bool:
        """Whether nobody is on the device or waits for it."""

    def lane(self, device_kind: str) -> AbstractAsyncContextManager[Lane]:
        """Wait for a device. One job at a time is on it."""

    async def environment(self, device_kind: str) -> wire.Environment:
        """What reports from this device are made on and with."""
