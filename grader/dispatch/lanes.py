"""Whose turn it is at which lane, and which lanes are still good.

A lane is free, taken, looked after (its device is being checked when a job's box is gone), or quarantined until a later look finds it well.
An operator may cordon a lane: it ends the job that it has, and gets no other. An operator may also have a quarantined lane looked at now.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from enum import Enum, auto

import structlog

from grader import devices
from grader.dispatch.judge_process import JudgeProcess
from grader.errors import DeviceQuarantined, JudgeBroken, NoSuchDevice
from grader.isolation import GpuAccess
from grader.observability.observer import LaneNow, LaneState
from sandbox.protocol import wire

LOOK_AGAIN_S = 300.0
FAITHFUL_S = 60.0  # so long a seat waits for its own lane where others wait for the one that is free
LOOKS = 2  # at a device whose job is over; between them its judge is started anew
PREPARE_AFTER_S = 60.0  # since a submission used the lane: another one by the same person would wait for what is compiled
PREPARE_LOOK_S = 1.0  # from one look at that to the next
CHECK_PATIENCE_S = 2.0  # longer than a look takes, shorter than a judge takes to start

log = structlog.get_logger()


class LaneStatus(Enum):
    """What may be done with a lane."""

    FREE = auto()
    TAKEN = auto()
    LOOKED_AFTER = auto()
    QUARANTINED = auto()


class DeviceLane:
    """One device and its judge. gpu: None on the emulated device."""

    def __init__(self, kind: str, judge: JudgeProcess, gpu: GpuAccess | None = None) -> None:
        self.kind, self.gpu, self._process = kind, gpu, judge
        self.standing = LaneStatus.FREE
        self.seated = 0
        self.used_s = -math.inf  # when a seat was last left
        self.illness = ""
        self.cordoned = False
        self.carer: asyncio.Task[None] | None = None  # the task that looks after it now
        self.next_look: asyncio.TimerHandle | None = None  # at a quarantined device
        self._job_id = ""
        self._known: wire.Environment | None = None

    @property
    def title(self) -> str:
        """What people call it."""
        return f"the {self.kind} device" if self.gpu is None else f"GPU {self.gpu.index} ({self.gpu.name})"

    @property
    def environment(self) -> wire.Environment:
        """What the judge said last; there is something as soon as the lane is somebody's."""
        assert self._known is not None
        return self._known

    @property
    def usable(self) -> bool:
        """Whether another job may be given to it, now or later."""
        return self.standing is not LaneStatus.QUARANTINED and not self.cordoned

    @property
    def idle_s(self) -> float:
        """For how many seconds nobody has used it; 0 while somebody does, or may not."""
        return 0.0 if self.seated or self.cordoned or self.standing is not LaneStatus.FREE else time.monotonic() - self.used_s

    def refusal(self) -> DeviceQuarantined:
        """Why it is not usable."""
        return DeviceQuarantined.cordoned(self.title) if self.cordoned else DeviceQuarantined.after_checks(self.title, self.illness)

    @property
    def known(self) -> bool:
        """Whether the judge has ever said what it is on."""
        return self._known is not None

    @property
    def load(self) -> tuple[int, bool]:
        """The less, the sooner it has time; of two that have the same, the one whose judge is warm."""
        return self.seated + (self.standing is LaneStatus.LOOKED_AFTER), not self._process.running

    def is_like(self, other: DeviceLane) -> bool:
        """Whether what is built for one runs on the other."""
        return self.kind == other.kind and (self.gpu and self.gpu.name) == (other.gpu and other.gpu.name)

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The judge's facts of this job."""
        self._job_id = job.job_id
        return self._process.judge(job)

    async def prepare(self, problem: wire.ProblemSpec) -> None:
        """Have the judge compile and time the baselines of this problem."""
        self._job_id = f"prepare-{problem.problem_id}"
        await self._process.prepare(self._job_id, problem)

    async def look_up(self) -> wire.Environment:
        """What the judge says of the device; starts it if it is not running."""
        self._known = await self._process.environment()
        return self._known

    async def settle(self, job_id: str) -> str:
        """See whether the device is as it was before; "" where it is, else what is wrong even with a fresh judge."""
        illness = ""
        for look in range(LOOKS):
            try:
                health = await self._process.check(job_id)
                if health.healthy:
                    return ""
                illness = health.detail or "its judge found it unwell"
            except JudgeBroken as error:
                illness = error.detail
            log.warning("device_unwell", lane=self.title, job=job_id, look=look + 1, illness=illness)
            await self._process.close()
        return illness

    async def health_check(self) -> None:
        """Settle the last job, and decide what may be done with the lane from then on."""
        try:
            self.illness = await self.settle(self._job_id)
        except Exception as error:
            log.exception("settling_broke", lane=self.title)
            self.illness = f"{type(error).__name__} while it was checked; the server's log has more"
        self.standing = LaneStatus.QUARANTINED if self.illness else LaneStatus.FREE
        if self.illness:
            log.error("lane_quarantined", lane=self.title, reason=self.illness)

    async def close(self) -> None:
        """End the judge."""
        await self._process.close()


