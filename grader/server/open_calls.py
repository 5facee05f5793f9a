"""Health for callers without a key: how many such calls may be open, and how much of a request is read.

gRPC limits the size of a message for all methods together, and a submission may be large. So a health request is read only when its call
is within the limits, few are read at a time, one of each address, and no name of a service is kept that this server does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import grpc
from grpc_health.v1 import health, health_pb2

from grader.peers import PeerCount, PeerLimits, address_of_peer
from grader.server.resources import trim_memory

PREFIX = "/grpc.health.v1.Health/"
NAME_LIMIT_BYTES = 256
READ_S = 2.0  # for one request to come in
READERS = 4  # requests that are read at once; each may take as much memory as the largest message

TOO_LONG_S = 0.25  # so long an address that sent too long a request waits until its next one is read

_TOO_LONG = object()


class KnownHealth(health.aio.HealthServicer):  # type: ignore[misc, name-defined]  # the stubs do not know it
    """Health of the services that this server has: to watch another one ends with NOT_FOUND, and does not wait for it to come."""

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:
        """The status, and each change of it."""
        await self.Check(request, context)  # aborts with NOT_FOUND
        await super().Watch(request, context)


class OpenCalls:
    """Wraps the handlers of health."""

    def __init__(self, limits: PeerLimits, *, read_s: float = READ_S, release: Callable[[], None] = trim_memory) -> None:
        self._count, self._read_s, self._release = PeerCount(limits), read_s, release
        self._releasing: asyncio.Task[None] | None = None
        self._readers = asyncio.Semaphore(READERS)
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}  # of each address that has a call: its lock, and how many wait for it

    def limited(self, handler: Any) -> Any:
        """The same handler within the limits. It is one of a stream, for only those read their request themselves."""

        async def call(_: Any, context: Any) -> None:
            address = address_of_peer(context.peer())
            with self._count.entered(address) as inside:
                if not inside:
                    self._release_soon()
                    await _refuse(
                        context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many health calls are open; close some, or come again later"
                    )
                request = await self._read(address, context)
                if handler.response_streaming:
                    await handler.unary_stream(request, context)
                else:
                    await context.write(await handler.unary_unary(request, context))

        return grpc.stream_stream_rpc_method_handler(call, _short(handler.request_deserializer), handler.response_serializer)

    async def _read(self, address: str, context: Any) -> Any:
        """The request; the call is aborted where it is too long, or does not come."""
        try:
            async with self._turn(address):
                async with self._readers, asyncio.timeout(self._read_s):
                    request = await context.read()
                if request is _TOO_LONG:
                    self._release_soon()
                    await asyncio.sleep(TOO_LONG_S)
        except TimeoutError:
            self._release_soon()
            await _refuse(context, grpc.StatusCode.DEADLINE_EXCEEDED, f"the request did not come within {self._read_s:g} s")
        if request is grpc.aio.EOF:  # type: ignore[attr-defined]  # not in the stubs
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "the call ended without a request")
        if request is _TOO_LONG:
            text = f"the name of a service has at most {NAME_LIMIT_BYTES} bytes"
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, text)
        return request

    def _release_soon(self) -> None:
        """Have the memory of refused requests given back, once for all that come meanwhile."""

        async def release() -> None:
            await asyncio.sleep(TOO_LONG_S / 2)
            await asyncio.to_thread(self._release)

        if self._releasing is None or self._releasing.done():
            self._releasing = asyncio.create_task(release())

    @asynccontextmanager
    async def _turn(self, address: str) -> AsyncIterator[None]:
        """One at a time of each address, so that one that sends slowly delays its own calls only."""
        lock, count = self._turns.get(address, (asyncio.Lock(), 0))
        self._turns[address] = (lock, count + 1)
        try:
            async with lock:
                yield
        finally:
            lock, count = self._turns[address]
            if count == 1:
                del self._turns[address]
            else:
                self._turns[address] = (lock, count - 1)


def _short(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Read no more of a request than a name may have."""

    def read(data: bytes) -> Any:
        if len(data) > NAME_LIMIT_BYTES + 3:  # the field's tag and its length
            return _TOO_LONG
        request = deserialize(data)
        return _TOO_LONG if len(request.service.encode()) > NAME_LIMIT_BYTES else request

    return read


async def _refuse(context: Any, code: grpc.StatusCode, text: str) -> NoReturn:
    await context.abort(code, text)
    raise AssertionError("abort always raises")
