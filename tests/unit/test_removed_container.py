"""A container that is gone before anybody could look at it, as one is that meets its limit at once. The engine is a fake."""

import asyncio
from dataclasses import replace
from pathlib import Path

import docker.errors
import pytest

from grader.isolation import BoxSpec, IsolationBroken, Purpose
from grader.isolation.docker import DockerBox, StdioSocket
from grader.isolation.settings import Protections
from grader.isolation.supervision import live
from tests import fakes


class RemovedClient:
    """A client that takes a container, and knows it no more."""

    def __init__(self) -> None:
        self.removals = 0

    def create_container_from_config(self, config: object, name: str) -> None: ...

    def start(self, name: str) -> None: ...

    def wait(self, name: str, timeout: int) -> dict[str, int]:
        raise docker.errors.NotFound("no such container")

    def inspect_container(self, name: str) -> dict[str, object]:
        raise docker.errors.NotFound("no such container")

    def remove_container(self, name: str, *, force: bool, v: bool) -> None:
        self.removals += 1


class FakeEngine:
    """An engine that calls at once."""

    local = True

    def __init__(self) -> None:
        self.client = RemovedClient()

    async def call(self, work):  # type: ignore[no-untyped-def]
        await asyncio.sleep(0)
        return work(self.client)


async def test_its_end_is_an_error_of_the_isolation(tmp_path: Path) -> None:
    """And not whatever the engine said of a container that we removed, which no caller expects."""
    engine = FakeEngine()
    spec = BoxSpec(box_id="b", purpose=Purpose.RUN, argv=("true",), limits=replace(fakes.LIMITS, wall_s=0.0), slot=0)
    stdio = StdioSocket(tmp_path, "stdio")
    box = DockerBox(engine, "b", {}, spec, 1, stdio, Protections())  # type: ignore[arg-type]
    async with asyncio.timeout(60), live(box):
        with pytest.raises(IsolationBroken, match="never reported"):
            await box.wait()
    assert engine.client.removals == 1
