"""The seam between the pipeline and what keeps untrusted code in: one single-use box per build or run; and waits that outlast a
cancellation.

An implementation promises: when `start` is left, every process that ever ran in the box is gone, whatever it did; nothing
that the box printed or left behind was opened by name after untrusted code ran; a box of a server that died is removed by `sweep`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from sandbox.protocol.wire import BoxCause

# Where things lie, seen from inside a box. `process` has no root of its own: there the host's paths take their place,
# which is why an argv names them in braces ("{link}/judge.sock") and the isolation fills them in.
LIB, LINK, SRC, OUT = "/grader/lib", "/grader/link", "/grader/src", "/grader/out"

Result = TypeVar("Result")


class IsolationBroken(Exception):
    """The isolation could not do its work; the message says what to do."""


class NoIsolationWorks(IsolationBroken):
    """None of the wanted isolations is usable on this host."""


class Purpose(StrEnum):
    """The purpose of a box."""

    BUILD = "build"
    RUN = "run"
    CHECK = "check"  # of a problem: runs its reference
    FORK = "fork"  # forks the commands of run boxes, and runs nothing of a submission itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Resource limits of a box; `sandbox/profiles/limits.toml` holds the defaults."""

    wall_s: float
    cpu_s: float
    memory_bytes: int
    process_count: int
    output_bytes: int  # what it may print, stdout and stderr together
    file_bytes: int  # one file, and the whole of {out}
    tmp_bytes: int
    open_file_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuAccess:
    """The one GPU that a run box gets; where its nodes and the driver's libraries lie, the isolation finds out by itself.

    index: in PCI order, as `nvidia-smi` counts.
    minor: N of its node /dev/nvidiaN.
    triton_dir: bound read-only; holds what Triton compiled for this GPU before any untrusted code ran.
    """

    index: int
    uuid: str
    name: str
    minor: int
    triton_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxSpec:
    """Specification of a single-use box.

    argv: the command, with {python} {lib} {link} {src} {out} for paths inside. Runs as the box's uid, under `sandbox.box_init`.
    link_dir: bound read-only at {link}; sockets appear in it while the box runs.
    src_dir: bound read-only at {src}; None in a run box; the judge and the problem in a check box.
    out_dir: an empty directory, made by `start`'s caller, bound writable at {out}; None in a run box without profilers.
        After the box is gone its files are taken with `pickup`.
    slot: a small number that no other live box of this host has; it decides the uid.
    gpu: None in a build box, always: nothing is measured there, so nothing needs one.
    tool_dir: bound read-only where it lies on the host: a profiler outside of the toolchain. A box made from an image has its own.
    fork_argv: the command of a parent that has imported what this box needs, and may fork its command; () where it may not.
    fork_arguments: those of its command that its parent's has not.
    """

    box_id: str
    purpose: Purpose
    argv: tuple[str, ...]
    limits: Limits
    slot: int
    link_dir: Path | None = None
    src_dir: Path | None = None
    out_dir: Path | None = None
    environment: tuple[tuple[str, str], ...] = ()
    gpu: GpuAccess | None = None
    tool_dir: Path | None = None
    fork_argv: tuple[str, ...] = ()
    fork_arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.gpu is not None and self.purpose is Purpose.BUILD:
            raise ValueError("a build box gets no GPU; set gpu for Purpose.RUN and Purpose.CHECK only")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxExit:
    """How a box ended, as the host saw it."""

    cause: BoxCause
    exit_code: int | None = None
    signal: int | None = None
    output: bytes = b""  # the head of what it printed, at most 64 KiB
    wall_ns: int = 0
    peak_memory_bytes: int | None = None
    arrivals: tuple[tuple[int, int], ...] = ()  # from which byte of the output on it came when, by the host's monotonic clock

    def output_before(self, time_ns: int) -> bytes:
        """Return the output that had arrived by then. Whatever was printed later came later."""
        return self.output[: next((offset for offset, came_ns in self.arrivals if came_ns >= time_ns), len(self.output))]


