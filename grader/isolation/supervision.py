"""The life of a box: it is started, watched, ended for the first cause that strikes, and cleared away.

How a box is started, looked at and removed is its class's: a container (`docker.py`) or a tree of processes (`host_box.py`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from grader.isolation import Box, BoxExit, BoxSpec, finish_despite_cancel, settled
from grader.isolation.cgroups import Counters
from grader.isolation.processes import exceeds_host_memory
from sandbox.protocol.wire import BoxCause

HEAD_BYTES = 64 * 1024
CHUNK_BYTES = 64 * 1024
ARRIVAL_GRAIN_NS = 1_000_000


class OutputReader:
    """Reads a descriptor that untrusted code writes to: keeps the head, counts the rest, and calls `on_full` at the cap.

    Plain reads: descriptors that the box tries to pass along a socket are dropped by the kernel.
    """

    def __init__(self, descriptor: int, *, cap_bytes: int, on_full: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._cap_bytes = cap_bytes
        self._on_full = on_full
        self.head = bytearray()  # the first 64 KiB
        self._count = 0
        self.arrivals: list[tuple[int, int]] = []  # for `BoxExit`, a millisecond apart at least
        self.ended = asyncio.Event()
        os.set_blocking(descriptor, False)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(descriptor, self._read_once)

    def drain(self) -> None:
        """Take what is already there, for a box that has ended; bounded by the cap."""
        while not self.ended.is_set() and self._read_once():
            pass

    def close(self) -> None:
        """Stop reading; once. Afterwards the descriptor may be closed, and its number may be another's."""
        if not self.ended.is_set():
            self._loop.remove_reader(self._descriptor)
            self.ended.set()

    def _read_once(self) -> bool:
        try:
            chunk = os.read(self._descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return False
        now_ns = time.monotonic_ns()
        if not self.arrivals or now_ns - self.arrivals[-1][1] > ARRIVAL_GRAIN_NS:
            self.arrivals.append((len(self.head), now_ns))
        self.head += chunk[: HEAD_BYTES - len(self.head)]
        self._count += len(chunk)
        if self._count >= self._cap_bytes:
            self.close()
            self._on_full()
        return True


SIGNAL_EXIT_BASE = 128
NEARLY_FULL = 0.98


class SupervisedBox(ABC):
    """A box. `supervise` runs next to it and enforces every limit, whether anybody waits or not. uid: the host's, of its processes."""

    def __init__(self, spec: BoxSpec, uid: int, *, watch_memory: bool) -> None:
        self._spec, self.uid, self._watch_memory = spec, uid, watch_memory
        self._cause: BoxCause | None = None  # the first to strike; later ones change nothing
        self._struck = asyncio.Event()
        self._wall_ns = 0
        self._exit: asyncio.Future[BoxExit] = asyncio.get_running_loop().create_future()
        self._reader: OutputReader | None = None
        self._counters = Counters()
        self._cleared = False
        self._begun = asyncio.Event()
        self.begin(spec.limits.wall_s)

    @property
    def ended(self) -> bool:
        return self._cause is not None or self._exit.done()

    def begin(self, wall_s: float) -> None:
        self._wall_s, self._begin_ns = wall_s, time.monotonic_ns()
        self._begun.set()

    async def wait(self) -> BoxExit:
        return await asyncio.shield(self._exit)

    async def kill(self) -> BoxExit:
        self.end(BoxCause.KILLED)
        return await self.wait()

    def end(self, cause: BoxCause) -> None:
        """Begin to end it for this cause, unless it has ended for another; `supervise` does the rest."""
        if self._cause is None:
            self._cause, self._wall_ns = cause, time.monotonic_ns() - self._begin_ns
            self._struck.set()

    @abstractmethod
    async def start(self) -> None:
        """Start its first process, and the clock of its time; IsolationBroken where that can't be."""

    @abstractmethod
    def _watches(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        """Return the watches over it until it has ended; one of them records that it ended by itself."""

    @abstractmethod
    def _members(self) -> set[int]:
        """Return the processes of the box on this host."""

    @abstractmethod
    async def _stop(self) -> None:
        """End what has to be ended while it is still watched."""

    @abstractmethod
    async def _settle(self) -> int | None:
        """Bring counters and output up to date once nothing runs any more; the exit code, 128 + n for a signal. IsolationBroken."""

    @abstractmethod
    async def _clear(self) -> None:
        """Leave nothing of it; may be called again after it failed."""

    async def supervise(self) -> None:
        """Watch the box until it has ended, leave nothing of it, and set its exit."""
        try:
            async with asyncio.TaskGroup() as tasks:
                watches = (*self._watches(), self._count_down, self._watch_host_memory)
                watchers = [tasks.create_task(watch()) for watch in watches]
                await self._struck.wait()
                await self._stop()
                for watcher in watchers:
                    watcher.cancel()
            code = await self._settle()
            self._exit.set_result(self._summary(code))
        except BaseException as error:
            if not self._exit.done():
                self._exit.set_exception(error)
                self._exit.exception()  # who waits gets it; nobody has to
            if not isinstance(error, Exception):
                raise
        finally:
            await self.clear()

    async def clear(self) -> None:
        """Kill what is left, remove it and close what is open; once."""
        if not self._cleared:
            await self._clear()
            self._cleared = True

    def _summary(self, code: int | None) -> BoxExit:
        """Say how it ended. code: the main process's, 128 + n for a signal; what it claims counts only where nothing else struck."""
        assert self._cause is not None
        cause, exit_code, number = self._cause, code, None
        if code is not None and code - SIGNAL_EXIT_BASE in signal.valid_signals():
            exit_code, number = None, code - SIGNAL_EXIT_BASE
        if cause is BoxCause.EXITED:
            cause = _own_end(exit_code, number, self._counters, self._spec.limits.memory_bytes)
        return BoxExit(
            cause=cause,
            exit_code=exit_code,
            signal=number,
            output=b"" if self._reader is None else bytes(self._reader.head),
            wall_ns=self._wall_ns,
            peak_memory_bytes=self._counters.peak_memory_bytes,
            arrivals=() if self._reader is None else tuple(self._reader.arrivals),
        )

    def _read(self, descriptor: int) -> None:
        on_full = partial(self.end, BoxCause.OUTPUT_LIMIT)
        self._reader = OutputReader(descriptor, cap_bytes=self._spec.limits.output_bytes, on_full=on_full)

    def _drain(self) -> None:
        if self._reader is not None and self._cause is not BoxCause.OUTPUT_LIMIT:
            self._reader.drain()

    async def _count_down(self) -> None:
        while True:
            self._begun.clear()
            try:
                async with asyncio.timeout(self._wall_s):
                    await self._begun.wait()
            except TimeoutError:
                self.end(BoxCause.WALL_LIMIT)
                return

    async def _watch_host_memory(self) -> None:
        """Hold the memory limit where the driver takes memory for the box."""
        if self._spec.gpu is not None and self._watch_memory:
            await exceeds_host_memory(self._spec.limits.memory_bytes, self._members)
            self.end(BoxCause.MEMORY_LIMIT)


@asynccontextmanager
async def live(box: SupervisedBox) -> AsyncIterator[Box]:
    """Start a box; leaving kills it and waits until nothing of it is left."""
    try:
        await box.start()
        supervision = asyncio.create_task(box.supervise(), name="box")
        try:
            yield box
        finally:
            box.end(BoxCause.KILLED)
            await settled(supervision)
    finally:
        await finish_despite_cancel(box.clear())


def _own_end(exit_code: int | None, number: int | None, counters: Counters, memory_limit_bytes: int) -> BoxCause:
    if exit_code == 0:
        return BoxCause.EXITED
    if counters.oom_kills > 0:
        return BoxCause.MEMORY_LIMIT
    # Any process that notices sets the flag; a box that is killed whole may leave us only the peak.
    if number == signal.SIGKILL and (counters.peak_memory_bytes or 0) >= NEARLY_FULL * memory_limit_bytes:
        return BoxCause.MEMORY_LIMIT
    if number == signal.SIGXCPU:
        return BoxCause.WALL_LIMIT
    if number == signal.SIGSYS:
        return BoxCause.SANDBOX_VIOLATION
    if counters.forks_refused > 0:
        return BoxCause.PROCESS_LIMIT
    return BoxCause.EXITED if number is None else BoxCause.SIGNALLED
