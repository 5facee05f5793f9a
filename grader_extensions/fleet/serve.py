"""Joins a server as a worker, and again until a signal ends it: attempts come in, facts go out.

One task writes to the stream, one reads, and each attempt has one. Where the stream ends, all attempts are stopped and their
boxes are gone before the worker joins again: the server has given them to others.
"""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc
import structlog

from grader import extensions
from grader.artifacts import SubmissionFiles, chunks
from grader.config import Settings
from grader.errors import CallRefused, GraderError, GraderFault, HostBroken, SettingsInvalid, WorkerLost
from grader.fleet.v1 import fleet_pb2, fleet_pb2_grpc
from grader.isolation import IsolationBroken
from grader.model import Lease
from grader.observability import log as log_setup
from grader.server import installed_version
from grader.server.connections import raise_descriptor_limit
from grader.server.settings import FAILED, USAGE_ERROR, parse_settings
from grader.server.wiring import Grading, Wiring, chosen_gpus, local
from grader.state_dir import state_lock, writable_directory
from grader_extensions.fleet.fleet_port import OPTIONS, SERVER_NAME, UNIX
from grader_extensions.fleet.remote_fleet import lease_from_bytes
from grader_extensions.operation import host_findings
from sandbox.protocol import wire
from sandbox.protocol.entry_points import EntryPointInvalid
from sandbox.protocol.version import VERSION

RETRY_S, RETRY_MOST_S = 0.5, 10.0
REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED)

WAITING = 64  # messages that wait to be sent; then an attempt waits, too
STANDING_S = 2.0
END_S = 5.0  # for what waits to be sent, when the worker leaves

log = structlog.get_logger()


class FleetRefused(GraderError):
    """The server does not let this worker in; the message says why and what to do."""

    detail: str


class HostUnfit(GraderError):
    """Nothing can be graded on a worker's host; the message says what is missing and what to do."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOptions:
    """Which server is joined, and how. name: of several workers on this host, which. until_stdin_closes: its end is a SIGTERM."""

    address: str
    certificate: Path | None = None
    name: str = ""
    until_stdin_closes: bool = False


Examine = Callable[[Settings], Awaitable[None]]


async def examine(settings: Settings) -> None:
    """Look at this host as `grader-cli doctor` does, and log what is found. HostUnfit where it can't do what it would join for."""
    isolations = await host_findings.isolations()
    findings = [*await host_findings.compilers(), *host_findings.devices(), *isolations]
    chosen = chosen_gpus(settings.device)
    gpus = await host_findings.gpus(isolations, lambda: chosen) if chosen else []  # others may be in use
    for finding in (*findings, *gpus):
        write = log.info if finding.usable else log.warning
        fields = {name: getattr(finding, name) for name in ("kind", "name", "usable", "detail", "remedy", "warnings")}
        write("host_examined", **fields)
    missing = [finding for finding in findings if finding.required and not finding.usable]
    if gpus and settings.device != "auto" and not any(gpu.usable for gpu in gpus):
        missing += gpus
    if missing or not host_findings.can_grade([*findings, *gpus]):
        missing = missing or [finding for finding in findings if not finding.usable]
        raise HostUnfit(f"this host can't grade: {'. '.join(f'{finding.name}: {finding.detail}; {finding.remedy}' for finding in missing)}")


def run(joining: JoinOptions, options: Mapping[str, Any], wiring: Wiring | None = None, examine: Examine = examine) -> int:
    """Grade for this server until SIGTERM or SIGINT; the exit code. examine: looks at this host before it joins."""
    settings = parse_settings("grader-worker", options)
    if settings is None:
        return USAGE_ERROR
    log_setup.configure(settings.log_format, log_setup.LEVELS[settings.log_level])
    raise_descriptor_limit()
    try:
        extensions.check_installed()
        credentials = channel_credentials(joining.address, joining.certificate)
        with writable_directory(settings.state_dir):
            pass
        asyncio.run(_work(joining, credentials, settings, wiring or local, examine))
    except (GraderError, IsolationBroken, EntryPointInvalid) as error:
        sys.stderr.write(f"grader-worker: {error}\n")
        return USAGE_ERROR if isinstance(error, (SettingsInvalid, FleetRefused, EntryPointInvalid)) else FAILED
    return 0


def channel_credentials(address: str, certificate: Path | None) -> grpc.ChannelCredentials | None:
    """Return the credentials in a worker's file; None on a unix socket. SettingsInvalid where it is none."""
    if address.startswith(UNIX):
        return None
    if certificate is None:
        text = "a worker needs one; make it on the server's host with `grader-server admin workers add NODE`"
        raise SettingsInvalid("certificate", text)
    try:
        content = certificate.read_bytes()
        ssl.create_default_context().load_cert_chain(certificate)  # whether key and certificate belong together
    except (OSError, ssl.SSLError) as error:
        raise SettingsInvalid("certificate", f"{certificate} is not a worker's file: {error.strerror or error}") from None
    mark = b"-----BEGIN CERTIFICATE-----"
    key, *certificates = content.split(mark)
    if len(certificates) != 2:
        text = f"{certificate} is not a worker's file: it has {len(certificates)} certificates, not 2; make it again on the server's host"
        raise SettingsInvalid("certificate", text)
    leaf, authority = (mark + certificate for certificate in certificates)
    return grpc.ssl_channel_credentials(root_certificates=authority, private_key=key, certificate_chain=leaf)


