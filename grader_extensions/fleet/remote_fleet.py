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
from dataclasses import replace
from pathlib import Path
from typing import get_args

import structlog
from pydantic import TypeAdapter, ValidationError

from grader import devices
from grader.artifacts import FILE_COUNT_LIMIT, SUBMISSION_LIMIT_BYTES, SubmissionFiles, write_whole
from grader.errors import DeviceQuarantined, HostBroken, ModeNotInstalled, NoSuchDevice, ProblemBroken, WorkerFault, WorkerLost
from grader.extensions import PACKAGE
from grader.fleet.v1 import fleet_pb2
from grader.isolation import finish_despite_cancel
from grader.model import Lease, NewSubmission, Submission, SubmissionState
from grader.observability.observer import LaneNow, LaneState
from sandbox.protocol import wire
from sandbox.protocol.box_files import FILE_LIMIT_BYTES

CAPACITY_LIMIT, KIND_LIMIT, LANE_LIMIT, NAME_LIMIT_CHARS = 1024, 256, 256, 100
FACTS_WAITING = 256  # of an attempt; then its worker is not read until some are taken
FACT_LIMIT, FACTS_LIMIT_BYTES = 100_000, 256 * 1024 * 1024  # of an attempt
CANCEL_S = 120.0  # how long a worker may take until the boxes of an attempt are gone
LOSS_LIMIT = 3  # a submission that was at so many workers when they were lost is not given to another one
LOSSES_KEPT = 10_000
MODE_WAIT_S = 60.0  # how long a worker with a mode's package is waited for: such a one may only be away for a moment
LEASE_LIMIT_BYTES = 48 * 1024 * 1024  # below what a message may have; sources are at most 1 MiB, a problem may carry weights and modules
_LEASE = TypeAdapter(Lease)
FACT_TYPES = get_args(wire.Fact)

log = structlog.get_logger()


class ProtocolViolation(Exception):
    """A worker sent what no worker of this version sends; its stream is ended."""


class _RemoteAttempt:
    def __init__(self) -> None:
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


class RemoteWorker:
    """The server's half of a worker's stream. outbox: messages to the worker; None ends the stream. gone: why it is over."""

    def __init__(self, node: str, standing: fleet_pb2.Standing, changed: asyncio.Event, files: SubmissionFiles) -> None:
        self.node, self.gone, self.violated = node, "", False
        self.outbox: asyncio.Queue[fleet_pb2.AttachResponse | None] = asyncio.Queue()
        self.standing = checked_standing(standing)
        self.cordoned = False
        self.missing_modes: set[wire.Mode] = set()  # that no package grades in there
        self._changed, self._files = changed, files  # changed: set when its room changes
        self._lanes_cordoned: list[str] = []
        self._attempts: dict[int, _RemoteAttempt] = {}
        self._numbers = itertools.count(1)

    @property
    def capacity(self) -> int:
        """Return how many attempts it takes at once: none where it gets nothing more."""
        return 0 if self.gone or self.cordoned or self.standing.leaving else self.standing.capacity

    @property
    def room(self) -> int:
        """How many attempts more it takes."""
        return max(0, self.capacity - len(self._attempts))

    @property
    def load(self) -> float:
        """The share of its places that is taken."""
        return len(self._attempts) / max(1, self.standing.capacity)

    def offers(self, device_kind: str) -> bool:
        """Return whether it has this device; "" is any."""
        return not device_kind or devices.is_offered(device_kind, self.standing.device_kinds)

    async def grade(self, lease: Lease) -> AsyncGenerator[wire.Fact, None]:
        """Have it grade an attempt. WorkerLost where it goes away; when this ends early, the boxes there are gone."""
        content = lease_to_bytes(lease)
        if len(content) > LEASE_LIMIT_BYTES:  # a message that is too large would end the stream, and all attempts on it
            raise ProblemBroken(
                f"the problem and the sources are {len(content)} bytes, more than a worker can be sent; make the problem smaller"
            )
        number, attempt = next(self._numbers), _RemoteAttempt()
        self._attempts[number] = attempt
        self._send(grade=fleet_pb2.Grade(attempt=number, lease=content))
        try:
            while True:
                item = await attempt.items.get()
                attempt.taken.set()
                if item is None:
                    raise WorkerLost(f"the worker {self.node!r} {self.gone}")
                if isinstance(item, fleet_pb2.Ended):
                    match item.reason:
                        case "":
                            return
                        case DeviceQuarantined.reason:
                            raise DeviceQuarantined(item.message)
                        case HostBroken.reason:
                            raise HostBroken(f"{item.message} (at the worker {self.node})")
                        case ModeNotInstalled.reason:  # another worker may have the package
                            self.missing_modes.add(lease.submission.new.mode)
                            raise WorkerLost(f"the worker {self.node!r} can't grade it: {item.message}")
                        case WorkerLost.reason:
                            raise WorkerLost(f"the worker {self.node!r} {item.message or 'left'}")
                    raise WorkerFault(item.reason[:NAME_LIMIT_CHARS], f"{item.message} (at the worker {self.node})", final=item.final)
                yield item
        finally:
            attempt.cancelled = True
            attempt.taken.set()
            if not attempt.ended.is_set() and not self.gone:
                self._send(cancel=fleet_pb2.Cancel(attempt=number))
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
            case "standing":
                self.standing = checked_standing(message.standing)
                self._changed.set()
            case kind:
                raise ProtocolViolation(f"sent {kind or 'nothing'} where that is not in order")

    def cordon(self, names: Collection[str]) -> None:
        """Give nothing more to it, where its own name is among these, or its node's, or to some of its lanes."""
        self.cordoned = self.node in names or self.node.partition("/")[0] in names
        self._changed.set()
        begin = f"{self.node}/"
        lanes = sorted(name.removeprefix(begin) for name in names if name.startswith(begin))
        if lanes != self._lanes_cordoned:
            self._lanes_cordoned = lanes
            self._send(cordon=fleet_pb2.Cordon(lanes=lanes))

    def lose(self, why: str, *, violated: bool = False) -> None:
        """End the stream for the first reason that is given, and let no attempt wait for it."""
        if self.gone:
            return
        self.gone, self.violated = why, violated
        self.outbox.put_nowait(None)
        for attempt in self._attempts.values():
            attempt.cancelled = True
            attempt.taken.set()
            attempt.ended.set()
            attempt.items.put_nowait(None)
        self._changed.set()

    def _send(self, **message: object) -> None:
        self.outbox.put_nowait(fleet_pb2.AttachResponse(**message))  # type: ignore[arg-type]

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
            try:
                if await asyncio.to_thread(self._files.keep, whole) is not None:
                    attempt.kept.add(digest)
            except OSError as error:  # that there is no room for it is not the worker's fault
                log.warning("submission_file_not_kept", error=str(error))