class QueuedReservation:
    """One attempt's place at a lane; see `grader.grading.ports.LaneReservation`."""

    def __init__(self, lanes: Lanes, choice: str, lane: DeviceLane) -> None:
        self.choice, self.here = choice, lane
        self._lanes = lanes
        self._idle = False

    @property
    def gpu(self) -> GpuAccess | None:
        """The GPU of the lane where this seat is now."""
        return self.here.gpu

    @property
    def kind(self) -> str:
        """The kind of device of that lane."""
        return self.here.kind

    @property
    def idle(self) -> bool:
        """Whether the lane was free when its environment was asked for."""
        return self._idle

    @property
    def contended(self) -> bool:
        """Whether another attempt needs this lane, now or once its kernel is built."""
        return self._lanes.contended(self.here)

    async def environment(self) -> wire.Environment:
        """What the lane's judge says of its device."""
        if self.here.carer is not None and self.here.seated == 1:
            await asyncio.wait([self.here.carer], timeout=CHECK_PATIENCE_S)
        if self.here.standing is LaneStatus.FREE:
            self._idle = True
        elif self.here.known:  # somebody else's untrusted code may run there: no judge is started next to it
            return self.here.environment
        try:
            return await self.here.look_up()
        except JudgeBroken:
            if self.here.standing is LaneStatus.FREE:
                self._lanes.health_check(self.here)
            raise

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[DeviceLane]:
        """Wait for the lane or for another like it; when it is left, its device is looked after before the next one gets it."""
        self.move(await self._lanes.take(self))
        try:
            await self.here.look_up()
            yield self.here
        finally:
            self._lanes.health_check(self.here)

    def move(self, lane: DeviceLane) -> None:
        """Sit at another lane from now on."""
        self.here.seated -= 1
        lane.seated += 1
        self.here = lane

    def leave(self) -> None:
        """Leave the lane to others."""
        self.here.seated -= 1
        self.here.used_s = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class _LaneRequest:
    """A seat that waits for its turn, since when by the loop's clock."""

    seat: QueuedReservation
    turn: asyncio.Future[DeviceLane]
    since: float