async def _work(
    joining: JoinOptions, credentials: grpc.ChannelCredentials | None, settings: Settings, wiring: Wiring, examine: Examine
) -> None:
    await examine(settings)
    signalled, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    if joining.until_stdin_closes:

        def read_stdin() -> None:
            """The program that started this worker has gone, or wants it to go."""
            if not os.read(sys.stdin.fileno(), 4096):
                loop.remove_reader(sys.stdin.fileno())
                signalled.set()

        loop.add_reader(sys.stdin.fileno(), read_stdin)
    async with state_lock(settings.state_dir), wiring(settings) as grading:
        await _join(joining, credentials, settings, grading, signalled)


async def _join(
    joining: JoinOptions, credentials: grpc.ChannelCredentials | None, settings: Settings, grading: Grading, signalled: asyncio.Event
) -> None:
    address, retry_s = joining.address, RETRY_S
    files = SubmissionFiles(settings.submission_files_path, settings.submission_files_bytes)
    while not signalled.is_set():
        session = FleetSession(grading, files, joining.name)
        try:
            await _attached(address, credentials, session, signalled, settings.drain_s)
        except grpc.aio.AioRpcError as error:
            if error.code() in REFUSALS:
                raise FleetRefused(f"{address} does not let this worker in: {error.details()}") from None
            log.warning("server_not_reached", address=address, detail=error.details(), retry_s=retry_s)
        if signalled.is_set():
            return
        retry_s = RETRY_S if session.node else min(2 * retry_s, RETRY_MOST_S)
        try:
            async with asyncio.timeout(retry_s):
                await signalled.wait()
        except TimeoutError:
            continue


class FleetSession:
    """The worker's half of its stream to a server. leave() drains it."""

    def __init__(self, grading: Grading, files: SubmissionFiles, instance: str = "") -> None:
        self._grading, self._files, self._instance = grading, files, instance
        self._outbox: asyncio.Queue[fleet_pb2.AttachRequest | None] = asyncio.Queue(WAITING)
        self._attempts: dict[int, asyncio.Task[None]] = {}
        self._leaving = asyncio.Event()
        self.node = ""

    async def messages(self) -> AsyncIterator[fleet_pb2.AttachRequest]:
        """Yield the messages to the server, until the end."""
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

    async def run(self, answers: AsyncIterator[fleet_pb2.AttachResponse]) -> None:
        """Do what the server says until its stream ends, or until this leaves. No box is left behind."""
        telling, cordoned = asyncio.create_task(self._send_standings()), False
        try:
            async for answer in answers:
                match answer.WhichOneof("message"):
                    case "welcome":
                        self.node = answer.welcome.node
                        log.info("joined", node=self.node)
                    case "grade":
                        self._begin(answer.grade.attempt, answer.grade.lease)
                    case "cancel":
                        if (running := self._attempts.get(answer.cancel.attempt)) is not None:
                            running.cancel()
                    case "cordon":
                        log.info("lanes_cordoned", lanes=list(answer.cordon.lanes))
                        self._grading.cordon(frozenset(answer.cordon.lanes))
                        cordoned = True
                        await self._outbox.put(fleet_pb2.AttachRequest(standing=self._standing()))
        finally:
            telling.cancel()
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

    def _begin(self, number: int, content: bytes) -> None:
        self._attempts[number] = task = asyncio.create_task(self._attempt(number, content))
        task.add_done_callback(lambda _: self._attempts.pop(number, None))

    async def _attempt(self, number: int, content: bytes) -> None:
        """Grade one attempt, say what is found, and at last how it ended."""
        ended = fleet_pb2.Ended(attempt=number)
        try:
            lease = lease_from_bytes(content)
            with structlog.contextvars.bound_contextvars(submission=lease.submission.submission_id, attempt=lease.attempt):
                await self._grade(number, lease)
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
                if isinstance(fact, wire.ArtifactFile):
                    content = await asyncio.to_thread(self._files.read, fact.digest)
                    if content is None:
                        continue
                    pieces = list(chunks(content))
                    for index, piece in enumerate(pieces, 1):
                        message = fleet_pb2.FilePiece(attempt=number, digest=fact.digest, content=piece, last=index == len(pieces))
                        await self._outbox.put(fleet_pb2.AttachRequest(file_piece=message))
                line = fleet_pb2.Fact(attempt=number, number=count, line=wire.encode(fact))
                count += 1
                await self._outbox.put(fleet_pb2.AttachRequest(fact=line))

    async def _stop(self) -> None:
        """Stop every attempt, and wait until its boxes are gone."""
        tasks = list(self._attempts.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_standings(self) -> None:
        standing = self._standing()
        while True:
            await asyncio.sleep(STANDING_S)
            if (current := self._standing()) != standing:
                standing = current
                await self._outbox.put(fleet_pb2.AttachRequest(standing=current))

    def _standing(self) -> fleet_pb2.Standing:
        return fleet_pb2.Standing(
            capacity=self._grading.capacity(),
            device_kinds=(self._grading.ready_kinds or self._grading.device_kinds)(),
            lanes=[fleet_pb2.Lane(name=lane.name, state=lane.state.name) for lane in self._grading.lanes()],
            leaving=self._leaving.is_set(),
        )


async def _attached(
    address: str, credentials: grpc.ChannelCredentials | None, session: FleetSession, signalled: asyncio.Event, drain_s: float
) -> None:
    options = (*OPTIONS, ("grpc.ssl_target_name_override", SERVER_NAME)) if credentials is not None else OPTIONS
    opened = (
        grpc.aio.insecure_channel(address, options=options)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, options=options)
    )
    async with opened as channel:
        call = fleet_pb2_grpc.FleetServiceStub(channel).Attach(session.messages())  # type: ignore[no-untyped-call]
        running = asyncio.create_task(session.run(call))
        stopping = asyncio.create_task(signalled.wait())
        try:
            await asyncio.wait([running, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                log.info("draining", patience_s=drain_s)
                await session.leave(drain_s)
            await running
        finally:
            stopping.cancel()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
