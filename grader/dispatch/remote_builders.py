"""The workers that only build: nodes without a GPU, for those that have one.

A builder gets what a build box gets: the sources, and of the problem what everybody may know. What it sends is believed as far as a
build box is: the artifact is bytes with a digest, which run in a box later, and its log is text. It may fail, lie about a digest or go
away: then the next one builds, or the worker that asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools

import structlog

from grader.artifacts import BuildResult
from grader.dispatch.build_messages import BuildReceived, build_message
from grader.dispatch.worker_stream import ProtocolViolation, WorkerStream, admit, dismiss
from grader.fleet.v1 import fleet_pb2
from grader.grading.build import build_input
from grader.model import Lease
from sandbox.protocol import wire

BUILD_S = 600.0  # how long a builder may take; a build box has much less
REST_S = 30.0  # so long a builder that failed is given nothing

log = structlog.get_logger()


class RemoteBuilder(WorkerStream):
    """The server's half of the stream of a worker that builds for others."""

    def __init__(self, node: str, standing: fleet_pb2.Standing, changed: asyncio.Event) -> None:
        super().__init__(node, standing, changed)
        self.rests_until_s = 0.0
        self._builds: dict[int, _RemoteBuild] = {}
        self._numbers = itertools.count(1)

    @property
    def room(self) -> int:
        """How many builds more it takes now."""
        if not self.open or asyncio.get_running_loop().time() < self.rests_until_s:
            return 0
        return max(0, self.standing.build_capacity - len(self._builds))

    @property
    def building(self) -> int:
        """How many builds it has."""
        return len(self._builds)

    async def build(self, job: wire.BuildJob, files: dict[str, bytes], user: str) -> BuildResult | None:
        """Have it build; None where it could not, or went away. When this is stopped, so is the build."""
        number, build = next(self._numbers), _RemoteBuild()
        self._builds[number] = build
        self._say(build=build_message(number, job, files, user))
        try:
            async with asyncio.timeout(BUILD_S):
                made = await build.done
        except TimeoutError:
            self.lose(f"did not end a build within {BUILD_S:g} s")
            return None
        finally:
            if not build.done.done() or build.done.cancelled():
                self._say(cancel_build=fleet_pb2.CancelBuild(number=number))  # it keeps its place until its box is gone
        if made is None and not self.gone:
            self.rests_until_s = asyncio.get_running_loop().time() + REST_S
        return made

    async def hear(self, message: fleet_pb2.AttachRequest) -> None:
        """Take what the worker says; ProtocolViolation."""
        if message.WhichOneof("message") != "build_piece":
            await super().hear(message)
            return
        piece = message.build_piece
        build = self._builds.get(piece.number)
        if build is None:
            raise ProtocolViolation("spoke of a build that it does not have")
        try:
            last = await asyncio.to_thread(build.received.add, piece) if piece.last else build.received.add(piece)
        except ValueError as error:
            raise ProtocolViolation(str(error)) from None
        if last:
            del self._builds[piece.number]
            build.end(build.received.made)
            self._changed.set()

    def _lost(self) -> None:
        for build in self._builds.values():
            build.end(None)
        self._builds.clear()


class _RemoteBuild:
    def __init__(self) -> None:
        self.received = BuildReceived()
        self.done: asyncio.Future[BuildResult | None] = asyncio.get_running_loop().create_future()

    def end(self, made: BuildResult | None) -> None:
        if not self.done.done():
            self.done.set_result(made)


class RemoteBuilders:
    """Those that have joined."""

    def __init__(self) -> None:
        self._builders: dict[str, RemoteBuilder] = {}

    def join(self, builder: RemoteBuilder) -> None:
        """It is in; an older stream of the same node is ended."""
        admit(self._builders, builder)

    def leave(self, builder: RemoteBuilder) -> None:
        """Its stream is over."""
        dismiss(self._builders, builder)

    def all(self) -> list[RemoteBuilder]:
        """Each of them."""
        return list(self._builders.values())

    async def build(self, lease: Lease, environment: wire.Environment, toolchain: str) -> BuildResult | None:
        """Have an attempt's kernel built by one that has this toolchain, and room; None where there is none, or all of them failed.

        JudgeBroken where the environment is none that anything can be built for.
        """
        new, tried = lease.submission.new, set[str]()
        job, files = build_input(lease, environment)
        while (builder := self._choose(toolchain, _digest(job, files, new.user), tried)) is not None:
            tried.add(builder.node)
            made = await builder.build(job, files, new.user)
            # So that it is known later what a node has built that turns out to be stolen.
            outcome = {} if made is None else {"outcome": made.build.outcome.value, "digest": made.build.artifact_digest}
            log.info("built_elsewhere", node=builder.node, submission=lease.submission.submission_id, built=made is not None, **outcome)
            if made is not None:
                return made
        return None

    def _choose(self, toolchain: str, key: bytes, tried: set[str]) -> RemoteBuilder | None:
        """The same builder for the same sources, as long as it has room: it may have them in its cache (rendezvous hashing)."""
        found = [one for one in self._builders.values() if one.node not in tried and one.room and one.standing.toolchain == toolchain]
        return max(found, key=lambda one: hashlib.sha256(key + one.node.encode()).digest(), default=None)


def _digest(job: wire.BuildJob, files: dict[str, bytes], user: str) -> bytes:
    digest = hashlib.sha256(wire.encode(job) + user.encode())
    for content in files.values():
        digest.update(hashlib.sha256(content).digest())
    return digest.digest()
