"""Schedules jobs on lanes, keeps a judge running for each, and quarantines unhealthy devices.

A lane is free, taken, checking (its device is checked when a job's box is gone), or quarantined until a later check finds it well.
An operator may cordon a lane: it ends the job that it has, and gets no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import structlog

from grader import devices
from grader.errors import DeviceQuarantined, JudgeBroken, NoSuchDevice
from grader.isolation import GpuAccess
from grader.isolation.launch import waiting
from grader.observability.observer import LaneNow, LaneState
from sandbox.protocol import wire

log = structlog.get_logger()

# The judge of a lane: started, sent jobs, and started anew when it dies.

START_S, CUDA_START_S = 120.0, 300.0  # on a GPU it imports torch, warms do_bench up and measures what the device can do
SILENCE_S, CUDA_SILENCE_S = 120.0, 400.0  # next to a trial's own limit: reference, comparison, null runs; torch.compile's first time
CHECK_S = 60.0
END_S = 30.0  # a process that a sick driver holds may not even die
PACKAGE_DIR = Path(__file__).parents[2]
# As `python -m sandbox.judge`. The collector is off from before torch: it would take a sixth of the start, and the judge runs it itself.
_RUN = "import gc, runpy; gc.disable(); runpy.run_module('sandbox.judge', run_name='__main__', alter_sys=True)"
COMMAND = (sys.executable, "-c", _RUN)


class JudgeProcess:
    """A judge for one lane. Use `judge`, `prepare` and `check` for one thing at a time. gpu: the one GPU that it sees; None on the emulated
    device. cache_dir: where what is compiled for baselines is kept from one server to the next; None: nowhere."""

    def __init__(
        self,
        device_kind: str,
        gpu: GpuAccess | None = None,
        cache_dir: Path | None = None,
        *,
        command: Sequence[str] = COMMAND,
        check_s: float = CHECK_S,
    ) -> None:
        self._command, self._check_s = command, check_s
        self._kind, self._gpu, self._cache_dir = device_kind, gpu, cache_dir
        self._process: asyncio.subprocess.Process | None = None
        self._begun = False  # the process, and nobody has listened to it
        self._environment: wire.Environment | None = None
        self._starting = asyncio.Lock()
        self._silence_s = SILENCE_S if gpu is None else CUDA_SILENCE_S

    @property
    def running(self) -> bool:
        """Return whether a job would not have to wait for it to start."""
        return self._process is not None and self._process.returncode is None and self._environment is not None

    async def environment(self) -> wire.Environment:
        """Return the judge's environment; start the judge if it is not running."""
        async with self._starting:
            if not self.running:
                if not self._begun or self._process is None or self._process.returncode is not None:
                    await self.close()  # what a cancelled start left
                    await self.begin()
                self._begun = False
                await self._listen()
            assert self._environment is not None
            return self._environment

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The facts of one job; JudgeBroken where the judge dies or falls silent, and then it is started anew for the next."""
        return self._answers(job, self._silence_s + wire.WAIT_FACTOR * (job.load_s + 3 * job.problem.trial_s))

    async def prepare(self, job_id: str, problem: wire.ProblemSpec) -> None:
        """Compile and time the baselines of a problem, for minutes where there are many; JudgeBroken as in `judge`, and where the problem
        can't be loaded. Starts the judge if it is not running."""
        async with aclosing(self._answers(wire.Prepare(job_id=job_id, problem=problem), self._silence_s)) as facts:
            async for fact in facts:
                if isinstance(fact, wire.Broken):
                    raise JudgeBroken(fact.message)

    async def check(self, job_id: str) -> wire.Health:
        """How the device is, now that nothing of this job is left; starts the judge if it is not running."""
        async with aclosing(self._answers(wire.Check(job_id=job_id), self._check_s)) as facts:
            fact = await anext(facts)
        if isinstance(fact, wire.Health) and fact.job_id == job_id:
            return fact
        await self.close()
        raise JudgeBroken(fact.message if isinstance(fact, wire.Broken) else f"the judge answered a check with {type(fact).__name__}")

    async def _answers(self, message: wire.Job | wire.Prepare | wire.Check, limit_s: float) -> AsyncGenerator[wire.Fact, None]:
        """Send a message, and yield what the judge says to it, up to the last fact of that. limit_s: how long it may be silent."""
        await self.environment()
        finished = False
        try:
            process = self._process
            assert process is not None and process.stdin is not None
            try:
                process.stdin.write(wire.encode(message))
                await process.stdin.drain()
            except (BrokenPipeError, ConnectionResetError) as error:
                raise JudgeBroken(f"the judge went away: {error}") from None
            while not finished:
                fact = await self._read(process, limit_s)
                if isinstance(fact, wire.Broken) and fact.device_lost:
                    await self.close()  # its context is gone, and a process gets no second one
                finished = isinstance(fact, (wire.Finished, wire.Restart, wire.Broken, wire.Health))
                yield fact
        finally:
            if not finished:  # cancelled or broken in the middle of a job: what it would still say belongs to nobody
                await self.close()

    async def close(self) -> None:
        """End the process."""
        process, self._process, self._environment = self._process, None, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            try:
                async with asyncio.timeout(END_S):
                    await process.wait()
            except TimeoutError:
                log.error("judge_does_not_end", device_kind=self._kind, pid=process.pid)

    async def begin(self) -> None:
        """Start the process, and do not wait for its imports."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            self._kind,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=wire.LINE_LIMIT_BYTES,
            env=judge_environment(os.environ, self._gpu, self._cache_dir),
            umask=0o022,  # what Triton leaves in triton_dir is read by boxes
            start_new_session=True,
        )
        self._begun = True

    async def _listen(self) -> None:
        process = self._process
        assert process is not None
        fact = await self._read(process, START_S if self._gpu is None else CUDA_START_S)
        if isinstance(fact, wire.Broken):
            raise JudgeBroken(fact.message)
        if not isinstance(fact, wire.Environment):
            raise JudgeBroken(f"the judge began with {type(fact).__name__}")
        self._environment = fact
        log.info("judge_started", device_kind=self._kind, pid=process.pid, device=fact.device, device_uuid=fact.device_uuid)

    async def _read(self, process: asyncio.subprocess.Process, limit_s: float) -> wire.Fact:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                line = await process.stdout.readline()
        except TimeoutError:
            raise JudgeBroken(f"the judge said nothing for {limit_s:.0f} s") from None
        except ValueError:  # how readline says that there is no end of the line within the limit
            raise JudgeBroken(f"the judge said a line of over {wire.LINE_LIMIT_BYTES} bytes") from None
        if not line:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), END_S)
            raise JudgeBroken(f"the judge ended with {process.returncode}")
        try:
            fact: wire.Fact = wire.decode(line)
        except wire.WireError as error:
            raise JudgeBroken(f"the judge said what is no fact: {error}") from None
        return fact


JudgeMaker = Callable[..., JudgeProcess]


def judge_environment(environment: Mapping[str, str], gpu: GpuAccess | None, cache_dir: Path | None) -> dict[str, str]:
    """A judge's environment variables: the server's, and the one GPU that it may see."""
    carried = (environment["PYTHONPATH"],) if environment.get("PYTHONPATH") else ()
    variables = {**environment, "PYTHONPATH": os.pathsep.join((str(PACKAGE_DIR), *carried)), "PYTHONUNBUFFERED": "1", **waiting(gpu)}
    if gpu is not None:
        variables |= {"CUDA_VISIBLE_DEVICES": gpu.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "TRITON_CACHE_DIR": str(gpu.triton_dir)}
        variables["GRADER_DEVICE_KNOWN"] = f"{gpu.triton_dir}.known"  # next to what boxes see
        if cache_dir is not None:
            variables["GRADER_COMPILE_CACHE"] = str(cache_dir)
    return variables


# Lanes.

LOOK_AGAIN_S = 300.0
AFFINITY_TIMEOUT_S = 60.0  # how long a reservation waits for its own lane where others wait for the free one
CHECK_COUNT = 2  # at a device whose job is over; between them its judge is started anew
PREPARE_AFTER_S = 60.0  # since a submission used the lane: another one by the same person would wait for what is compiled
PREPARE_LOOK_S = 1.0  # from one look at that to the next
CHECK_PATIENCE_S = 2.0  # longer than a look takes, shorter than a judge takes to start


class DeviceLane:
    """A device and its judge. gpu: None on the emulated device."""

    def __init__(self, kind: str, judge: JudgeProcess, gpu: GpuAccess | None = None) -> None:
        self.kind, self.gpu, self._process = kind, gpu, judge
        self.close = judge.close
        self.title = f"the {kind} device" if gpu is None else f"GPU {gpu.index} ({gpu.name})"  # its name for people
        self.status = LaneState.FREE
        self.reservation_count = 0
        self.used_s = -math.inf  # when a reservation was last released
        self.fault = ""
        self.cordoned = False
        self.health_check_task: asyncio.Task[None] | None = None
        self.next_look: asyncio.TimerHandle | None = None  # at a quarantined device
        self._job_id = ""
        self.reported_environment: wire.Environment | None = None  # the judge's last one

    @property
    def environment(self) -> wire.Environment:
        """Return the last environment of the judge; there is one as soon as the lane is taken."""
        assert self.reported_environment is not None
        return self.reported_environment

    @property
    def usable(self) -> bool:
        """Return whether another job may be given to it, now or later."""
        return self.status is not LaneState.QUARANTINED and not self.cordoned

    @property
    def idle_s(self) -> float:
        """For how many seconds nobody has used it; 0 while somebody does, or may not."""
        return 0.0 if self.reservation_count or self.cordoned or self.status is not LaneState.FREE else time.monotonic() - self.used_s

    def refusal(self) -> DeviceQuarantined:
        """Why it is not usable."""
        if self.cordoned:
            return DeviceQuarantined(f"{self.title} is cordoned; `grader-server admin lanes uncordon` gives it work again")
        return DeviceQuarantined(f"{self.title} does not come back: {self.fault}; restart the host or the driver, then the server")

    @property
    def load(self) -> tuple[int, bool]:
        """The less, the sooner it has time; of two that have the same, the one whose judge is warm."""
        return self.reservation_count + (self.status is LaneState.CHECKING), not self._process.running

    def is_like(self, peer: DeviceLane) -> bool:
        """Return whether an artifact for this lane runs on the peer."""
        return self.kind == peer.kind and (self.gpu and self.gpu.name) == (peer.gpu and peer.gpu.name)

    def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The judge's facts of this job."""
        self._job_id = job.job_id
        return self._process.judge(job)

    async def prepare(self, problem: wire.ProblemSpec) -> None:
        """Have the judge compile and time the baselines of this problem."""
        self._job_id = f"prepare-{problem.problem_id}"
        await self._process.prepare(self._job_id, problem)

    async def look_up(self) -> wire.Environment:
        """Return the judge's environment; start the judge if it is not running."""
        self.reported_environment = await self._process.environment()
        return self.reported_environment

    async def health_check(self) -> None:
        """Check the device after the last job, a second time by a fresh judge, and quarantine it where it is unwell."""
        self.fault = ""
        try:
            for look in range(CHECK_COUNT):
                try:
                    health = await self._process.check(self._job_id)
                    self.fault = "" if health.healthy else health.detail or "its judge found it unwell"
                except JudgeBroken as error:
                    self.fault = error.detail
                if not self.fault:
                    break
                log.warning("device_unwell", lane=self.title, job=self._job_id, look=look + 1, illness=self.fault)
                await self._process.close()
        except Exception as error:
            log.exception("settling_broke", lane=self.title)
            self.fault = f"{type(error).__name__} while it was checked; the server's log has more"
        self.status = LaneState.QUARANTINED if self.fault else LaneState.FREE
        if self.fault:
            log.error("lane_quarantined", lane=self.title, reason=self.fault)


