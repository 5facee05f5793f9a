"""The fleet of other hosts: the workers that have joined, and the attempts that each of them was given.

A worker grades whole attempts on its own host. It is believed what it says of an attempt that it was given on this very stream, in order
and within bounds, and nothing else: an attempt of another stream, a gap, a line that is no fact, or a file that is not what its digest
says, ends the stream. The ledger's lease and its fence stay the only source of truth: of a stream that ends, all attempts are given back.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing, suppress
from pathlib import Path
from typing import get_args

import structlog

from grader import devices
from grader.artifacts.files import FILE_COUNT_LIMIT, SUBMISSION_LIMIT_BYTES, SubmissionFiles
from grader.artifacts.store import write_whole
from grader.dispatch.build_messages import build_pieces
from grader.dispatch.lease_messages import LEASE_LIMIT_BYTES, lease_to_bytes
from grader.dispatch.remote_builders import RemoteBuilder, RemoteBuilders
from grader.dispatch.worker_stream import NAME_LIMIT_CHARS, ProtocolViolation, WorkerStream, admit, dismiss
from grader.errors import DeviceQuarantined, HostBroken, JudgeBroken, NoSuchDevice, ProblemBroken, WorkerFault, WorkerLost
from grader.fleet.v1 import fleet_pb2
from grader.isolation.cancellation import finish_despite_cancel
from grader.model import Lease
from grader.observability.observer import BuilderNow, LaneNow, LaneState
from sandbox.protocol import wire
from sandbox.protocol.output import FILE_LIMIT_BYTES

FACTS_WAITING = 256  # of an attempt; then its worker is not read until some are taken
FACT_LIMIT, FACTS_LIMIT_BYTES = 100_000, 256 * 1024 * 1024  # of an attempt
CANCEL_S = 120.0  # how long a worker may take until the boxes of an attempt are gone
LOSS_LIMIT = 3  # a submission that was at so many workers when they were lost is not given to another one
LOSSES_KEPT = 10_000
FACT_TYPES = get_args(wire.Fact)

log = structlog.get_logger()


class _RemoteAttempt:
    """An attempt at a worker."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.build: asyncio.Task[None] | None = None  # of its kernel, at another worker
        self.items: asyncio.Queue[wire.Fact | fleet_pb2.Ended | None] = asyncio.Queue()
        self.taken = asyncio.Event()
        self.ended = asyncio.Event()
        self.cancelled = False
        self.fact_count = self.fact_bytes = 0
        self.files: dict[str, int] = {}  # sizes of those that were sent, by digest
        self.kept: set[str] = set()  # the digests of those that are kept: there may be no room
        self.partial: tuple[str, bytearray] | None = None
        self.file_bytes = 0

    async def put(self, item: wire.Fact) -> None:
        """Keep it for the one who grades; wait where there are too many."""
        if self.cancelled:
            return
        self.items.put_nowait(item)
        while self.items.qsize() > FACTS_WAITING and not self.cancelled:
            self.taken.clear()
            await self.taken.wait()


