"""The worker's half of its stream to a server: attempts come in, facts go out.

One task writes, one reads, and each attempt has one. Where the stream ends, all attempts are stopped and their boxes are gone before the
worker joins again: the server has given them to others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, cast

import structlog

from grader.artifacts import BuildResult
from grader.artifacts.files import SubmissionFiles, chunks
from grader.dispatch.build_messages import BuildReceived, build_asked, build_pieces
from grader.dispatch.lease_messages import lease_from_bytes
from grader.errors import CallRefused, GraderFault, HostBroken, WorkerLost
from grader.fleet.v1 import fleet_pb2
from grader.model import Lease
from grader.server.grading import Grading
from grader.server.installed_version import installed_version
from sandbox.protocol import wire
from sandbox.protocol.version import VERSION

WAITING = 64  # messages that wait to be sent; then an attempt waits, too
STANDING_S = 2.0
END_S = 5.0  # for what waits to be sent, when the worker leaves

log = structlog.get_logger()


class FleetSession:
    """One stream. leave() drains it. builds_only: this worker grades nothing, and builds for others."""

    def __init__(self, grading: Grading, files: SubmissionFiles, instance: str = "", *, builds_only: bool = False) -> None:
        self._grading, self._files, self._instance = grading, files, instance
        self._builds_only = builds_only
        self._outbox: asyncio.Queue[fleet_pb2.AttachRequest | None] = asyncio.Queue(WAITING)
        self._attempts: dict[int, asyncio.Task[None]] = {}  # and builds for others: a worker has one kind
        self._numbers: dict[tuple[str, int], int] = {}  # of attempts, by submission and attempt
        self._awaited: dict[int, tuple[BuildReceived, asyncio.Event]] = {}  # builds by others, by the number of the attempt
        self._leaving = asyncio.Event()
        self.node = ""

    def messages(self) -> AsyncIterator[fleet_pb2.AttachRequest]:
        """What is said to the server, until the end."""

        async def messages() -> AsyncIterator[fleet_pb2.AttachRequest]:
            hello = fleet_pb2.Hello(
                protocol=VERSION,
                version=installed_version(),
                isolation=self._grading.isolation,
                safe=self._grading.safe,
                standing=self._standing(),
                instance=self._instance,
            )
            yield fleet_pb2.AttachRequest(hello=hello)
            while (message := await self._outbox.get()) is not None:
                yield message

        return messages()

    async def run(self, answers: AsyncIterator[fleet_pb2.AttachResponse]) -> None:
        """Do what the server says until its stream ends, or until this leaves. No box is left behind."""
        telling, cordoned, builds = asyncio.create_task(self._tell_standing()), False, self._grading.builds
        if builds is not None and not self._builds_only:
            builds.have_built(self._have_built)
        try:
            async for answer in answers:
                match answer.WhichOneof("message"):
                    case "welcome":
                        self.node = answer.welcome.node
                        log.info("joined", node=self.node)
                    case "grade":
                        self._begin(answer.grade.attempt, self._attempt(answer.grade.attempt, answer.grade.lease))
                    case "build":
                        self._begin(answer.build.number, self._build(answer.build))
                    case "cancel":
                        self._cancel(answer.cancel.attempt)
                    case "cancel_build":
                        self._cancel(answer.cancel_build.number)
                    case "build_piece":
                        self._take_piece(answer.build_piece)
                    case "cordon":
                        log.info("lanes_cordoned", lanes=list(answer.cordon.lanes))
                        self._grading.cordon(frozenset(answer.cordon.lanes))
                        cordoned = True
                        await self._outbox.put(fleet_pb2.AttachRequest(standing=self._standing()))
                    case "recheck":
                        log.info("lanes_rechecked", lanes=list(answer.recheck.lanes))
                        self._grading.recheck(frozenset(answer.recheck.lanes))
        finally:
            telling.cancel()
            if builds is not None:
                builds.have_built(None)
            await self._stop()
            if cordoned:  # it may be undone before this worker joins again
                self._grading.cordon(frozenset())

    async def leave(self, patience_s: float) -> None:
        """Take nothing more; let what runs go on for so long, give back what is left, and end the stream."""
        self._leaving.set()
        await self._outbox.put(fleet_pb2.AttachRequest(standing=self._standing()))
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._attempts:
                    await asyncio.wait(list(self._attempts.values()))
        await self._stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await self._outbox.put(None)

    def _begin(self, number: int, work: Coroutine[Any, Any, None]) -> None:
        self._attempts[number] = task = asyncio.create_task(work)
        task.add_done_callback(lambda _: self._attempts.pop(number, None))

    def _cancel(self, number: int) -> None:
        if (task := self._attempts.get(number)) is not None:
            task.cancel()

    async def _attempt(self, number: int, content: bytes) -> None:
        """Grade one attempt, say what is found, and at last how it ended."""
        ended = fleet_pb2.Ended(attempt=number)
        try:
            lease = lease_from_bytes(content)
            with structlog.contextvars.bound_contextvars(submission=lease.submission.submission_id, attempt=lease.attempt):
                self._numbers[_key(lease)] = number
                try:
                    await self._grade(number, lease)
                finally:
                    del self._numbers[_key(lease)]
        except asyncio.CancelledError:
            ended = fleet_pb2.Ended(attempt=number, reason=WorkerLost.reason, message="stopped")
        except (GraderFault, CallRefused) as error:
            final = isinstance(error, GraderFault) and error.final
            ended = fleet_pb2.Ended(attempt=number, reason=error.reason, message=str(error), final=final)
        except Exception as error:
            log.exception("attempt_broke")
            ended = fleet_pb2.Ended(attempt=number, reason="INTERNAL", message=f"{type(error).__name__}; the worker's log has more")
        with suppress(TimeoutError):  # where the stream is gone, nobody takes it
            async with asyncio.timeout(END_S):
                if ended.reason == HostBroken.reason:  # before the server has room for another one
                    await self._outbox.put(fleet_pb2.AttachRequest(standing=self._standing()))
                await self._outbox.put(fleet_pb2.AttachRequest(ended=ended))

    async def _grade(self, number: int, lease: Lease) -> None:
        stream = cast(AsyncGenerator[wire.Fact, None], self._grading.grade(lease))
        async with aclosing(stream) as facts:
            count = 0
            async for fact in facts:
                if isinstance(fact, wire.ArtifactFile) and not await self._send_file(number, fact.digest):
                    continue
                message = fleet_pb2.Fact(attempt=number, number=count, line=wire.encode(fact))
                count += 1
                await self._outbox.put(fleet_pb2.AttachRequest(fact=message))

    async def _build(self, asked: fleet_pb2.Build) -> None:
        """Build for another worker, and send what came of it."""
        made, builds = None, self._grading.builds
        try:
            if builds is None:
                raise ValueError("this worker can't build")
            job, files = build_asked(asked)
            made = await builds.build(job, files, asked.user)
        except asyncio.CancelledError:
            log.info("build_stopped", number=asked.number)
        except (GraderFault, CallRefused, ValueError) as error:
            log.error("build_failed", number=asked.number, detail=str(error))
        except Exception:
            log.exception("build_broke", number=asked.number)
        with suppress(TimeoutError):
            for piece in build_pieces(asked.number, made):
                async with asyncio.timeout(END_S):
                    await self._outbox.put(fleet_pb2.AttachRequest(build_piece=piece))

    async def _have_built(self, lease: Lease, environment: wire.Environment) -> BuildResult | None:
        """Have another worker build this attempt's kernel; None where none does."""
        number, builds = self._numbers.get(_key(lease)), self._grading.builds
        if number is None or builds is None:
            return None
        received, ended = self._awaited[number] = (BuildReceived(), asyncio.Event())
        asked = fleet_pb2.BuildRequest(attempt=number, environment=wire.encode(environment), toolchain=builds.toolchain)
        try:
            await self._outbox.put(fleet_pb2.AttachRequest(build_request=asked))
            await ended.wait()
        finally:
            del self._awaited[number]
        return received.made

    def _take_piece(self, piece: fleet_pb2.BuildPiece) -> None:
        if (awaited := self._awaited.get(piece.number)) is None:  # it was stopped meanwhile
            return
        received, ended = awaited
        try:
            last = received.add(piece)
        except ValueError as error:
            log.error("build_not_received", detail=str(error))
            last = True
        if last:
            ended.set()

    async def _send_file(self, number: int, digest: str) -> bool:
        content = await asyncio.to_thread(self._files.read, digest)
        if content is None:
            return False
        pieces = list(chunks(content))
        for index, piece in enumerate(pieces, 1):
            message = fleet_pb2.FilePiece(attempt=number, digest=digest, content=piece, last=index == len(pieces))
            await self._outbox.put(fleet_pb2.AttachRequest(file_piece=message))
        return True

    async def _stop(self) -> None:
        """Stop every attempt, and wait until its boxes are gone."""
        tasks = list(self._attempts.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _tell_standing(self) -> None:
        known = self._standing()
        while True:
            await asyncio.sleep(STANDING_S)
            if (now := self._standing()) != known:
                known = now
                await self._outbox.put(fleet_pb2.AttachRequest(standing=now))

    def _standing(self) -> fleet_pb2.Standing:
        if self._builds_only and self._grading.builds is not None:
            builds = self._grading.builds
            return fleet_pb2.Standing(build_capacity=builds.count, toolchain=builds.toolchain, leaving=self._leaving.is_set())
        return fleet_pb2.Standing(
            capacity=self._grading.capacity(),
            device_kinds=(self._grading.ready_kinds or self._grading.device_kinds)(),
            lanes=[fleet_pb2.Lane(name=lane.name, state=lane.state.name) for lane in self._grading.lanes()],
            leaving=self._leaving.is_set(),
        )


def _key(lease: Lease) -> tuple[str, int]:
    return lease.submission.submission_id, lease.attempt
