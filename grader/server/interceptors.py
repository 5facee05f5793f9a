"""Asks for the caller's key, where the server wants one, and turns our exceptions into gRPC statuses, for every method of the API.

The only place where exceptions and statuses meet on the server.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError
from google.rpc import status_pb2
from grpc_status import rpc_status

from grader.api.statuses import to_status
from grader.errors import CallRefused, FieldViolation, InvalidRequest
from grader.model import Caller
from grader.server.auth import Authenticator
from grader.server.caller import enter
from grader.server.open_calls import PREFIX as HEALTH_PREFIX
from grader.server.open_calls import OpenCalls
from grader.server.request_limits import check_fields, check_size

log = structlog.get_logger()

_API_PREFIX = "/grader.v1."
_UNREADABLE = FieldViolation(
    "request", "is not a message of this method; every text in it must be UTF-8, so save sources as UTF-8 before sending them"
)


_END = object()


@dataclass(frozen=True, slots=True)
class _Refused:
    """A request that is too large or no message: kept until somebody can answer it."""

    error: InvalidRequest


class ErrorInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Wraps both kinds of handler that the API has. gate None: anybody may call, else callers with a key, which is looked at before the
    request is taken. Health is open to all, within the limits of open_calls; reflection is as every other method."""

    def __init__(self, gate: Authenticator | None, open_calls: OpenCalls) -> None:
        self._gate, self._open_calls = gate, open_calls

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
            except Exception as error:  # noqa: BLE001  # answered, as below
                return grpc.stream_stream_rpc_method_handler(_refusal(method, error))
        if not method.startswith(_API_PREFIX):
            return handler
        reader = _reader(handler.request_deserializer, method)
        if handler.response_streaming:
            stream = _stream(handler.unary_stream, method, self._gate, caller)
            return grpc.unary_stream_rpc_method_handler(stream, reader, handler.response_serializer)
        return grpc.unary_unary_rpc_method_handler(_unary(handler.unary_unary, method, caller), reader, handler.response_serializer)


def _refusal(method: str, error: Exception) -> Callable[[Any, Any], Awaitable[None]]:
    """Answers without taking the request, as only a stream's handler can: strangers' requests would fill the memory."""

    async def call(_: Any, context: Any) -> None:
        await _abort(context, method, error)

    return call


def _reader(deserialize: Callable[[bytes], Any], method: str) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            check_size(len(data), method)
            request = deserialize(data)
            check_fields(request)
        except DecodeError:
            return _Refused(InvalidRequest([_UNREADABLE]))
        except InvalidRequest as error:
            return _Refused(error)
        return request

    return read


def _unary(method: Callable[[Any, Any], Awaitable[Any]], name: str, caller: Caller | None) -> Callable[[Any, Any], Awaitable[Any]]:
    async def call(request: Any, context: Any) -> Any:
        try:
            _enter(caller)
            return await method(_readable(request), context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001  # every one is answered, and logged where it is ours
            await _abort(context, name, error)

    return call


def _stream(
    method: Callable[[Any, Any], AsyncIterator[Any]], name: str, gate: Authenticator | None, caller: Caller | None
) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            _enter(caller)
            messages = method(_readable(request), context)
            while (message := await _next(messages, gate, caller)) is not _END:
                yield message
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001  # as above
            await _abort(context, name, error)

    return call


def _enter(caller: Caller | None) -> None:
    """From here on this call is the caller's, in its log too."""
    if caller is not None:
        enter(caller)
        structlog.contextvars.bind_contextvars(user=caller.user, key=caller.key_id)


async def _next(messages: AsyncIterator[Any], gate: Authenticator | None, caller: Caller | None) -> Any:
    """The next message, _END after the last; Unauthenticated where the caller's key ends before it comes."""
    if gate is None or caller is None:
        return await anext(messages, _END)
    try:
        async with asyncio.TaskGroup() as group:
            holding = group.create_task(gate.hold(caller))
            message = await anext(messages, _END)
            holding.cancel()
    except ExceptionGroup as failed:  # one of the two, out of the group, as it was
        raise failed.exceptions[0] from None
    return message


def _readable(request: Any) -> Any:
    if isinstance(request, _Refused):
        raise request.error
    return request


def status_for(error: Exception, method: str) -> status_pb2.Status:
    """The status that answers a call, or one request of a batch; what went wrong is logged."""
    request_id = uuid.uuid4().hex
    if isinstance(error, CallRefused):
        log.info("call_refused", method=method, reason=error.reason)
    else:
        log.error("call_failed", method=method, request_id=request_id, exc_info=error)
    return to_status(error, request_id)


async def _abort(context: Any, method: str, error: Exception) -> NoReturn:
    await context.abort_with_status(rpc_status.to_status(status_for(error, method)))
    raise AssertionError("abort_with_status always raises")