class Box(Protocol):
    """A running box."""

    @property
    def uid(self) -> int:
        """The host uid that its processes have."""

    @property
    def ended(self) -> bool:
        """Return whether it has begun to end, by itself or at a limit, or is lost."""

    def begin(self, wall_s: float) -> None:
        """Count its time, and at most so much of it, from now on: until here it has waited for what it is to do."""

    async def wait(self) -> BoxExit:
        """Return when the box has ended by itself or at a limit; every limit is enforced while this waits or not."""

    async def kill(self) -> BoxExit:
        """End it now and say how it ended; the first cause wins. Safe to call twice, and after the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Result of a check of an isolation on this host; detail: if it does not work, why and what to do."""

    usable: bool
    detail: str
    warnings: tuple[str, ...] = ()


class Isolation(Protocol):
    """A way to make boxes."""

    NAME: str
    SAFE: bool  # False: a server that listens beyond loopback refuses it

    async def check(self) -> Availability:
        """Try it for real: start a trivial box. At most a few seconds."""

    def start(self, spec: BoxSpec) -> AbstractAsyncContextManager[Box]:
        """Start a box; leaving the context kills it and waits until nothing of it is left."""

    async def fingerprint(self, *, fresh: bool = False) -> str:
        """A digest of all that a box is made of: as long as it stays, the same sources and settings build the same artifact.
        fresh: as of now; else it may be a second old."""

    async def sweep(self) -> int:
        """Remove every box that an earlier server with the same state directory left; say how many."""


async def finish_despite_cancel(work: Coroutine[Any, Any, Result]) -> Result:
    """Run `work` to its end even if this task is cancelled meanwhile; then raise the cancellation."""
    return await settled(asyncio.ensure_future(work))


async def settled(task: asyncio.Task[Result]) -> Result:
    """Wait until `task` has ended, whatever happens to us meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # looked at, so that it is not reported as forgotten
        raise cancelled
    return task.result()


class Held(Generic[Result]):
    """A context that a task of its own opens and leaves, so that it may be opened in one place and closed in another.
    value: once it is open, or why it is not."""

    def __init__(self, start: Callable[[], AbstractAsyncContextManager[Result]]) -> None:
        self.value: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._left = asyncio.Event()
        self._holder = asyncio.create_task(self._hold(start))
        self._holder.add_done_callback(self._close_value)

    async def opened(self) -> Result:
        """Return its value once it is open, or raise why it is not."""
        return await asyncio.shield(self.value)

    def leave(self) -> asyncio.Task[None]:
        """Begin to leave it, or to give up opening it; return the task that ends when nothing of it is left."""
        if not self._left.is_set() and not self.value.done():
            self._holder.cancel()  # once: a second time would cut short what it cleans up
        self._left.set()
        return self._holder

    async def close(self) -> None:
        """Leave it, and wait until nothing of it is left."""
        await finish_despite_cancel(asyncio.wait([self.leave()]))
        if not self._holder.cancelled():
            self._holder.result()

    async def _hold(self, start: Callable[[], AbstractAsyncContextManager[Result]]) -> None:
        try:
            async with start() as value:
                self.value.set_result(value)
                await self._left.wait()
        except Exception as error:
            if self.value.done():
                raise
            self.value.set_exception(error)

    def _close_value(self, holder: asyncio.Task[None]) -> None:
        if not self.value.done():
            self.value.set_exception(IsolationBroken("it was closed before it was open"))
        for future in (self.value, holder):  # seen: who waits for it gets it
            if not future.cancelled():
                future.exception()


async def before_end(box: Box, work: Coroutine[Any, Any, Result], within_s: float) -> Result | None:
    """Return the result of `work`; None where the box has ended before, or it takes longer than this."""
    tasks = asyncio.ensure_future(work), asyncio.ensure_future(box.wait())
    try:
        await asyncio.wait(tasks, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
