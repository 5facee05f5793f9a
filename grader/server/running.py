"""A server, put together: lock, ledger, grading, dispatcher, gRPC; and taken apart in the order that loses nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from grader import extensions
from grader.artifacts.files import SubmissionFiles
from grader.config import SOCKET_NAME, Settings
from grader.dispatch.dispatcher import Dispatcher
from grader.errors import SettingsInvalid
from grader.intake.gate import submit_policy
from grader.ledger import Ledger
from grader.ledger.servers import connection_name
from grader.observability.observer import Observer
from grader.problems.store import Problems
from grader.rules.quotas import for_server
from grader.server.auth import Authenticator, authenticator, identity_provider, server_credentials
from grader.server.connections import grpc_options, health_limits
from grader.server.grading import Grading, Wiring
from grader.server.installed_version import installed_version
from grader.server.interceptors import CallInterceptor, KnownHealth, OpenCalls
from grader.server.operation import ServerTelemetry
from grader.server.server_state import state_lock, worker_prefix
from grader.server.service import GraderServicer, OwnedArtifacts
from grader.server.submission_watch import SubmissionWatch
from grader.server.wiring import wired
from grader.v1 import grader_service_pb2, grader_service_pb2_grpc

log = structlog.get_logger()

SERVICE_NAME = grader_service_pb2.DESCRIPTOR.services_by_name["GraderService"].full_name
SERVICES = ("", SERVICE_NAME)  # of which the health service speaks
STOP_GRACE_S = 5.0  # for answers that are being sent when everything is done
SOCKET_PATH_BYTES = 107  # on Linux


@dataclass
class Serving:
    """A server that answers."""

    address: str
    dispatcher: Dispatcher | None
    service: GraderServicer
    health: Any  # health.aio.HealthServicer, which the stubs do not know
    server: grpc.aio.Server
    parts: Sequence[extensions.ServerAdditions] = ()
    web_address: str = ""  # "" without a web port

    async def drain(self, patience_s: float, dispatching: asyncio.Task[None] | None) -> None:
        """Take nothing more, let what runs end, tell the watchers, then stop."""
        log.info("draining", patience_s=patience_s)
        self.service.stop_accepting()
        await self.health.enter_graceful_shutdown()
        if self.dispatcher is not None and dispatching is not None:
            self.dispatcher.drain(patience_s)
            await asyncio.wait([dispatching])
        self.service.end_watches()
        await self.server.stop(STOP_GRACE_S)
        log.info("stopped")

    async def reload_at(self, event: asyncio.Event) -> NoReturn:
        """Have the parts read their files again whenever this is asked."""
        while True:
            await event.wait()
            event.clear()
            for part in self.parts:
                await logged("reload", part.reload)

    def abort_running(self) -> None:
        """Give back to the queue what still runs, now."""
        if self.dispatcher is not None:
            self.dispatcher.abandon()


@asynccontextmanager
async def serving(settings: Settings, wiring: Wiring, *, waiting: Callable[[str], None] | None = None) -> AsyncIterator[Serving]:
    """Serve until the context is left, then drain. waiting: see `state_lock`."""
    extensions.check_installed()
    problems = Problems.load(settings.problems, settings.imported_path)
    policy = submit_policy(settings, problems)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(state_lock(settings.lock_path, waiting))
        name = connection_name(installed_version(), socket.gethostname(), settings.listen)
        ledger = await stack.enter_async_context(Ledger.open(settings.ledger, server_name=name))
        credentials, gate = server_credentials(settings), await authenticator(settings, ledger.keys)
        provider = identity_provider(settings)
        grading = await stack.enter_async_context(wiring(settings))
        refuse_unsafe(settings, grading)
        operation = ServerTelemetry(settings)
        watch = SubmissionWatch(ledger, policy, lane_count=lambda: len(grading.lanes()) or grading.capacity())
        prefix = worker_prefix(settings.state_dir)
        dispatcher = Dispatcher(
            ledger,
            grading.grade,
            capacity=lambda: 0 if operation.paused else grading.capacity(),
            device_kinds=grading.ready_kinds or grading.device_kinds,
            known_kinds=None if settings.database else grading.device_kinds,  # other servers of the database may have other devices
            lease_s=settings.lease_s,
            worker_prefix=prefix,
            observer=operation.observer,
        )
        service = GraderServicer(
            ledger,
            problems,
            worker=dispatcher,
            device_kinds=grading.device_kinds,
            queue_limit=settings.queue_limit,
            user_queue_limit=settings.user_queue_limit,
            policy=policy,
            quotas=for_server(settings.hourly_limit, settings.daily_limit),
            watch=watch,
            artifacts=owned_artifacts(settings, ledger),
        )
        parts = _parts(extensions.ServerContext(settings=settings, service=service, gate=gate, provider=provider))
        await stack.enter_async_context(operation.watching(ledger, grading, policy=policy, routes=partial(_pages, parts)))
        # The lock is ours and the boxes are swept: anybody who held these leases is dead, and nothing of it runs.
        # In a database that servers share, that is known of the leases of this state directory only.
        reclaimed = await ledger.reclaim_all(prefix if settings.database else "")
        log.info("ledger_opened", database=ledger.database.shown, reclaimed_count=len(reclaimed))
        running = await _start(settings, service, dispatcher, gate, credentials, operation.observer)
        running.parts = parts
        running.web_address = operation.web_address
        await operation.serves(running.health, running.address, SERVICES)
        log.info("serving", address=running.address, isolation=grading.isolation, device_kinds=grading.device_kinds())
        grading.prepare([problem.spec for problem in problems.all()])
        raised: Exception | None = None
        async with asyncio.TaskGroup() as group:
            dispatching = group.create_task(dispatcher.run())
            tasks = [group.create_task(logged("run", part.run)) for part in parts]
            try:
                yield running
            except Exception as error:  # noqa: BLE001  # the caller's own; out of the group, so that it comes back as it was
                raised = error
            finally:
                operation.leaves()
                for task in tasks:  # what they have not done is done by the next server
                    task.cancel()
                await running.drain(settings.drain_s, dispatching)
        if raised is not None:
            raise raised


@asynccontextmanager
async def reading(settings: Settings) -> AsyncIterator[Serving]:
    """Serve what the ledger and the problems say, and nothing that changes them; next to another server, if one runs."""
    problems = Problems.load(settings.problems, settings.imported_path)
    policy = submit_policy(settings, problems)
    async with Ledger.open(settings.ledger) as ledger:
        service = GraderServicer(ledger, problems, worker=None, policy=policy, artifacts=owned_artifacts(settings, ledger))
        credentials, gate = server_credentials(settings), await authenticator(settings, ledger.keys)
        _parts(extensions.ServerContext(settings=settings, service=service, gate=gate))
        running = await _start(settings, service, None, gate, credentials, Observer())
        try:
            yield running
        finally:
            await running.drain(0, None)


def _parts(context: extensions.ServerContext) -> list[extensions.ServerAdditions]:
    """Add what installed packages bring."""
    parts: list[extensions.ServerAdditions] = [part(context) for part in extensions.named(extensions.SERVER_PARTS).values()]
    for part in parts:
        context.service.add(part.calls)
    return parts


async def logged(action: str, work: Callable[[], Awaitable[None]]) -> None:
    """Log what a part of an installed package raises: the server goes on without it."""
    try:
        await work()
    except Exception as error:  # not our code
        log.error("server_part_failed", action=action, part=getattr(work, "__qualname__", ""), exc_info=error)


def _pages(parts: Sequence[extensions.ServerAdditions]) -> list[Any]:
    routes = [route for part in parts for route in part.routes()]
    if not routes:
        log.warning("no_pages", detail=f"no installed package has any; {extensions.HOW_TO_INSTALL}")
    return routes


def owned_artifacts(settings: Settings, ledger: Ledger) -> OwnedArtifacts:
    """The files of submissions, as these settings keep them."""
    files = SubmissionFiles(settings.submission_files_path, settings.submission_files_bytes)
    return OwnedArtifacts(ledger, files, timedelta(days=settings.retain_artifacts_days) if settings.retain_artifacts_days else None)


def refuse_unsafe(settings: Settings, grading: Grading) -> None:
    """Strangers' kernels are kept in by a SAFE isolation, or are not taken."""
    if not grading.safe and not settings.loopback:
        text = (
            f"{settings.listen!r} can be reached from other hosts, and the isolation {grading.isolation!r} isolates nothing; "
            "listen on 127.0.0.1 or unix:PATH, or install Docker or bubblewrap"
        )
        raise SettingsInvalid("listen", text)