class RemoteWorker(WorkerStream):
    """The server's half of the stream of a worker that grades."""

    def __init__(
        self, node: str, standing: fleet_pb2.Standing, changed: asyncio.Event, files: SubmissionFiles | None, builders: RemoteBuilders
    ) -> None:
        super().__init__(node, standing, changed)
        self._files, self._builders = files, builders
        self._lanes_cordoned: list[str] = []
        self._attempts: dict[int, _RemoteAttempt] = {}
        self._numbers = itertools.count(1)

    @property
    def capacity(self) -> int:
        """How many attempts it takes at once: none where it gets nothing more."""
        return self.standing.capacity if self.open else 0

    @property
    def room(self) -> int:
        """How many attempts more it takes."""
        return max(0, self.capacity - len(self._attempts))

    @property
    def load(self) -> float:
        """The share of its places that is taken."""
        return len(self._attempts) / max(1, self.standing.capacity)

    def takes(self, device_kind: str) -> bool:
        """Whether it has room for a submission to this device; "" is any."""
        return self.room > 0 and (not device_kind or devices.is_offered(device_kind, self.standing.device_kinds))

    async def grade(self, lease: Lease) -> AsyncGenerator[wire.Fact, None]:
        """Have it grade an attempt. WorkerLost where it goes away; when this ends early, the boxes there are gone."""
        content = lease_to_bytes(lease)
        if len(content) > LEASE_LIMIT_BYTES:  # a message that is too large would end the stream, and all attempts on it
            raise ProblemBroken(
                f"the problem and the sources are {len(content)} bytes, more than a worker can be sent; make the problem smaller"
            )
        number, attempt = next(self._numbers), _RemoteAttempt(lease)
        self._attempts[number] = attempt
        self._say(grade=fleet_pb2.Grade(attempt=number, lease=content))
        try:
            while True:
                item = await attempt.items.get()
                attempt.taken.set()
                if item is None:
                    raise WorkerLost(f"the worker {self.node!r} {self.gone}")
                if isinstance(item, fleet_pb2.Ended):
                    if item.reason:
                        raise self._fault(item)
                    return
                yield item
        finally:
            attempt.cancelled = True
            attempt.taken.set()
            if attempt.build is not None:
                attempt.build.cancel()
            if not attempt.ended.is_set() and not self.gone:
                self._say(cancel=fleet_pb2.Cancel(attempt=number))
                await finish_despite_cancel(self._ended(attempt))
            del self._attempts[number]
            self._changed.set()

    async def hear(self, message: fleet_pb2.AttachRequest) -> None:
        """Take what the worker says; ProtocolViolation."""
        match message.WhichOneof("message"):
            case "fact":
                await self._fact(message.fact)
            case "ended":
                attempt = self._attempt(message.ended.attempt)
                attempt.ended.set()
                attempt.items.put_nowait(message.ended)
            case "file_piece":
                await self._piece(message.file_piece)
            case "build_request":
                self._build_request(message.build_request)
            case _:
                await super().hear(message)

    def cordon(self, names: Collection[str]) -> None:
        """Give nothing more to it, where its own name is among these, or its node's, or to some of its lanes."""
        super().cordon(names)
        begin = f"{self.node}/"
        lanes = sorted(name.removeprefix(begin) for name in names if name.startswith(begin))
        if lanes != self._lanes_cordoned:
            self._lanes_cordoned = lanes
            self._say(cordon=fleet_pb2.Cordon(lanes=lanes))

    def recheck(self, names: Collection[str]) -> None:
        """Have it look at its quarantined lanes now: at those of these names, or at all where its own name is among them, or its node's."""
        whole = self.node in names or self.node.partition("/")[0] in names
        ill = [lane.name for lane in self.standing.lanes if LaneState[lane.state] is LaneState.QUARANTINED]
        lanes = [name for name in ill if whole or f"{self.node}/{name}" in names]
        if lanes:
            self._say(recheck=fleet_pb2.Recheck(lanes=lanes))

    def _lost(self) -> None:
        for attempt in self._attempts.values():
            attempt.cancelled = True
            attempt.taken.set()
            attempt.ended.set()
            attempt.items.put_nowait(None)

    async def _ended(self, attempt: _RemoteAttempt) -> None:
        try:
            async with asyncio.timeout(CANCEL_S):
                await attempt.ended.wait()
        except TimeoutError:
            self.lose(f"did not end an attempt within {CANCEL_S:g} s")

    def _attempt(self, number: int) -> _RemoteAttempt:
        attempt = self._attempts.get(number)
        if attempt is None or attempt.ended.is_set():
            raise ProtocolViolation("spoke of an attempt that it does not have")
        return attempt

    async def _fact(self, message: fleet_pb2.Fact) -> None:
        attempt = self._attempt(message.attempt)
        if message.number != attempt.fact_count:
            raise ProtocolViolation(f"sent fact {message.number} where {attempt.fact_count} was due")
        attempt.fact_count += 1
        attempt.fact_bytes += len(message.line)
        if attempt.fact_count > FACT_LIMIT or attempt.fact_bytes > FACTS_LIMIT_BYTES:
            raise ProtocolViolation("sent more facts of an attempt than there can be")
        try:
            fact = wire.decode(message.line)
        except wire.WireError as error:
            raise ProtocolViolation(f"sent a line that is no fact: {error}") from None
        if not isinstance(fact, FACT_TYPES):
            raise ProtocolViolation(f"sent a {type(fact).__name__}, which is no fact")
        if isinstance(fact, wire.ArtifactFile):
            if attempt.files.get(fact.digest) != fact.size_bytes:
                raise ProtocolViolation("named a file that it did not send")
            if fact.digest not in attempt.kept:
                return
        await attempt.put(fact)

    def _build_request(self, request: fleet_pb2.BuildRequest) -> None:
        attempt = self._attempt(request.attempt)
        if attempt.build is not None and not attempt.build.done():
            raise ProtocolViolation("asked for two builds of an attempt at once")
        try:
            environment = wire.decode(request.environment)
        except wire.WireError as error:
            raise ProtocolViolation(f"sent a line that is no environment: {error}") from None
        if not isinstance(environment, wire.Environment):
            raise ProtocolViolation(f"sent a {type(environment).__name__}, which is no environment")
        attempt.build = asyncio.create_task(self._build(request, attempt.lease, environment))

    async def _build(self, request: fleet_pb2.BuildRequest, lease: Lease, environment: wire.Environment) -> None:
        try:
            made = await self._builders.build(lease, environment, request.toolchain)
        except JudgeBroken as error:
            self.lose(f"asked for a build of what can't be built: {error}", violated=True)
            return
        for piece in build_pieces(request.attempt, made):
            self._say(build_piece=piece)

    async def _piece(self, piece: fleet_pb2.FilePiece) -> None:
        attempt = self._attempt(piece.attempt)
        digest, content = attempt.partial or (piece.digest, bytearray())
        if digest != piece.digest:
            raise ProtocolViolation("sent two files at once")
        content += piece.content
        attempt.file_bytes += len(piece.content)
        if len(content) > FILE_LIMIT_BYTES or attempt.file_bytes > SUBMISSION_LIMIT_BYTES:
            raise ProtocolViolation("sent files that are too large")
        attempt.partial = (digest, content)
        if piece.last:
            attempt.partial = None
            whole = bytes(content)
            if hashlib.sha256(whole).hexdigest() != digest:
                raise ProtocolViolation("sent a file that is not what its digest says")
            attempt.files[digest] = len(whole)
            if len(attempt.files) > FILE_COUNT_LIMIT:
                raise ProtocolViolation("sent too many files")
            if await self._keep(whole):
                attempt.kept.add(digest)

    async def _keep(self, content: bytes) -> bool:
        """Whether the file is here now. That there is no room for it is not the worker's fault."""
        if self._files is None:
            return False
        try:
            return await asyncio.to_thread(self._files.keep, content) is not None
        except OSError as error:
            log.warning("submission_file_not_kept", error=str(error))
            return False

    def _fault(self, ended: fleet_pb2.Ended) -> Exception:
        if ended.reason == DeviceQuarantined.reason:
            return DeviceQuarantined(ended.message)
        if ended.reason == HostBroken.reason:
            return HostBroken(f"{ended.message} (at the worker {self.node})")
        if ended.reason == WorkerLost.reason:
            return WorkerLost(f"the worker {self.node!r} {ended.message or 'left'}")
        return WorkerFault(ended.reason[:NAME_LIMIT_CHARS], f"{ended.message} (at the worker {self.node})", final=ended.final)


