"""What `grader-worker` does once its command line is read: join a server, and join again until a signal ends it."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import structlog

from grader.artifacts.files import SubmissionFiles
from grader.config import Settings
from grader.errors import FleetRefused, GraderError, HostUnfit, SettingsInvalid
from grader.fleet.v1 import fleet_pb2_grpc
from grader.isolation import IsolationBroken
from grader.observability import log as log_setup
from grader.server.commands import doctor
from grader.server.commands.doctor import HostFinding
from grader.server.connections import raise_descriptor_limit
from grader.server.fleet_port import OPTIONS, SERVER_NAME, UNIX
from grader.server.grading import Grading, Wiring
from grader.server.server_state import state_lock
from grader.server.settings_given import FAILED, MISUSED, settings_given
from grader.server.wiring import chosen_gpus, local
from grader.state_dir import writable_directory
from grader.worker.session import FleetSession

RETRY_S, RETRY_MOST_S = 0.5, 10.0
REFUSALS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """Which server is joined, and how. name: of several workers on this host, which. until_stdin_closes: its end is a SIGTERM."""

    address: str
    certificate: Path | None = None
    name: str = ""
    until_stdin_closes: bool = False


Examine = Callable[[Settings, Joining], Awaitable[None]]


async def examine(settings: Settings, joining: Joining) -> None:
    """Look at this host as `grader-cli doctor` does, and log what is found. HostUnfit where it can't do what it would join for."""
    isolations = await doctor.isolations()
    found = [*await doctor.compilers(), *doctor.devices(), *isolations]
    chosen = chosen_gpus(settings.device)
    gpus = await doctor.gpus(isolations, lambda: chosen) if chosen else []  # others may be in use
    _log_findings([*found, *gpus])
    missing = [one for one in found if one.required and not one.usable]
    if gpus and settings.device != "auto" and not any(one.usable for one in gpus):
        missing += gpus
    if missing or not doctor.can_grade([*found, *gpus]):
        missing = missing or [one for one in found if not one.usable]
        raise HostUnfit(f"this host can't grade: {'. '.join(f'{one.name}: {one.detail}; {one.remedy}' for one in missing)}")


def _log_findings(found: Sequence[HostFinding]) -> None:
    for one in found:
        say = log.info if one.usable else log.warning
        say("host_examined", kind=one.kind, name=one.name, usable=one.usable, detail=one.detail, remedy=one.remedy, warnings=one.warnings)


def run(joining: Joining, given: Mapping[str, Any], wiring: Wiring | None = None, examine: Examine = examine) -> int:
    """Grade for this server until SIGTERM or SIGINT; the exit code.

    examine: looks at this host before it joins.
    """
    settings = settings_given("grader-worker", given)
    if settings is None:
        return MISUSED
    log_setup.configure(settings.log_format, log_setup.LEVELS[settings.log_level])
    raise_descriptor_limit()
    try:
        credentials = channel_credentials(joining.address, joining.certificate)
        with writable_directory(settings.state_dir):
            pass
        asyncio.run(_work(joining, credentials, settings, wiring or local, examine))
    except (GraderError, IsolationBroken) as error:
        sys.stderr.write(f"grader-worker: {error}\n")
        return MISUSED if isinstance(error, (SettingsInvalid, FleetRefused)) else FAILED
    return 0


def channel_credentials(address: str, certificate: Path | None) -> grpc.ChannelCredentials | None:
    """What a worker's file holds, for gRPC; None on a unix socket. SettingsInvalid where it is none."""
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
        text = (
            f"{certificate} is not a worker's file: it has {len(certificates)} certificates and not 2; make it again on the server's host"
        )
        raise SettingsInvalid("certificate", text)
    own, authority = (mark + one for one in certificates)
    return grpc.ssl_channel_credentials(root_certificates=authority, private_key=key, certificate_chain=own)


async def _work(
    joining: Joining, credentials: grpc.ChannelCredentials | None, settings: Settings, wiring: Wiring, examine: Examine
) -> None:
    await examine(settings, joining)
    signalled, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    if joining.until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _read_stdin, loop, signalled)
    async with state_lock(settings.lock_path), wiring(settings) as grading:
        files = SubmissionFiles(settings.submission_files_path, settings.submission_files_bytes)
        await _join(joining, credentials, grading, files, signalled, settings.drain_s)


def _read_stdin(loop: asyncio.AbstractEventLoop, signalled: asyncio.Event) -> None:
    """The program that started this worker has gone, or wants it to go."""
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        signalled.set()


async def _join(
    joining: Joining,
    credentials: grpc.ChannelCredentials | None,
    grading: Grading,
    files: SubmissionFiles,
    signalled: asyncio.Event,
    drain_s: float,
) -> None:
    retry_s = RETRY_S
    while not signalled.is_set():
        address = joining.address
        session = FleetSession(grading, files, joining.name)
        try:
            await _attached(address, credentials, session, signalled, drain_s)
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


async def _attached(
    address: str, credentials: grpc.ChannelCredentials | None, session: FleetSession, signalled: asyncio.Event, drain_s: float
) -> None:
    """One stream, from hello to its end."""
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