class QueuedReservation:
    """An attempt's place at a lane; see `grader.grading.attempt.LaneReservation`."""

    def __init__(self, lanes: Lanes, choice: str, lane: DeviceLane) -> None:
        self.choice, self.current = choice, lane
        self._lanes = lanes
        self.idle, self._settled = False, False  # whether the lane was free when it settled, and whether it did
        self.assigned: asyncio.Future[DeviceLane]  # while it waits for a lane, since start_s of the loop's clock
        self.start_s = 0.0

    @property
    def gpu(self) -> GpuAccess | None:
        """Return the GPU of the current lane."""
        return self.current.gpu

    @property
    def kind(self) -> str:
        """Return the kind of device of the current lane."""
        return self.current.kind

    @property
    def contended(self) -> bool:
        """Return whether another attempt needs this lane, now or once its kernel is built."""
        return self._lanes.contended(self.current)

    async def settle(self) -> None:
        """Wait a moment for the check after the lane's last job, unless another gets the lane then; then set `idle`."""
        goes_to_another = any(reservation.current.is_like(self.current) for reservation in self._lanes.waiting)
        if self.current.health_check_task is not None and not goes_to_another:
            await asyncio.wait([self.current.health_check_task], timeout=CHECK_PATIENCE_S)
        self.idle, self._settled = self.current.status is LaneState.FREE, True

    async def environment(self) -> wire.Environment:
        """Return the environment of the lane's judge."""
        if not self._settled:
            await self.settle()
        # Somebody else's untrusted code may run there: no judge is started next to it.
        if self.current.status is not LaneState.FREE and self.current.reported_environment is not None:
            return self.current.reported_environment
        try:
            return await self.current.look_up()
        except JudgeBroken:
            if self.current.status is LaneState.FREE:
                self._lanes.health_check(self.current)
            raise

    @asynccontextmanager
    async def lane(self) -> AsyncIterator[DeviceLane]:
        """Wait for the lane or for another like it; when it is left, its device is checked before the next attempt gets it."""
        await self._lanes.take(self)
        try:
            await self.current.look_up()
            yield self.current
        finally:
            self._lanes.health_check(self.current)


