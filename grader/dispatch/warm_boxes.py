"""Run boxes that were started before there is a job for them, so that nobody waits for the import of torch (docs/decisions/0060).

A box is kept ready of each specification that was asked for last, and at least twice, and several of the very last one, for those who
submit again and again. They are started one at a time, or more on a host with many cores, and not next to a measurement that they would
disturb: while jobs come with pauses in between, in the pauses. Those for a GPU, on a host with cores to spare, do not wait for a pause.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import structlog

from grader.grading.attempt import IMPORT_S, HeldRunBox, RunBox, started
from grader.isolation import BoxSpec, Isolation
from grader.isolation.processes import read_host_memory
from grader.observability.observer import WarmNow

AGE_LIMIT_S = 600.0
LOOK_S = 10.0  # how often ages and the host's memory are looked at
IDLE_S = 0.5  # without a job, after which more than one of a kind is started
PAUSE_S = 5.0  # after one that did not start
KEYS_KEPT = 64
REPEATED = 2  # times that a specification was asked for: what was wanted once is often wanted never again
BOX_BYTES, GPU_BOX_BYTES = 160 * 1024 * 1024, 320 * 1024 * 1024  # of a box that has imported torch, and torch for CUDA
CORES_TO_SPARE = 8  # a judge with its baseline and a kernel keep three busy
CORES_PER_START, START_LIMIT = 16, 4  # of a host, for each box that is started at the same time; an import keeps two or three busy
SPARE_BYTES = 2 * 1024 * 1024 * 1024  # so much of the host's memory stays free

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class WarmKey:
    """All in which boxes differ that can be used for the same job. spec: without what is of one box or of one job."""

    spec: BoxSpec
    fingerprint: str


class WarmBoxes:
    """Keeps at most `size` boxes ready. Use as an async context; what is left is ended when it is left. from_count: how often a
    specification was asked for before a box of it waits. place: makes what a box needs of the host, and puts it into the specification.
    memory: free bytes of the host. clock: seconds. cores: of the host."""

    def __init__(
        self,
        isolation: Isolation,
        place: Callable[[BoxSpec], AbstractContextManager[BoxSpec]],
        *,
        size: int,
        memory: Callable[[], int] = lambda: read_host_memory().available_bytes,
        clock: Callable[[], float] = time.monotonic,
        from_count: int = REPEATED,
        idle_s: float = IDLE_S,
        cores: int | None = None,
    ) -> None:
        self._isolation, self._place, self._size = isolation, place, size
        self._memory, self._clock = memory, clock
        self._from_count, self._idle_s = from_count, idle_s
        self._cores = cores or os.cpu_count() or 1
        self._start_limit = max(1, min(START_LIMIT, self._cores // CORES_PER_START))
        self._wanted: OrderedDict[WarmKey, int] = OrderedDict()  # how often each was asked for; the last one at the end
        self._waiting: list[_WarmBox] = []  # first the one that has waited longest
        self._starting: dict[asyncio.Task[None], WarmKey] = {}
        self._job_count, self._idle_from_s, self._room_left = 0, clock(), False
        self._hurried = True  # the last job came soon after the one before
        self._timing: dict[object, bool] = {}  # the attempts that time something, and whether the host's clock times it
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self.hit_count = self.miss_count = 0

    async def __aenter__(self) -> WarmBoxes:
        if self._size > 0:
            self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        for task in (starting := list(self._starting)):
            task.cancel()
        await asyncio.gather(*starting, return_exceptions=True)
        for box in list(self._waiting):
            self._end(box)
        await asyncio.gather(*self._ending, return_exceptions=True)

    @asynccontextmanager
    async def run_box(self, spec: BoxSpec) -> AsyncIterator[RunBox]:
        """A box of this specification: one that waits, or else a new one. Leaving ends it, whatever it was used for."""
        self._hurried = self._job_count > 0 or self._clock() - self._idle_from_s < self._idle_s
        self._job_count += 1
        try:
            box = await self._take(spec)
            if box is None:
                async with started(self._isolation, spec) as fresh:
                    yield fresh
                return
            run_box = box.box.result()
            run_box.box.begin(spec.limits.wall_s)  # it may sleep for long until its job, and once more from then on
            try:
                yield replace(run_box, wall_s=spec.limits.wall_s)
            finally:
                await box.close()
        finally:
            self._job_count -= 1
            self._idle_from_s = self._clock()
            self._changed.set()

    def now(self) -> WarmNow:
        """Return the number of boxes that wait, and of jobs that got one."""
        return WarmNow(waiting_count=len(self._waiting), hit_count=self.hit_count, miss_count=self.miss_count)

    def times(self, attempt: object, *, busy: bool, by_host_clock: bool = True) -> None:
        """An attempt times something on this host, or no longer: meanwhile no box is started that would disturb it, and one that still
        imports is ended."""
        if busy is (attempt in self._timing):  # as after most facts
            return
        if busy:
            self._timing[attempt] = by_host_clock
        else:
            del self._timing[attempt]
        self._changed.set()

    async def _take(self, spec: BoxSpec) -> _WarmBox | None:
        if self._size <= 0:
            return None
        # The wall limit is no part of the key: a box gets its own with the job.
        common = replace(spec, box_id="", slot=0, link_dir=None, limits=replace(spec.limits, wall_s=0.0))
        key = WarmKey(common, await self._isolation.fingerprint())
        self._wanted[key] = self._wanted.pop(key, 0) + 1
        while len(self._wanted) > KEYS_KEPT:
            self._wanted.popitem(last=False)
        self._changed.set()
        # From here to the return nothing is awaited: nobody else can get it.
        for box in [box for box in self._waiting if box.key == key]:
            if not box.gone:
                self._waiting.remove(box)
                self.hit_count += 1
                return box
            self._end(box)
        self.miss_count += 1
        return None

    async def _keep(self) -> None:
        def filled(task: asyncio.Task[None]) -> None:
            del self._starting[task]
            self._changed.set()

        while True:
            self._changed.clear()
            short, now_s = self._memory() < SPARE_BYTES, self._clock()
            for box in [box for box in self._waiting if short or box.gone or now_s - box.since_s > AGE_LIMIT_S]:
                self._end(box)
            key = self._next_wanted()
            if key is not None and len(self._starting) < self._start_limit and not self._disturbs(key):
                self._starting[task := asyncio.create_task(self._fill(key))] = key
                task.add_done_callback(filled)
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_S, self._idle_s) if self._room_left and self._job_count == 0 else LOOK_S):
                    await self._changed.wait()

    def _next_wanted(self) -> WarmKey | None:
        """The specification that was asked for last and has no box, if there is room for one more; then the very last one again."""
        box_bytes = max((BOX_BYTES if key.spec.gpu is None else GPU_BOX_BYTES for key in self._wanted), default=BOX_BYTES)
        room = min(self._size, len(self._waiting) + max(0, (self._memory() - SPARE_BYTES) // box_bytes))
        recent = [key for key, count in reversed(self._wanted.items()) if count >= self._from_count][:room]
        for box in [box for box in self._waiting if box.key not in recent]:
            self._end(box)
        there = {*self._starting.values(), *(box.key for box in self._waiting)}
        missing = next((key for key in recent if key not in there), None)
        while self._waiting and len(self._waiting) + len(self._starting) > room - (missing is not None):
            ((commonest, _),) = Counter(box.key for box in self._waiting).most_common(1)
            self._end(next(box for box in self._waiting if box.key == commonest))
        self._room_left = bool(recent) and len(self._waiting) + len(self._starting) < room
        if not self._room_left:
            return None
        idle = self._job_count == 0 and self._clock() - self._idle_from_s >= self._idle_s
        if missing is None:
            return recent[0] if idle or self._has_cores(recent[0]) else None
        return missing if self._job_count == 0 or self._hurried or self._has_cores(missing) else None

    async def _fill(self, key: WarmKey) -> None:
        box = _WarmBox(key, partial(self._start, key.spec), self._clock())
        ready = False
        try:
            ready = await self._imported(box, key)
            if ready:
                self._waiting.append(box)
        finally:
            if not ready:
                self._end(box)
        if not ready and not self._disturbs(key):  # not for a measurement: it does not start here
            self._wanted.pop(key, None)
            await asyncio.sleep(PAUSE_S)

    def _disturbs(self, key: WarmKey) -> bool:
        """Return whether an import would disturb something that is timed. It does not where a GPU's clock times on a host with cores to
        spare: the boxes and the builds of jobs that wait for the GPU run next to its measurements, too."""
        return any(self._timing.values()) if self._has_cores(key) else bool(self._timing)

    def _has_cores(self, key: WarmKey) -> bool:
        """Return whether it is for a GPU, on a host with cores to spare."""
        return key.spec.gpu is not None and self._cores >= CORES_TO_SPARE

    async def _imported(self, box: _WarmBox, key: WarmKey) -> bool:
        """Return whether it has imported everything before something is timed that it would disturb."""
        imported = asyncio.create_task(box.imported())
        try:
            async with asyncio.timeout(IMPORT_S):
                while not imported.done():
                    if self._disturbs(key):
                        return False
                    self._changed.clear()
                    changed = asyncio.create_task(self._changed.wait())
                    await asyncio.wait([imported, changed], return_when=asyncio.FIRST_COMPLETED)
                    changed.cancel()
                return imported.result()
        except TimeoutError:
            log.warning("warm_box_not_ready", waited_s=IMPORT_S)
            return False
        finally:
            imported.cancel()

    def _end(self, box: _WarmBox) -> None:
        if box in self._waiting:
            self._waiting.remove(box)

        async def close() -> None:
            try:
                await box.close()
            except Exception as error:  # noqa: BLE001  nobody uses it
                _complain(error)

        task = asyncio.create_task(close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    @asynccontextmanager
    async def _start(self, spec: BoxSpec) -> AsyncIterator[RunBox]:
        with self._place(replace(spec, limits=replace(spec.limits, wall_s=2 * AGE_LIMIT_S))) as placed:
            async with started(self._isolation, placed) as run_box:
                yield run_box


class _WarmBox(HeldRunBox):
    """A box that waits. gone: it has ended, or has never started."""

    def __init__(self, key: WarmKey, start: Callable[[], AbstractAsyncContextManager[RunBox]], since_s: float) -> None:
        super().__init__(start)
        self.key, self.since_s, self.gone = key, since_s, False
        self._watcher: asyncio.Task[None] | None = None
        self.open()

    async def imported(self) -> bool:
        """Wait until it has started and imported everything; False where it ended before."""
        try:
            run_box = await asyncio.shield(self.box)
        except Exception as error:  # noqa: BLE001  a job without a warm box starts one, and says what is wrong
            _complain(error)
            self.gone = True
            return False

        async def watch() -> None:
            with suppress(Exception):  # a box that broke is no box any more
                await run_box.box.wait()
            self.gone = True

        self._watcher = asyncio.create_task(watch())
        return await run_box.imported() and not self.gone

    async def close(self) -> None:
        """End it, and wait until nothing of it is left."""
        if self._watcher is not None:
            self._watcher.cancel()
        await super().close()


def _complain(error: Exception) -> None:
    log.warning("warm_box_failed", error=f"{type(error).__name__}: {error}")