async def _start(
    settings: Settings,
    service: GraderServicer,
    dispatcher: Dispatcher | None,
    gate: Authenticator | None,
    credentials: grpc.ServerCredentials | None,
    observer: Observer,
) -> Serving:
    interceptor = CallInterceptor(gate, OpenCalls(health_limits(settings)), observer)
    server = grpc.aio.server(interceptors=[interceptor], options=grpc_options(settings))
    grader_service_pb2_grpc.add_GraderServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]  # generated
    healthy = KnownHealth()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, server)
    reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    if settings.listen.startswith("unix:"):
        path = settings.listen.removeprefix("unix:")
        if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
            raise SettingsInvalid("listen", f"a socket's path has at most {SOCKET_PATH_BYTES} bytes, {path!r} more; take a shorter one")
        if Path(path).is_socket():  # of a killed server: only the lock's holder, or the maker of a directory for it, gets here
            Path(path).unlink()
    try:
        port = server.add_insecure_port(settings.listen) if credentials is None else server.add_secure_port(settings.listen, credentials)
    except RuntimeError as error:
        sentence = str(error).split(";")[0]  # then gRPC tells how to have it print more
        raise SettingsInvalid("listen", f"can't listen on {settings.listen!r}: {sentence}; is another program there?") from None
    address = settings.listen if settings.listen.startswith("unix:") else f"{settings.listen.rsplit(':', 1)[0]}:{port}"
    await server.start()
    status = health_pb2.HealthCheckResponse.SERVING if dispatcher is None else health_pb2.HealthCheckResponse.NOT_SERVING
    for name in SERVICES:  # one that grades becomes ready later
        await healthy.set(name, status)
    return Serving(address, dispatcher, service, healthy, server)