class RemoteFleet:
    """All workers. memory: a file that keeps which devices there have been, so that a submission to one waits for it after a restart."""

    def __init__(self, memory: Path, files: SubmissionFiles, mode_wait_s: float = MODE_WAIT_S) -> None:
        self._memory, self._files, self._mode_wait_s = memory, files, mode_wait_s
        self._workers: dict[str, RemoteWorker] = {}
        self._known: dict[str, None] = {}  # kinds of devices
        with suppress(OSError, ValueError):
            if isinstance(kinds := json.loads(memory.read_bytes()), list):
                self._known = dict.fromkeys(kind for kind in kinds if isinstance(kind, str))
        self._changed = asyncio.Event()
        self._mode_ends: dict[tuple[str, wire.Mode], float] = {}  # by device and mode: when no worker that has both is waited for any more
        self._losses: OrderedDict[str, int] = OrderedDict()
        self._cordoned: frozenset[str] = frozenset()

    def join(self, node: str, standing: fleet_pb2.Standing) -> RemoteWorker:
        """A worker is in; an older stream of the same node is ended. ProtocolViolation."""
        worker = RemoteWorker(node, standing, self._changed, self._files)
        if (before := self._workers.get(node)) is not None:
            before.lose("was replaced by a new connection of the same node")
        self._workers[node] = worker
        self._mode_ends = {key: end_s for key, end_s in self._mode_ends.items() if not worker.offers(key[0])}  # it may have the package
        if new_kinds := dict.fromkeys(kind for kind in worker.standing.device_kinds if kind not in self._known):
            self._known |= new_kinds
            with suppress(OSError):
                write_whole(self._memory, json.dumps(list(self._known)).encode())
        log.info("worker_joined", node=node, capacity=standing.capacity, device_kinds=list(standing.device_kinds))
        worker.cordon(self._cordoned)
        return worker

    def leave(self, worker: RemoteWorker) -> None:
        """Remove a worker whose stream is over, unless it was replaced before."""
        worker.lose("closed its connection")
        if self._workers.get(worker.node) is worker:
            del self._workers[worker.node]
        log.info("worker_left", node=worker.node, why=worker.gone)
        self._changed.set()

    def cordon(self, names: Collection[str]) -> None:
        """Give nothing more to these workers and lanes, also when they join later; to all others again. They end what they have. A name is
        a worker's, its node's, or a lane's as `lanes` has it."""
        self._cordoned = frozenset(names)
        for worker in list(self._workers.values()):
            worker.cordon(self._cordoned)

    def close(self) -> None:
        """End every stream."""
        for worker in list(self._workers.values()):
            worker.lose("was sent away: the server stops")

    def capacity(self) -> int:
        """How many attempts may be under way now."""
        return sum(worker.capacity for worker in self._workers.values())

    def device_kinds(self) -> tuple[str, ...]:
        """Return the devices that a submission may request: every one that there has been."""
        return tuple(self._known)

    def ready_kinds(self) -> tuple[str, ...]:
        """Those for which there is room now."""
        return tuple(dict.fromkeys(kind for worker in self._workers.values() if worker.room for kind in worker.standing.device_kinds))

    def lanes(self) -> tuple[LaneNow, ...]:
        """Return the state of each lane, with the node before its name."""
        return tuple(
            LaneNow(
                name=f"{worker.node}/{lane.name}",
                state=LaneState.CORDONED if worker.cordoned and lane.state == LaneState.FREE.name else LaneState[lane.state],
            )
            for worker in self._workers.values()
            for lane in worker.standing.lanes
        )

    def has(self, node: str) -> bool:
        """Return whether a worker of this name is connected."""
        return node in self._workers and not self._workers[node].gone

    async def grade(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        """Have the worker grade it that has most room; wait where none has. WorkerLost, which counts no attempt."""
        submission_id = lease.submission.submission_id
        worker = await self._choose(lease.submission.new)
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

    async def _choose(self, submission: NewSubmission) -> RemoteWorker:
        kind, mode = submission.device_kind, submission.mode
        if kind and self._known and not devices.is_offered(kind, self.device_kinds()):
            raise NoSuchDevice(kind, self.device_kinds())
        loop = asyncio.get_running_loop()
        while True:
            fitting = [worker for worker in self._workers.values() if worker.offers(kind)]
            able = [worker for worker in fitting if mode not in worker.missing_modes]
            lacking = bool(fitting) and not able
            if able:
                self._mode_ends.pop((kind, mode), None)
            end_s = self._mode_ends.setdefault((kind, mode), loop.time() + self._mode_wait_s) if lacking else None
            if end_s is not None and loop.time() >= end_s:
                raise ModeNotInstalled(f"MODE_{mode.name} is not installed at any worker; install {PACKAGE} there")
            if workers := [worker for worker in able if worker.room]:
                return min(workers, key=lambda worker: worker.load)
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end_s):
                    await self._changed.wait()


