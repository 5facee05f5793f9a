"""A run box as an attempt uses it: it imports what it needs, waits, and is given one job.

Two named pipes in its {link} take it through that. It writes to `ready` once it has imported everything, which is believed for scheduling
only. It reads `go`, asleep and without a timer, until it is given its job. Both are there before it starts, and gone after it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from grader.errors import SandboxBroken
from grader.isolation import Box, BoxExit, BoxSpec, Isolation, IsolationBroken
from grader.isolation.cancellation import finish_despite_cancel
from sandbox.protocol.box_files import GO, READY

IMPORT_S = 60.0


class JobPipes:
    """The pipes of one box. ready: set once it says that it waits."""

    def __init__(self, link_dir: Path) -> None:
        self._paths = link_dir / READY, link_dir / GO
        for path, mode in zip(self._paths, (0o622, 0o644), strict=True):  # whatever the server's umask is
            path.unlink(missing_ok=True)
            os.mkfifo(path)
            path.chmod(mode)
        # Both ends are held: what is written before the box opens its own stays, and nothing blocks. If this process dies, it reads an end.
        self._ready, self._go = (os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for path in self._paths)
        self.ready = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._ready, self._hear)

    def give(self) -> None:
        """There is a job."""
        os.write(self._go, b"g")

    def close(self) -> None:
        """Remove them."""
        asyncio.get_running_loop().remove_reader(self._ready)
        for descriptor in (self._ready, self._go):
            os.close(descriptor)
        for path in self._paths:
            path.unlink(missing_ok=True)

    def _hear(self) -> None:
        self.ready.set()
        asyncio.get_running_loop().remove_reader(self._ready)  # what else it writes there is of no interest


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBox:
    """A box that waits for its job, and {link} as the host sees it. wall_s: how long it may take for the job."""

    box: Box
    link_dir: Path
    wall_s: float
    pipes: JobPipes

    async def imported(self) -> bool:
        """Wait until it reports that it has imported everything, or has ended, for IMPORT_S at most. Return whether it has reported,
        which decides nothing else."""
        waits = [asyncio.ensure_future(event) for event in (self.pipes.ready.wait(), self.box.wait())]
        try:
            await asyncio.wait(waits, timeout=IMPORT_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self.pipes.ready.is_set()

    def give_job(self) -> None:
        """Let it go on to its judge. Its time counts from here."""
        self.box.begin(self.wall_s)
        with suppress(BlockingIOError):  # a pipe is full after thousands of them
            self.pipes.give()


@asynccontextmanager
async def open_box(isolation: Isolation, spec: BoxSpec) -> AsyncIterator[Box]:
    """Start a box; an isolation that cannot is our fault. Leaving ends it and waits until nothing of it is left."""
    try:
        async with isolation.start(spec) as box:
            yield box
    except IsolationBroken as error:
        raise SandboxBroken(str(error)) from error


@asynccontextmanager
async def started(isolation: Isolation, spec: BoxSpec) -> AsyncIterator[RunBox]:
    """Start a run box; leaving ends it and waits until nothing of it is left."""
    assert spec.link_dir is not None
    pipes = JobPipes(spec.link_dir)
    try:
        async with open_box(isolation, spec) as box:
            yield RunBox(box=box, link_dir=spec.link_dir, wall_s=spec.limits.wall_s, pipes=pipes)
    finally:
        pipes.close()


class HeldRunBox:
    """A run box that one task opens and closes, so that it may be begun in one place and ended in another. box: once it has started, or
    why it has not."""

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[RunBox]]) -> None:
        self._start = start
        self._finished = asyncio.Event()
        self._holder: asyncio.Task[None] | None = None
        self.box: asyncio.Future[RunBox] = asyncio.get_running_loop().create_future()

    @property
    def opened(self) -> bool:
        """Return whether it was begun."""
        return self._holder is not None

    def open(self) -> None:
        """Begin it, unless it was."""
        if self._holder is None:
            self._holder = asyncio.create_task(self._hold())

    async def close(self) -> None:
        """End it, and wait until nothing of it is left."""
        self._finished.set()
        if self._holder is None:
            return
        await finish_despite_cancel(asyncio.wait([self._holder]))
        if self.box.done() and not self.box.cancelled():
            self.box.exception()  # seen: anybody who asked for the box got it
        self._holder.result()

    async def _hold(self) -> None:
        try:
            async with self._start() as box:
                self.box.set_result(box)
                await self._finished.wait()
        except Exception as error:
            if self.box.done():
                raise
            self.box.set_exception(error)  # anybody who takes the box gets it


async def ending(box: Box, patience_s: float) -> BoxExit:
    """Return how a box ended that should end by itself within this time; after it the box is killed."""
    try:
        async with asyncio.timeout(patience_s):
            return await box.wait()
    except TimeoutError:
        return await box.kill()


@asynccontextmanager
async def closed_link(box: Box, link: Path) -> AsyncIterator[None]:
    """While inside, tell the judge when the box has ended, so that it does not wait for a runner that never comes."""
    closed = link.with_name(f"{link.name}.closed")
    closed.unlink(missing_ok=True)  # of the box before

    async def watch() -> None:
        await box.wait()
        closed.touch()

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