class RemoteFleet:
    """All workers. memory: a file that keeps which devices there have been, so that a submission to one waits for it after a restart."""

    def __init__(self, memory: Path, files: SubmissionFiles | None) -> None:
        self._memory, self._files = memory, files
        self._workers: dict[str, RemoteWorker] = {}
        self._builders = RemoteBuilders()
        self._known = _remembered(memory)
        self._changed = asyncio.Event()
        self._losses: OrderedDict[str, int] = OrderedDict()
        self._cordoned: frozenset[str] = frozenset()

    def join(self, node: str, standing: fleet_pb2.Standing) -> WorkerStream:
        """A worker is in; an older stream of the same node is ended. ProtocolViolation."""
        stream: RemoteWorker | RemoteBuilder
        if standing.build_capacity > 0:
            self._builders.join(stream := RemoteBuilder(node, standing, self._changed))
            log.info("builder_joined", node=node, build_capacity=standing.build_capacity, toolchain=standing.toolchain)
        else:
            admit(self._workers, stream := RemoteWorker(node, standing, self._changed, self._files, self._builders))
            self._remember(stream)
            log.info("worker_joined", node=node, capacity=standing.capacity, device_kinds=list(standing.device_kinds))
        stream.cordon(self._cordoned)
        return stream

    def leave(self, stream: WorkerStream) -> None:
        """Its stream is over."""
        stream.lose("closed its connection")
        if isinstance(stream, RemoteBuilder):
            self._builders.leave(stream)
        elif isinstance(stream, RemoteWorker):
            dismiss(self._workers, stream)
        log.info("worker_left", node=stream.node, why=stream.gone)
        self._changed.set()

    def cordon(self, names: Collection[str]) -> None:
        """Give nothing more to these workers and lanes, also when they join later; to all others again. They end what they have.

        A name is a worker's, its node's, or a lane's as `lanes` has it.
        """
        self._cordoned = frozenset(names)
        for stream in self._streams():
            stream.cordon(self._cordoned)

    def recheck(self, names: Collection[str]) -> None:
        """Have these workers, or those of these lanes, look at what is quarantined there now. A name is as `cordon` has it."""
        for worker in self._workers.values():
            worker.recheck(names)

    def close(self) -> None:
        """End every stream."""
        for stream in self._streams():
            stream.lose("was sent away: the server stops")

    def capacity(self) -> int:
        """How many attempts may be under way now."""
        return sum(worker.capacity for worker in self._workers.values())

    def device_kinds(self) -> tuple[str, ...]:
        """What a submission may ask for: every device that there has been."""
        return tuple(self._known)

    def ready_kinds(self) -> tuple[str, ...]:
        """Those for which there is room now."""
        return tuple(dict.fromkeys(kind for worker in self._workers.values() if worker.room for kind in worker.standing.device_kinds))

    def lanes(self) -> tuple[LaneNow, ...]:
        """What each device is doing, with the node before its name."""
        return tuple(
            LaneNow(name=f"{worker.node}/{lane.name}", state=_lane_state(worker, lane))
            for worker in self._workers.values()
            for lane in worker.standing.lanes
        )

    def builders(self) -> tuple[BuilderNow, ...]:
        """The workers that build for others, and what each has to do."""
        return tuple(
            BuilderNow(name=one.node, capacity=one.standing.build_capacity, building=one.building, takes=one.open)
            for one in self._builders.all()
        )

    def has(self, node: str) -> bool:
        """Whether a worker of this name is connected."""
        return any(stream.node == node and not stream.gone for stream in self._streams())

    def _streams(self) -> list[WorkerStream]:
        return [*self._workers.values(), *self._builders.all()]

    async def grade(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        """Have the worker grade it that has most room; wait where none has. WorkerLost, which counts no attempt."""
        submission_id = lease.submission.submission_id
        worker = await self._choose(lease.submission.new.device_kind)
        try:
            async with aclosing(worker.grade(lease)) as facts:
                async for fact in facts:
                    yield fact
        except WorkerLost as error:
            if not worker.gone:  # it leaves, and gives back what it has
                raise
            lost = self._losses[submission_id] = self._losses.pop(submission_id, 0) + 1
            while len(self._losses) > LOSSES_KEPT:
                self._losses.popitem(last=False)
            if lost >= LOSS_LIMIT:
                del self._losses[submission_id]
                text = f"{lost} workers were lost while they graded it, the last because it {worker.gone}"
                raise WorkerFault(WorkerFault.reason, text, final=True) from error
            raise
        self._losses.pop(submission_id, None)

    async def _choose(self, device_kind: str) -> RemoteWorker:
        if device_kind and self._known and not devices.is_offered(device_kind, self.device_kinds()):
            raise NoSuchDevice(device_kind, self.device_kinds())
        while True:
            found = [worker for worker in self._workers.values() if worker.takes(device_kind)]
            if found:
                return min(found, key=lambda worker: worker.load)
            self._changed.clear()
            await self._changed.wait()

    def _remember(self, worker: RemoteWorker) -> None:
        before = len(self._known)
        self._known.update(dict.fromkeys(worker.standing.device_kinds))
        if len(self._known) != before:
            with suppress(OSError):
                write_whole(self._memory, json.dumps(list(self._known)).encode())


def _lane_state(worker: RemoteWorker, lane: fleet_pb2.Lane) -> LaneState:
    state = LaneState[lane.state]
    return LaneState.CORDONED if worker.cordoned and state is LaneState.FREE else state


def _remembered(memory: Path) -> dict[str, None]:
    try:
        found = json.loads(memory.read_bytes())
    except (OSError, ValueError):
        return {}
    return dict.fromkeys(kind for kind in found if isinstance(kind, str)) if isinstance(found, list) else {}
