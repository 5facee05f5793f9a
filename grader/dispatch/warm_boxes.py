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
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace

import structlog

from grader.errors import SandboxBroken
from grader.grading.attempt import IMPORT_S, RunBox, started
from grader.isolation import BoxSpec, Held, Isolation
from grader.isolation.processes import read_host_memory
from grader.observability.observer import WarmNow

AGE_LIMIT_S = 600.0
LOOK_S = 10.0  # how often ages and the host's memory are looked at
IDLE_S = 0.5  # without a job, after which more than one of a kind is started
KEYS_KEPT = 64
REPEATED = 2  # times that a specification was asked for: what was wanted once is often wanted never again
FORKED_MORE = 1  # times more for one that is forked, in a tenth of a second: a benchmark asks for two itself
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


class WarmBox(Held[RunBox]):
    """A box that is started without a job, and open once it has imported everything."""

    def __init__(self, key: WarmKey, start: Callable[[BoxSpec], AbstractAsyncContextManager[RunBox]], since_s: float) -> None:
        super().__init__(lambda: start(key.spec))
        self.key, self.since_s = key, since_s

    @property
    def failure(self) -> BaseException | None:
        """Return why it did not start or import; None where it did, or may yet."""
        return self.value.exception() if self.value.done() else None

    @property
    def waits(self) -> bool:
        """Return whether it has imported everything, and has not ended."""
        return self.value.done() and self.failure is None and not self.value.result().box.ended


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
        self._wanted: OrderedDict[WarmKey, int] = OrderedDict()  # how often each was asked for; the last one at the end
        self._boxes: list[WarmBox] = []  # that wait or will; first the one that was started first
        self._job_count, self._idle_from_s = 0, clock()
        self._hurried = True  # the last job came soon after the one before
        self._timing: dict[object, bool] = {}  # the attempts that time something, and whether the host's clock times it
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self.hit_count = self.miss_count = 0
        self._generation = 0

    async def __aenter__(self) -> WarmBoxes:
        if self._size > 0:
            self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        self.end_waiting()
        await asyncio.gather(*self._leaving, return_exceptions=True)

    def end_waiting(self) -> None:
        """End all boxes that wait or will; those that jobs ask for are started anew. What attempts have started early is outdated."""
        self._generation += 1
        for box in list(self._boxes):
            self._end(box)
        self._changed.set()

    @asynccontextmanager
    async def run_box(self, spec: BoxSpec) -> AsyncIterator[RunBox]:
        """A box of this specification: one that waits, or else a new one. Leaving ends it, whatever it was used for."""
        self._hurried = self._job_count > 0 or self._clock() - self._idle_from_s < self._idle_s
        self._job_count += 1
        try:
            async with AsyncExitStack() as stack:
                if (box := await self._take(spec)) is None:
                    run_box = await stack.enter_async_context(started(self._isolation, spec))
                else:
                    stack.push_async_callback(box.close)
                    run_box = replace(box.value.result(), wall_s=spec.limits.wall_s)
                    run_box.box.begin(run_box.wall_s)  # it may sleep for long until its job, and once more from then on
                yield run_box
        finally:
            self._job_count -= 1
            self._idle_from_s = self._clock()
            self._changed.set()

    def generation(self) -> int:
        """Return how often all boxes were outdated."""
        return self._generation

    def now(self) -> WarmNow:
        """Return the number of boxes that wait, and of jobs that got one."""
        return WarmNow(waiting_count=len(self._waiting()), hit_count=self.hit_count, miss_count=self.miss_count)

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

    def _waiting(self) -> list[WarmBox]:
        return [box for box in self._boxes if box.waits]

    async def _take(self, spec: BoxSpec) -> WarmBox | None:
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
        box = next((box for box in self._waiting() if box.key == key), None)
        if box is None:
            self.miss_count += 1
        else:
            self._boxes.remove(box)
            self.hit_count += 1
        return box

    async def _keep(self) -> None:
        while True:
            self._changed.clear()
            short, now_s = self._memory() < SPARE_BYTES, self._clock()
            for box in list(self._boxes):
                if box.failure is not None:  # it is tried again when a job asks for it
                    log.warning("warm_box_failed", error=f"{type(box.failure).__name__}: {box.failure}")
                    self._wanted.pop(box.key, None)
                useless = box.value.done() and (short or not box.waits or now_s - box.since_s > AGE_LIMIT_S)
                if useless or (not box.value.done() and self._disturbs(box.key)):
                    self._end(box)
            idle = self._job_count == 0 and now_s - self._idle_from_s >= self._idle_s
            key = self._next_wanted(idle=idle)
            if key is not None and not self._disturbs(key):
                self._boxes.append(box := WarmBox(key, self._imported, now_s))
                box.value.add_done_callback(lambda _: self._changed.set())
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(min(LOOK_S, self._idle_s) if self._job_count == 0 and not idle else LOOK_S):
                    await self._changed.wait()

    def _next_wanted(self, *, idle: bool) -> WarmKey | None:
        """Return the specification that was asked for last and has no box, if there is room for one more; then the very last one again."""
        box_bytes = max((BOX_BYTES if key.spec.gpu is None else GPU_BOX_BYTES for key in self._wanted), default=BOX_BYTES)
        room = min(self._size, len(self._waiting()) + max(0, (self._memory() - SPARE_BYTES) // box_bytes))
        often = [key for key, count in reversed(self._wanted.items()) if count >= self._from_count + FORKED_MORE * _forked(key)]
        recent = often[:room]
        missing = next((key for key in recent if all(key != box.key for box in self._boxes)), None)
        for box in self._waiting():
            if box.key not in recent:
                self._end(box)
        while (waiting := self._waiting()) and len(self._boxes) > room - (missing is not None):
            ((commonest, _),) = Counter(box.key for box in waiting).most_common(1)
            self._end(next(box for box in waiting if box.key == commonest))
        starting = len(self._boxes) - len(self._waiting())
        if not recent or len(self._boxes) >= room or starting >= max(1, min(START_LIMIT, self._cores // CORES_PER_START)):
            return None
        if missing is None:
            return recent[0] if idle or self._has_cores(recent[0]) else None
        return missing if self._job_count == 0 or self._hurried or self._has_cores(missing) else None

    @asynccontextmanager
    async def _imported(self, spec: BoxSpec) -> AsyncIterator[RunBox]:
        with self._place(replace(spec, limits=replace(spec.limits, wall_s=2 * AGE_LIMIT_S))) as placed:
            async with started(self._isolation, placed) as run_box:
                if not await run_box.imported():
                    raise SandboxBroken(f"it ended, or has not imported after {IMPORT_S:.0f} s")
                yield run_box

    def _disturbs(self, key: WarmKey) -> bool:
        """Return whether an import would disturb something that is timed. It does not where a GPU's clock times on a host with cores to
        spare: the boxes and the builds of jobs that wait for the GPU run next to its measurements, too."""
        return any(self._timing.values()) if self._has_cores(key) else bool(self._timing)

    def _has_cores(self, key: WarmKey) -> bool:
        """Return whether it is for a GPU, on a host with cores to spare."""
        return key.spec.gpu is not None and self._cores >= CORES_TO_SPARE

    def _end(self, box: WarmBox) -> None:
        def ended(task: asyncio.Task[None]) -> None:
            self._leaving.discard(task)
            if not task.cancelled() and (error := task.exception()) is not None:  # nobody uses it
                log.warning("warm_box_failed", error=f"{type(error).__name__}: {error}")

        self._boxes.remove(box)
        self._leaving.add(task := box.leave())
        task.add_done_callback(ended)


def _forked(key: WarmKey) -> bool:
    return key.spec.gpu is None and bool(key.spec.fork_argv)