class Lanes:
    """The lanes of a host. default: what "" chooses."""

    def __init__(self, lanes: Sequence[DeviceLane], default: str, look_again_s: float = LOOK_AGAIN_S) -> None:
        numbers = itertools.count()  # emulated ones are counted from 0
        self._lanes = {f"{lane.kind}:{next(numbers) if lane.gpu is None else lane.gpu.index}": lane for lane in lanes}
        self._default, self._look_again_s = default, look_again_s
        self.waiting: list[QueuedReservation] = []

    def offers(self) -> tuple[str, ...]:
        """Return the devices that may be chosen."""
        gpus = [lane.gpu for lane in self._lanes.values() if lane.gpu is not None]
        return devices.offered(((gpu.index, gpu.name) for gpu in gpus), emulated=len(gpus) < len(self._lanes))

    def ready(self) -> tuple[str, ...]:
        """Those of them that some lane takes: not those of which every lane is quarantined or cordoned."""
        return tuple(kind for kind in self.offers() if any(lane.usable for lane in self._lanes.values() if _is_meant(lane, kind)))

    def cordon(self, names: Collection[str]) -> None:
        """Give nothing more to the lanes of these names, as `now` has them, and to all others again."""
        for name, lane in self._lanes.items():
            lane.cordoned = name in names
        self._assign_waiting()

    async def quarantine(self, name: str, fault: str) -> None:
        """Give nothing more to the lane of this name, once its device was checked, until a later look finds it well."""
        lane = self._lanes[name]
        if lane.health_check_task is not None:
            await asyncio.wait([lane.health_check_task])
        if lane.status is LaneState.FREE:
            log.error("lane_quarantined", lane=lane.title, reason=fault)
            lane.status, lane.fault = LaneState.QUARANTINED, fault
            self._look_later(lane)
            self._assign_waiting()

    def now(self) -> tuple[LaneNow, ...]:
        """Return the state of each lane, cordoned once its last job is over."""
        return tuple(
            LaneNow(name=name, state=LaneState.CORDONED if lane.cordoned and lane.status is LaneState.FREE else lane.status)
            for name, lane in self._lanes.items()
        )

    @contextmanager
    def reserve(self, choice: str) -> Iterator[QueuedReservation]:
        """Reserve the lane with the fewest reservations; NoSuchDevice, or DeviceQuarantined where no such lane is left."""
        lane = min(self._usable(choice or self._default), key=lambda lane: lane.load)
        reservation = QueuedReservation(self, choice or self._default, lane)
        lane.reservation_count += 1
        try:
            yield reservation
        finally:
            reservation.current.reservation_count -= 1
            reservation.current.used_s = time.monotonic()
            self._assign_waiting()

    def contended(self, lane: DeviceLane) -> bool:
        """Return whether usable lanes like this one have more reservations than there are lanes."""
        alike = [peer for peer in self._lanes.values() if peer.usable and peer.is_like(lane)]
        return sum(peer.reservation_count for peer in alike) > len(alike)

    def _look_later(self, lane: DeviceLane) -> None:
        lane.next_look = asyncio.get_running_loop().call_later(self._look_again_s, self.health_check, lane)

    async def take(self, reservation: QueuedReservation) -> None:
        """Wait for the reservation's lane, or for one like it that is free before, and make it the current one; see `_assign_waiting`."""
        loop = asyncio.get_running_loop()
        assigned: asyncio.Future[DeviceLane] = loop.create_future()
        reservation.assigned, reservation.start_s = assigned, loop.time()
        self.waiting.append(reservation)
        self._assign_waiting()
        try:
            lane = await assigned
        except asyncio.CancelledError:
            if assigned.done() and not assigned.cancelled() and assigned.exception() is None:  # it came in the same moment
                assigned.result().status = LaneState.FREE
                self._assign_waiting()
            raise
        reservation.current.reservation_count -= 1
        lane.reservation_count += 1
        reservation.current = lane

    def health_check(self, lane: DeviceLane) -> None:
        """Check the lane's device in a task of its own, for the verdict does not wait for it; the lane's next user does."""

        async def check() -> None:
            await lane.health_check()
            lane.health_check_task = None
            if lane.status is LaneState.QUARANTINED:
                self._look_later(lane)
            self._assign_waiting()

        if lane.next_look is not None:
            lane.next_look.cancel()
            lane.next_look = None
        lane.status = LaneState.CHECKING
        lane.health_check_task = asyncio.create_task(check())

    async def prepare(self, problems: Sequence[wire.ProblemSpec]) -> None:
        """Have the judge of each GPU compile and time the baselines of these problems, a workload at a time, while nobody uses its lane."""
        await asyncio.gather(*(self._prepare(lane, problems) for lane in self._lanes.values() if lane.gpu is not None))

    async def _prepare(self, lane: DeviceLane, problems: Sequence[wire.ProblemSpec]) -> None:
        for problem in problems:
            for workload in problem.workloads:
                if workload.hidden or workload.device_kind not in ("", lane.kind):
                    continue
                while lane.idle_s < PREPARE_AFTER_S:
                    await asyncio.sleep(PREPARE_LOOK_S)
                lane.status = LaneState.TAKEN
                try:
                    await lane.prepare(replace(problem, workloads=(workload,)))
                except JudgeBroken as error:  # a submission to this problem will find out why
                    log.warning("baselines_not_prepared", lane=lane.title, problem=problem.problem_id, error=error.detail)
                    self.health_check(lane)
                    break
                lane.status = LaneState.FREE
                self._assign_waiting()

    async def close(self) -> None:
        """Stop all checks, and end the judges."""
        for lane in self._lanes.values():
            if lane.next_look is not None:
                lane.next_look.cancel()
            if lane.health_check_task is not None:
                lane.health_check_task.cancel()
                await asyncio.gather(lane.health_check_task, return_exceptions=True)
            await lane.close()

    def _assign_waiting(self) -> None:
        """Give free lanes to those who wait, in order; tell those for whom there is none any more. A reservation at a free lane has a box
        for its GPU: it comes before others, except those that have waited for long."""
        self.waiting = [reservation for reservation in self.waiting if self._still_waits(reservation)]
        long_ago = asyncio.get_running_loop().time() - AFFINITY_TIMEOUT_S
        turns: tuple[Callable[[QueuedReservation], bool], ...] = (
            lambda reservation: reservation.start_s <= long_ago,
            lambda reservation: reservation.current.status is LaneState.FREE,
            lambda reservation: True,
        )
        for has_turn, reservation in itertools.product(turns, self.waiting):
            if not reservation.assigned.done() and has_turn(reservation) and (lane := self._free_for(reservation)) is not None:
                lane.status = LaneState.TAKEN
                reservation.assigned.set_result(lane)
        self.waiting = [reservation for reservation in self.waiting if not reservation.assigned.done()]

    def _still_waits(self, reservation: QueuedReservation) -> bool:
        """Return whether there is a lane that it may get some time; where there is none, it gets the error."""
        if reservation.assigned.done():
            return False
        try:
            if any(lane.is_like(reservation.current) for lane in self._usable(reservation.choice)):
                return True
            # What was built for the one that is quarantined does not run on the others; the next attempt is made on those.
            reservation.assigned.set_exception(reservation.current.refusal())
        except DeviceQuarantined as error:
            reservation.assigned.set_exception(error)
        return False

    def _free_for(self, reservation: QueuedReservation) -> DeviceLane | None:
        current = reservation.current
        alike = (lane for lane in self._usable(reservation.choice) if lane.is_like(current) and lane.status is LaneState.FREE)
        return min(alike, key=lambda lane: (lane is not current, lane.load), default=None)

    def _usable(self, choice: str) -> list[DeviceLane]:
        matches = [lane for lane in self._lanes.values() if _is_meant(lane, choice)]
        if not matches:
            raise NoSuchDevice(choice, self.offers())
        usable = [lane for lane in matches if lane.usable]
        if not usable:
            raise matches[0].refusal()
        return usable


def _is_meant(lane: DeviceLane, choice: str) -> bool:
    return choice == lane.kind if lane.gpu is None else devices.fits(choice, lane.gpu.index, lane.gpu.name)
