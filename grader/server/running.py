"""A server, put together: lock, ledger, grading, dispatcher, gRPC; and taken apart in the order that loses nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from grader import extensions
from grader.config import SOCKET_NAME, Settings
from grader.dispatch.dispatcher import Dispatcher
from grader.errors import GraderError, ProblemInvalid, SettingsInvalid
from grader.intake.gate import submit_policy
from grader.isolation import IsolationBroken
from grader.ledger import Ledger
from grader.ledger.database import connection_name
from grader.observability import log as log_setup
from grader.observability.observer import Observer
from grader.problems.store import Problems
from grader.server import installed_version
from grader.server.auth import authenticator, server_credentials
from grader.server.connections import bound_arenas, grpc_options, health_limits, raise_descriptor_limit
from grader.server.interceptors import CallInterceptor, KnownHealth, OpenCalls
from grader.server.operation import ServerTelemetry
from grader.server.server_state import worker_prefix
from grader.server.service import GraderServicer
from grader.server.settings import FAILED, USAGE_ERROR, parse_settings
from grader.server.submission_watch import SubmissionWatch
from grader.server.wiring import Wiring, wired
from grader.state_dir import state_lock, writable_directory
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
    service: GraderServicer
    health: Any  # health.aio.HealthServicer, which the stubs do not know
    server: grpc.aio.Server
    parts: Sequence[extensions.ServerAdditions] = ()
    web_address: str = ""  # "" without a web port

    async def drain(self, patience_s: float, dispatching: asyncio.Task[None] | None) -> None:
        """Take nothing more, let what runs end, tell the watchers, then stop."""
        log.info("draining", patience_s=patience_s)
        self.service.accepting = False
        await self.health.enter_graceful_shutdown()
        if self.service.worker is not None and dispatching is not None:
            self.service.worker.drain(patience_s)
            await asyncio.wait([dispatching])
        self.service.ledger.changes.leave()
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
        if self.service.worker is not None:
            self.service.worker.abandon()


@asynccontextmanager
async def serving(
    settings: Settings, wiring: Wiring, *, waiting: Callable[[str], None] | None = None, problems: Problems | None = None
) -> AsyncIterator[Serving]:
    """Serve until the context is left, then drain. waiting: see `state_lock`. problems: None: those of the settings."""
    extensions.check_installed()
    problems = problems or Problems.load(settings.problems, settings.imported_path)
    policy = submit_policy(settings, problems)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(state_lock(settings.state_dir, waiting))
        name = connection_name(installed_version(), socket.gethostname(), settings.listen)
        ledger = await stack.enter_async_context(Ledger.open(settings.ledger, server_name=name))
        credentials, gate = server_credentials(settings), await authenticator(settings, ledger.keys)
        grading = await stack.enter_async_context(wiring(settings))
        if not grading.safe and not settings.loopback:  # strangers' kernels are kept in by a SAFE isolation, or are not taken
            reach = f"{settings.listen!r} can be reached from other hosts, and the isolation {grading.isolation!r} isolates nothing"
            raise SettingsInvalid("listen", f"{reach}; listen on 127.0.0.1 or unix:PATH, or install Docker or bubblewrap")
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
        kinds = grading.device_kinds
        service = GraderServicer(ledger, problems, worker=dispatcher, device_kinds=kinds, settings=settings, policy=policy, watch=watch)
        interceptor = CallInterceptor(gate, OpenCalls(health_limits(settings)), operation.observer)
        parts = _parts(extensions.ServerContext(settings=settings, service=service, gate=gate, interceptor=interceptor))
        await stack.enter_async_context(operation.watching(ledger, grading, routes=partial(_pages, parts)))
        # The lock is ours and the boxes are swept: anybody who held these leases is dead, and nothing of it runs.
        # In a database that servers share, that is known of the leases of this state directory only.
        reclaimed = await ledger.reclaim_all(prefix if settings.database else "")
        log.info("ledger_opened", database=ledger.database.shown, reclaimed_count=len(reclaimed))
        running = await _start(settings, service, interceptor, credentials)
        running.parts = parts
        running.web_address = operation.web_address
        await operation.serves(running.health, SERVICES)
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
        service = GraderServicer(ledger, problems, worker=None, settings=settings, policy=policy)
        credentials, gate = server_credentials(settings), await authenticator(settings, ledger.keys)
        interceptor = CallInterceptor(gate, OpenCalls(health_limits(settings)), Observer())
        _parts(extensions.ServerContext(settings=settings, service=service, gate=gate, interceptor=interceptor))
        running = await _start(settings, service, interceptor, credentials)
        try:
            yield running
        finally:
            await running.drain(0, None)


def _parts(context: extensions.ServerContext) -> list[extensions.ServerAdditions]:
    """Add what installed packages bring. SettingsInvalid for a setting that none of them acts upon."""
    parts: list[extensions.ServerAdditions] = [part(context) for part in extensions.named(extensions.SERVER_PARTS).values()]
    for setting in Settings.EXTENSION_SETTINGS:
        if getattr(context.settings, setting) and not any(setting in part.settings for part in parts):
            raise SettingsInvalid(setting, f"needs a package that is not installed; {extensions.HOW_TO_INSTALL}")
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


async def _start(
    settings: Settings, service: GraderServicer, interceptor: CallInterceptor, credentials: grpc.ServerCredentials | None
) -> Serving:
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
    status = health_pb2.HealthCheckResponse.SERVING if service.worker is None else health_pb2.HealthCheckResponse.NOT_SERVING
    for name in SERVICES:  # one that grades becomes ready later
        await healthy.set(name, status)
    return Serving(address, service, healthy, server)


# A server inside another program, such as `grader-cli`: the same code on a socket that only this user can open.


@asynccontextmanager
async def embedded(
    settings: Settings,
    *,
    reader: bool = False,
    waiting: Callable[[str], None] | None = None,
    wiring: Wiring = wired,
    problems: Problems | None = None,
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
            listen, resident = f"unix:/proc/self/fd/{descriptor}/{SOCKET_NAME}", settings.resident_toolchain or False
            here = settings.model_copy(update={"listen": listen, "resident_toolchain": resident})
            async with reading(here) if reader else serving(here, wiring, waiting=waiting, problems=problems) as running:
                yield running.address
        finally:
            os.close(descriptor)


# The ledger's thread asks for the interpreter after every statement: with the default of 5 ms a busy event loop made each of them wait.
SWITCH_S = 0.0005
GC_THRESHOLD = 20_000  # with Python's 700 the collector runs twice a submission, and takes 3 % of the interpreter


def run(options: Mapping[str, Any], wiring: Wiring = wired) -> int:
    """Serve with these settings until SIGTERM or SIGINT; the exit code."""
    settings = parse_settings("grader-server", options)
    if settings is None:
        return USAGE_ERROR
    log_setup.configure(settings.log_format, log_setup.LEVELS[settings.log_level])
    sys.setswitchinterval(SWITCH_S)
    bound_arenas()
    raise_descriptor_limit()
    try:
        with writable_directory(settings.state_dir):  # before problems are looked for in it
            pass
        asyncio.run(_serve(settings, wiring))
    except (GraderError, IsolationBroken) as error:
        sys.stderr.write(f"grader-server: {error}\n")
        return USAGE_ERROR if isinstance(error, (SettingsInvalid, ProblemInvalid)) else FAILED
    return 0


async def _serve(settings: Settings, wiring: Wiring) -> None:
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    hung_up = asyncio.Event()
    if takes_hang_up():
        loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    async with serving(settings, wiring) as running:
        # What is there now stays: the collector need not look at it again and again, for a tenth of a second in which nobody is answered.
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 10, 10)
        async with asyncio.TaskGroup() as group:
            reloading = group.create_task(running.reload_at(hung_up))
            await signalled.wait()
            reloading.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one: no more patience
            loop.add_signal_handler(number, running.abort_running)


def takes_hang_up() -> bool:
    """Return whether SIGHUP has competitions read again. On a terminal it says that the terminal was closed, and ends the server."""
    on_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    return not on_terminal and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