def checked_standing(standing: fleet_pb2.Standing) -> fleet_pb2.Standing:
    """The same, if it makes sense; ProtocolViolation."""
    names = [*standing.device_kinds, *(lane.name for lane in standing.lanes)]
    if not 0 <= standing.capacity <= CAPACITY_LIMIT or len(standing.device_kinds) > KIND_LIMIT or len(standing.lanes) > LANE_LIMIT:
        raise ProtocolViolation("says that it can do more than any worker can")
    if not all(0 < len(name) <= NAME_LIMIT_CHARS and name.isprintable() for name in names):
        raise ProtocolViolation("has a device without a plain name")
    if not all(devices.well_formed(kind) for kind in standing.device_kinds):
        raise ProtocolViolation("has a kind of device that there is not")
    if not all(lane.state in LaneState.__members__ for lane in standing.lanes):
        raise ProtocolViolation("has a lane in a state that there is not")
    return standing


def lease_to_bytes(lease: Lease) -> bytes:
    """JSON of what grading needs; nothing of earlier attempts, of judgements, or of the server's worker."""
    submission = lease.submission
    bare = Submission(
        submission_id=submission.submission_id,
        new=submission.new,
        problem_digest=submission.problem_digest,
        state=SubmissionState.RUNNING,
        create_time=submission.create_time,
        attempt_count=submission.attempt_count,
    )
    return _LEASE.dump_json(replace(lease, submission=bare, worker_id=""))


def lease_from_bytes(content: bytes) -> Lease:
    """The reverse; ValueError where it is no lease."""
    try:
        return _LEASE.validate_json(content)
    except ValidationError as error:  # it quotes sources and hidden sizes
        raise ValueError(f"not a lease: {error.error_count()} errors, the first in {error.errors()[0]['loc']}") from None
