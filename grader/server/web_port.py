"""The web application and the port that it is on: `/metrics`, `/healthz`, `/readyz`, and whatever routes it is given.

It is imported only where `--web` is set, for aiohttp takes half a second to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import structlog
from aiohttp import web

from grader.config import web_address
from grader.errors import SettingsInvalid
from grader.peers import PeerCount, PeerLimits, network_of

# A connection over a limit is closed at once, unread.

HEADER_S = 10.0  # from the connection, or the answer before, to the end of a request's header


class Connections:
    """Wraps a protocol factory, as `asyncio.loop.create_server` takes one."""

    def __init__(self, limits: PeerLimits) -> None:
        self.count = PeerCount(limits)

    def limited(self, make: Callable[[], asyncio.Protocol]) -> Callable[[], asyncio.Protocol]:
        """The factory of protocols that are made by make, for connections within the limits only."""
        return lambda: _Connection(self.count, make)


class _Connection(asyncio.Protocol):
    """Hands everything on to the protocol that make gives, once the connection is counted."""

    def __init__(self, count: PeerCount, make: Callable[[], asyncio.Protocol]) -> None:
        self._count, self._make = count, make
        self._address = ""
        self._inner: asyncio.Protocol | None = None  # None: not within the limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it, or close it."""
        peer = transport.get_extra_info("peername")
        self._address = network_of(peer[0]) if isinstance(peer, tuple) else "unix"
        if not self._count.enter(self._address):
            cast(asyncio.Transport, transport).abort()
            return
        self._inner = self._make()
        self._inner.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Count it no more."""
        if self._inner is not None:
            self._count.leave(self._address)
            self._inner.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Hand on."""
        if self._inner is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Hand on."""
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        """Hand on."""
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Hand on."""
        if self._inner is not None:
            self._inner.resume_writing()


log = structlog.get_logger()

STOP_GRACE_S = 2.0  # for pages that are being sent
LIMITS = PeerLimits(total=512, per_address=128)
SCRAPE_LIMIT_S = 10.0  # Prometheus gives up by then
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

Scrape = Callable[[], Awaitable[bytes]]
Unready = Callable[[], Awaitable[Sequence[str]]]  # why calls should go elsewhere; nothing where they should come


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
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=STOP_GRACE_S, keepalive_timeout=header_s)
    await runner.setup()
    listening: asyncio.Server | None = None
    try:
        listening, at = await _bind(runner, address, Connections(limits))
        log.info("web_serving", address=at)
        yield at
    finally:
        if listening is not None:
            listening.close()
        await runner.cleanup()


async def _bind(runner: web.AppRunner, address: str, connections: Connections) -> tuple[asyncio.Server, str]:
    host, port = web_address(address)
    assert runner.server is not None
    try:
        listening = await asyncio.get_running_loop().create_server(connections.limited(runner.server), host, port, backlog=128)
    except OSError as error:
        raise SettingsInvalid("web", f"can't listen on {address!r}: {error.strerror}; is another program there?") from None
    return listening, f"{f'[{host}]' if ':' in host else host}:{listening.sockets[0].getsockname()[1]}"


def _text(text: str, status: int) -> web.Response:
    return web.Response(text=f"{text}\n", status=status, headers=_HEADERS)
