"""The web application and the port that it is on: `/metrics`, `/healthz`, `/readyz`, and whatever routes it is given.

It is imported only where `--web` is set, for aiohttp takes half a second to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import structlog
from aiohttp import web

from grader.config import web_address
from grader.errors import SettingsInvalid
from grader.peers import PeerCount, PeerLimits, caller_of, network_of

log = structlog.get_logger()

HEADER_S = 10.0  # from the connection, or the answer before, to the end of a request's header
STOP_GRACE_S = 2.0  # for pages that are being sent
LIMITS = PeerLimits(total=512, per_address=128)
SCRAPE_LIMIT_S = 10.0  # Prometheus gives up by then
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

Scrape = Callable[[], Awaitable[bytes]]
Unready = Callable[[], Awaitable[Sequence[str]]]  # why calls should go elsewhere; nothing where they should come


class LimitedConnection:
    """A protocol of `asyncio`: counts a connection, and hands it on to the protocol that make gives. One over a limit is closed unread. A
    trusted proxy's is counted for the caller of its last request."""

    def __init__(self, count: PeerCount, make: Callable[[], asyncio.Protocol]) -> None:
        self._count, self._make = count, make
        self._address = ""
        self._inner: asyncio.Protocol | None = None  # None: not within the limits

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Count it, or close it."""
        peer = transport.get_extra_info("peername")
        address = peer[0] if isinstance(peer, tuple) else "unix"
        # A proxy's connections are of many callers: each counts by itself.
        self._address = f"{address} {id(self)}" if address in self._count.limits.proxies else network_of(address)
        if self._count.enter(self._address):
            self._inner = self._make()
            self._inner.connection_made(transport)
        else:
            transport.abort()

    def count_for(self, caller: str) -> bool:
        """Count it for this caller from now on; False, and it is nobody's, where that is over the limit."""
        self._count.leave(self._address)
        self._address = network_of(caller)
        if inside := self._count.enter(self._address):
            return inside
        self._address = f"refused {id(self)}"
        self._count.enter(self._address)
        return inside

    def connection_lost(self, error: Exception | None) -> None:
        """Count it no more."""
        if self._inner is not None:
            self._count.leave(self._address)
            self._inner.connection_lost(error)

    def __getattr__(self, event: str) -> Any:  # what else comes, all of it within the limits
        return getattr(self._inner, event)


def application(*, scrape: Scrape, unready: Unready, routes: Iterable[web.AbstractRouteDef] = ()) -> web.Application:
    """The application. scrape: the metrics as Prometheus reads them. routes: of pages; they may not use the three paths above."""

    async def metrics(_: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(SCRAPE_LIMIT_S):
                body = await scrape()
        except TimeoutError:
            return _text("the ledger did not answer in time; see the server's log", 503)
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": METRICS_TYPE})

    async def alive(_: web.Request) -> web.Response:
        return _text("ok", 200)

    async def ready(_: web.Request) -> web.Response:
        reasons = await unready()
        return _text("\n".join(reasons), 503) if reasons else _text("ok", 200)

    app = web.Application(client_max_size=64 * 1024)
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", alive), web.get("/readyz", ready), *routes])
    return app


@asynccontextmanager
async def web_serving(address: str, app: web.Application, *, limits: PeerLimits = LIMITS, header_s: float = HEADER_S) -> AsyncIterator[str]:
    """Serve app at `--web ADDRESS` until the context is left; where, with port 0 as the port that the system chose.

    limits: of connections. header_s: a connection is closed that has sent no whole header so long after it was made, or after the answer
    before; aiohttp does that with its timeout for idle connections, which half a header does not put off.
    """

    @web.middleware
    async def from_caller(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
        caller = caller_of(request.remote or "", request.headers.getall("X-Forwarded-For", []), limits.proxies)
        if caller == request.remote or request.transport is None:
            return await handler(request)
        if not cast(LimitedConnection, request.transport.get_protocol()).count_for(caller):
            request.transport.abort()  # an answer would wait for the rest of a body
            return web.Response(status=503)
        return await handler(request.clone(remote=caller))

    app.middlewares.append(from_caller)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=STOP_GRACE_S, keepalive_timeout=header_s)
    await runner.setup()
    listening: asyncio.Server | None = None
    try:
        listening, at = await _bind(runner, address, limits)
        log.info("web_serving", address=at)
        yield at
    finally:
        if listening is not None:
            listening.close()
        await runner.cleanup()


async def _bind(runner: web.AppRunner, address: str, limits: PeerLimits) -> tuple[asyncio.Server, str]:
    (host, port), server, count = web_address(address), runner.server, PeerCount(limits)
    assert server is not None
    make = cast(Callable[[], asyncio.Protocol], lambda: LimitedConnection(count, server))
    try:
        listening = await asyncio.get_running_loop().create_server(make, host, port, backlog=128)
    except OSError as error:
        raise SettingsInvalid("web", f"can't listen on {address!r}: {error.strerror}; is another program there?") from None
    return listening, f"{f'[{host}]' if ':' in host else host}:{listening.sockets[0].getsockname()[1]}"


def _text(text: str, status: int) -> web.Response:
    return web.Response(text=f"{text}\n", status=status, headers=_HEADERS)