class Lanes:
    """The lanes of a host. default: what "" chooses."""

    def __init__(self, lanes: Sequence[DeviceLane], default: str, look_again_s: float = LOOK_AGAIN_S) -> None:
        self._lanes, self._default, self._look_again_s = tuple(lanes), default, look_again_s
        self._waiting: list[_LaneRequest] = []
        self._carers: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def offers(self) -> tuple[str, ...]:
        """What may be chosen."""
        return devices.offered((lane.gpu.index, lane.gpu.name) for lane in self._lanes if lane.gpu is not None)

    @property
    def ready(self) -> tuple[str, ...]:
        """Those of them that some lane takes: not those of which every lane is quarantined or cordoned."""
        return tuple(kind for kind in self.offers if any(lane.usable for lane in self._lanes if _is_meant(lane, kind)))

    def cordon(self, names: Collection[str]) -> None:
        """Give nothing more to the lanes of these names, as `now` has them, and to all others again."""
        for lane, one in zip(self._lanes, self.now, strict=True):
            lane.cordoned = one.name in names
        self._assign_waiting()

    def recheck(self, names: Collection[str]) -> None:
        """Look at the devices of those of these lanes that are quarantined now, and not when their time comes; see `now` for the names."""
        for lane, one in zip(self._lanes, self.now, strict=True):
            if one.name in names:
                self._look_again(lane)

    async def quarantine(self, name: str, illness: str) -> None:
        """Give nothing more to the lane of this name, once its device was checked, until a later
        look finds it well."""
        lane = next(lane for lane, one in zip(self._lanes, self.now, strict=True) if one.name == name)
        if lane.carer is not None:
            await asyncio.wait([lane.carer])
        if lane.standing is LaneStatus.FREE:
            log.error("lane_quarantined", lane=lane.title, reason=illness)
            lane.standing, lane.illness = LaneStatus.QUARANTINED, illness
            self._look_later(lane)
            self._assign_waiting()

    @property
    def now(self) -> tuple[LaneNow, ...]:
        """What each lane is doing; emulated ones are counted from 0."""
        numbers = itertools.count()
        indexes = (next(numbers) if lane.gpu is None else lane.gpu.index for lane in self._lanes)
        found = zip(self._lanes, indexes, strict=True)
        return tuple(LaneNow(name=f"{lane.kind}:{index}", state=_state(lane)) for lane, index in found)

    @contextmanager
    def seat(self, choice: str) -> Iterator[QueuedReservation]:
        """A seat where the fewest sit; NoSuchDevice, or DeviceQuarantined where no such lane is left."""
        lane = min(self._usable(choice or self._default), key=lambda one: one.load)
        seat = QueuedReservation(self, choice or self._default, lane)
        lane.seated += 1
        try:
            yield seat
        finally:
            seat.leave()
            self._assign_waiting()

    def contended(self, lane: DeviceLane) -> bool:
        """Whether more attempts sit at usable lanes like this one than there are."""
        alike = [one for one in self._lanes if one.usable and one.is_like(lane)]
        return sum(one.seated for one in alike) > len(alike)

    def _look_later(self, lane: DeviceLane) -> None:
        lane.next_look = asyncio.get_running_loop().call_later(self._look_again_s, self._look_again, lane)

    def _look_again(self, lane: DeviceLane) -> None:
        """A device may have come back since."""
        if lane.standing is LaneStatus.QUARANTINED and not self._closed:
            self.health_check(lane)

    async def take(self, seat: QueuedReservation) -> DeviceLane:
        """Wait for the seat's lane, or for one like it that is free before; see `_assign_waiting`."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[DeviceLane] = loop.create_future()
        self._waiting.append(_LaneRequest(seat=seat, turn=turn, since=loop.time()))
        self._assign_waiting()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:  # it came in the same moment
                turn.result().standing = LaneStatus.FREE
                self._assign_waiting()
            raise

    def health_check(self, lane: DeviceLane) -> None:
        """Check the lane's device in a task of its own, for the verdict does not wait for it; the lane's next user does."""

        async def care() -> None:
            await lane.health_check()
            lane.carer = None
            if lane.standing is LaneStatus.QUARANTINED:
                self._look_later(lane)
            self._assign_waiting()

        if lane.next_look is not None:
            lane.next_look.cancel()
            lane.next_look = None
        lane.standing = LaneStatus.LOOKED_AFTER
        lane.carer = carer = asyncio.create_task(care())
        self._carers.add(carer)
        carer.add_done_callback(self._carers.discard)

    async def prepare(self, problems: Sequence[wire.ProblemSpec]) -> None:
        """Have the judge of each GPU compile and time the baselines of these problems, a workload at a time, while nobody uses its lane."""
        await asyncio.gather(*(self._prepare(lane, problems) for lane in self._lanes if lane.gpu is not None))

    async def _prepare(self, lane: DeviceLane, problems: Sequence[wire.ProblemSpec]) -> None:
        for problem in problems:
            for workload in problem.workloads:
                if workload.hidden or workload.device_kind not in ("", lane.kind):
                    continue
                while lane.idle_s < PREPARE_AFTER_S:
                    await asyncio.sleep(PREPARE_LOOK_S)
                if not await self._prepared(lane, replace(problem, workloads=(workload,))):
                    break

    async def _prepared(self, lane: DeviceLane, problem: wire.ProblemSpec) -> bool:
        """Whether the judge of a free lane has done it. Where it has not, a submission to this problem will find out why."""
        lane.standing = LaneStatus.TAKEN
        try:
            await lane.prepare(problem)
        except JudgeBroken as error:
            log.warning("baselines_not_prepared", lane=lane.title, problem=problem.problem_id, error=error.detail)
            self.health_check(lane)
            return False
        lane.standing = LaneStatus.FREE
        self._assign_waiting()
        return True

    async def close(self) -> None:
        """Stop looking after anything, and end the judges."""
        self._closed = True
        carers = tuple(self._carers)
        for carer in carers:
            carer.cancel()
        await asyncio.gather(*carers, return_exceptions=True)
        for lane in self._lanes:
            await lane.close()

    def _assign_waiting(self) -> None:
        """Give free lanes to those who wait, in order; tell those for whom there is none any more.

        Who sits at a lane has a box for its GPU: it is dealt to before others, but for those who have waited for long.
        """
        self._waiting = [one for one in self._waiting if self._still_waits(one)]
        long_ago = asyncio.get_running_loop().time() - FAITHFUL_S
        for one in self._waiting:
            if one.since <= long_ago:
                self._give(one, self._free_for(one))
        for one in self._waiting:
            if not one.turn.done() and one.seat.here.standing is LaneStatus.FREE:
                self._give(one, one.seat.here)
        for one in self._waiting:
            if not one.turn.done():
                self._give(one, self._free_for(one))
        self._waiting = [one for one in self._waiting if not one.turn.done()]

    def _still_waits(self, one: _LaneRequest) -> bool:
        """Whether there is a lane that it may get some time; where there is none, it gets the error."""
        if one.turn.done():
            return False
        try:
            if any(lane.is_like(one.seat.here) for lane in self._usable(one.seat.choice)):
                return True
            # What was built for the one that is quarantined does not run on the others; the next attempt is made on those.
            one.turn.set_exception(one.seat.here.refusal())
        except DeviceQuarantined as error:
            one.turn.set_exception(error)
        return False

    def _free_for(self, one: _LaneRequest) -> DeviceLane | None:
        alike = (lane for lane in self._usable(one.seat.choice) if lane.is_like(one.seat.here) and lane.standing is LaneStatus.FREE)
        return min(alike, key=lambda lane: (lane is not one.seat.here, lane.load), default=None)

    @staticmethod
    def _give(one: _LaneRequest, lane: DeviceLane | None) -> None:
        if lane is not None:
            lane.standing = LaneStatus.TAKEN
            one.turn.set_result(lane)

    def _usable(self, choice: str) -> list[DeviceLane]:
        found = [lane for lane in self._lanes if _is_meant(lane, choice)]
        if not found:
            raise NoSuchDevice(choice, self.offers)
        usable = [lane for lane in found if lane.usable]
        if not usable:
            raise found[0].refusal()
        return usable


def _state(lane: DeviceLane) -> LaneState:
    """What is shown of it: that it is cordoned once its last job is over."""
    return LaneState.CORDONED if lane.cordoned and lane.standing is LaneStatus.FREE else LaneState[lane.standing.name]


def _is_meant(lane: DeviceLane, choice: str) -> bool:
    return choice == lane.kind if lane.gpu is None else devices.fits(choice, lane.gpu.index, lane.gpu.name)
