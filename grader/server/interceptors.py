"""Interceptors of the API: the caller's key, limits of health calls, gRPC statuses of our exceptions, and metrics of calls.

The only place where exceptions and statuses meet on the server.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import grpc
import structlog
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from grpc_health.v1 import health, health_pb2
from grpc_status import rpc_status

from grader.api.channels import CLIENT_HEADER
from grader.api.statuses import to_status
from grader.errors import CallRefused, FieldViolation, InvalidRequest
from grader.model import Caller, Scope
from grader.observability.observer import Observer
from grader.peers import PeerCount, PeerLimits, address_of_peer
from grader.server.auth import METHODS, Authenticator
from grader.server.connections import trim_memory
from grader.server.request_limits import check_fields, check_size

# Each call is answered in a task of its own, and so has a value of its own. Without keys nobody sets it: everything is allowed.
_current = ContextVar("caller", default=Caller())  # noqa: B039  # frozen


def current_caller() -> Caller:
    """Return who calls; anybody who can reach the server, if it requires no keys."""
    return _current.get()


def enter_call(caller: Caller) -> None:
    """Answer the rest of this call as caller."""
    _current.set(caller)


# Health calls need no key. gRPC limits the size of a message for all methods together, and a submission may be large. So a health request
# is read only when its call is within the limits, few are read at a time, one of each address, and no name of a service is kept that this
# server does not have.

HEALTH_PREFIX = "/grpc.health.v1.Health/"
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
        # Of each address that has a call: one request of it is read at a time, so that one that sends slowly delays its own calls only.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def limited(self, handler: Any) -> Any:
        """The same handler within the limits. It is one of a stream, for only those read their request themselves."""

        async def call(_: Any, context: Any) -> None:
            address = address_of_peer(context.peer())
            with self._count.entered(address) as inside:
                if not inside:
                    self._release_soon()
                    text = "too many health calls are open; close some, or come again later"
                    await _refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, text)
                request = await self._read(address, context)
                if handler.response_streaming:
                    await handler.unary_stream(request, context)
                else:
                    await context.write(await handler.unary_unary(request, context))

        return grpc.stream_stream_rpc_method_handler(call, _short(handler.request_deserializer), handler.response_serializer)

    async def _read(self, address: str, context: Any) -> Any:
        """The request; the call is aborted where it is too long, or does not come."""
        try:
            async with self._turns.setdefault(address, asyncio.Lock()):
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
            await _refuse(context, grpc.StatusCode.INVALID_ARGUMENT, f"the name of a service has at most {NAME_LIMIT_BYTES} bytes")
        return request

    def _release_soon(self) -> None:
        """Have the memory of refused requests given back, once for all that come meanwhile."""

        async def release() -> None:
            await asyncio.sleep(TOO_LONG_S / 2)
            await asyncio.to_thread(self._release)

        if self._releasing is None or self._releasing.done():
            self._releasing = asyncio.create_task(release())


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


log = structlog.get_logger()

_API_PREFIX = "/grader.v1."
_UNREADABLE = FieldViolation(
    "request", "is not a message of this method; every text in it must be UTF-8, so save sources as UTF-8 before sending them"
)
_END = object()
Answer = Callable[[Any, Any], Awaitable[Any]]  # to a request, in its context
Stream = Callable[[Any, Any], AsyncIterator[Any]]


class CallInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Wraps both kinds of handler that the API has. gate None: anybody may call, else callers with a key, which is looked at before the
    request is taken. Health is open to all, within the limits of open_calls; reflection is as every other method, but is not counted."""

    def __init__(self, gate: Authenticator | None, open_calls: OpenCalls, observer: Observer) -> None:
        self._gate, self._open_calls, self._observer = gate, open_calls, observer
        self._secret = secrets.token_bytes(32)

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Wrap the method's handler."""
        handler, method = await continuation(handler_call_details), handler_call_details.method
        if handler is None:
            return handler
        if method.startswith(HEALTH_PREFIX):
            return self._open_calls.limited(handler)
        caller = None
        if self._gate is not None:
            try:
                caller = await self._gate.admit(method, handler_call_details.invocation_metadata or ())
            except Exception as error:  # noqa: BLE001  # answered, as all are
                return grpc.stream_stream_rpc_method_handler(self._refusal(method, error))
        if not method.startswith(_API_PREFIX):
            return handler
        reader = _reader(handler.request_deserializer, method)
        if handler.response_streaming:
            stream = self._stream(handler.unary_stream, method, caller)
            return grpc.unary_stream_rpc_method_handler(stream, reader, handler.response_serializer)
        return grpc.unary_unary_rpc_method_handler(self._unary(handler.unary_unary, method, caller), reader, handler.response_serializer)

    def _refusal(self, method: str, error: Exception) -> Answer:
        """Answer without taking the request, as only a stream's handler can: strangers' requests would fill the memory."""

        async def call(_: Any, context: Any) -> None:
            async with self._answering(method, context):
                raise error

        return call

    def _unary(self, answer: Answer, method: str, caller: Caller | None) -> Answer:
        async def call(request: Any, context: Any) -> Any:
            async with self._answering(method, context, caller):
                return await answer(_readable(request), context)

        return call

    def _stream(self, answer: Stream, method: str, caller: Caller | None) -> Stream:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            async with self._answering(method, context, caller):
                messages = answer(_readable(request), context)
                while (message := await self._next(messages, caller)) is not _END:
                    yield message

        return call

    async def _next(self, messages: AsyncIterator[Any], caller: Caller | None) -> Any:
        """The next message, _END after the last; Unauthenticated where the caller's key ends before it comes."""
        if self._gate is None or caller is None:
            return await anext(messages, _END)
        try:
            async with asyncio.TaskGroup() as group:
                holding = group.create_task(self._gate.hold(caller))
                message = await anext(messages, _END)
                holding.cancel()
        except ExceptionGroup as failed:  # one of the two, out of the group, as it was
            raise failed.exceptions[0] from None
        return message

    @asynccontextmanager
    async def _answering(self, method: str, context: Any, caller: Caller | None = None) -> AsyncIterator[None]:
        """Count a call, do it as its caller's, in its log too, and answer with a status where it raises."""
        name, begun, code = method.rpartition("/")[2], time.monotonic(), "UNKNOWN"
        counted = method.startswith(_API_PREFIX)
        if counted:
            self._observer.call_began(name)
        if caller is not None:
            enter_call(caller)
            structlog.contextvars.bind_contextvars(user=caller.user, key=caller.key_id)
        elif self._gate is None and METHODS.get(name) is Scope.SUBMIT:
            enter_call(Caller(share=self._share(context)))
        try:
            try:
                yield
                code = "OK"
            except grpc.aio.AbortError:
                raise
            except Exception as error:  # noqa: BLE001  # every one is answered, and logged where it is ours
                await context.abort_with_status(rpc_status.to_status(status_for(error, method)))
        except grpc.aio.AbortError:
            statement = context.code()
            code = statement.name if isinstance(statement, grpc.StatusCode) else "UNKNOWN"
            raise
        except (asyncio.CancelledError, GeneratorExit):  # the caller went away
            code = "CANCELLED"
            raise
        finally:
            if counted:
                self._observer.call_ended(name, code, time.monotonic() - begun)

    def _share(self, context: Any) -> str:
        """The share of a client without a key: by the name it gave itself, else by its connection. No address can be read from it."""
        names = [value for name, value in context.invocation_metadata() or () if name == CLIENT_HEADER]
        text = str(names[0]) if names else context.peer()
        return f"client:{hashlib.blake2b(text.encode(), key=self._secret, digest_size=16).hexdigest()}"


def _reader(deserialize: Callable[[bytes], Any], method: str) -> Callable[[bytes], Any]:
    """Read a request. One that is too large or no message becomes the error, until somebody can answer it."""

    def read(data: bytes) -> Any:
        try:
            check_size(len(data), method)
            request = deserialize(data)
            check_fields(request)
        except DecodeError:
            return InvalidRequest([_UNREADABLE])
        except InvalidRequest as error:
            return error
        return request

    return read


def _readable(request: Any) -> Any:
    if isinstance(request, InvalidRequest):
        raise request
    return request


def status_for(error: Exception, method: str) -> status_pb2.Status:
    """The status that answers a call, or one request of a batch; what went wrong is logged."""
    request_id = uuid.uuid4().hex
    if isinstance(error, CallRefused):
        log.info("call_refused", method=method, reason=error.reason)
    else:
        log.error("call_failed", method=method, request_id=request_id, exc_info=error)
    return to_status(error, request_id)
