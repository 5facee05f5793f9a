"""Parents of boxes, which are replaced when they have ended."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from grader.isolation import Box, BoxSpec, Purpose, forks
from grader.isolation.forks import ForkParent, ForkParents
from grader.isolation.settings import BoxSettings
from tests import fakes
from tests.unit.pipeline_fleets import until

SPEC = BoxSpec(box_id="b", purpose=Purpose.RUN, argv=("run",), fork_argv=("fork",), limits=fakes.LIMITS, slot=0)
SECOND_SPEC = replace(SPEC, fork_argv=("fork", "other"))


class Parents(ForkParents):
    """Parents without processes. open: those that hold a slot and a directory."""

    def __init__(self) -> None:
        super().__init__(BoxSettings(state_id="a", runtime_dir=Path()), fakes.FakeBoxes().start, fakes.FakeBoxes().fingerprint)
        self.open: list[BoxSpec] = []

    @asynccontextmanager
    async def _started(self, spec: BoxSpec) -> AsyncIterator[tuple[socket.socket, Box]]:
        self.open.append(spec)
        with socket.socket(socket.AF_UNIX) as link:
            yield link, fakes.FakeBox()
        self.open.remove(spec)

    async def used(self, spec: BoxSpec) -> ForkParent | None:
        async with self.hold(spec) as parent:
            return parent


async def test_a_parent_that_ended_is_left_when_a_box_of_another_kind_begins() -> None:
    """The control, which lives, stays."""
    parents = Parents()
    parent = await parents.used(SPEC)
    await parents.used(SECOND_SPEC)
    assert parents.open == [SPEC, SECOND_SPEC]
    await parent.value.result()[1].kill()
    await parents.used(SECOND_SPEC)
    await until(lambda: parents.open == [SECOND_SPEC])
    await parents.close()


async def test_a_parent_that_ended_at_a_fork_is_replaced_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at once, lest every box be broken that its successors fork; and not while it lives."""
    parents = Parents()
    parent = await parents.used(SPEC)
    parent.fail()
    monkeypatch.setattr(forks, "RETRY_S", -1.0)
    assert await parents.used(SPEC) is None
    await parent.value.result()[1].kill()
    monkeypatch.setattr(forks, "RETRY_S", 3600.0)
    assert await parents.used(SPEC) is None
    monkeypatch.setattr(forks, "RETRY_S", -1.0)
    assert await parents.used(SPEC) not in (None, parent)
    await parents.close()


async def test_the_link_to_a_parent_that_imports_too_long_is_closed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as parent:
        listener.bind(str(tmp_path / "link"))
        listener.listen(1)
        listener.setblocking(False)
        parent.connect(str(tmp_path / "link"))
        parent.settimeout(60)
        task = asyncio.create_task(forks._imported(listener, 7))
        assert await asyncio.to_thread(parent.recv, 9) == b"7"
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:  # whose traceback holds the link, so that nothing else closes it
            await task
        parent.settimeout(1)
        assert parent.recv(9) == b""
        del cancelled
