"""How many connections the web port has: in all, and from one address.  What is over a limit is closed at once, unread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from grader.peers import PeerCount, PeerLimits, network_of

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
        found = transport.get_extra_info("peername")
        self._address = network_of(found[0]) if isinstance(found, tuple) else "unix"
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