# A server inside another program, such as `grader-cli`: the same code on a socket that only this user can open.

_wired = partial(wired, proving=False)  # its one user reads at once what is wrong, and does not wait for a kernel that is not theirs


@asynccontextmanager
async def embedded(
    settings: Settings, *, reader: bool = False, waiting: Callable[[str], None] | None = None, wiring: Wiring = _wired
) -> AsyncIterator[str]:
    """The address of a server that lives as long as the context.

    reader: shows what is there, takes no lock, grades nothing. Otherwise the state directory's lock is needed. Where another
    process has it, `waiting` is called and the lock is waited for; without `waiting`, StateDirectoryInUse.
    """
    # Not in the state directory: two programs may read at once.
    with tempfile.TemporaryDirectory(prefix="grader-") as directory:
        # By a descriptor: a unix socket's path has at most 107 bytes, and $TMPDIR may lie deep. Only this process listens and connects.
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            # A copy of the toolchain takes seconds to make, and here nobody grades secrets for others.
            changes = {
                "listen": f"unix:/proc/self/fd/{descriptor}/{SOCKET_NAME}",
                "resident_toolchain": settings.resident_toolchain or False,
            }
            here = settings.model_copy(update=changes)
            async with reading(here) if reader else serving(here, wiring, waiting=waiting) as running:
                yield running.address
        finally:
            os.close(descriptor)
