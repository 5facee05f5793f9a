"""Turns our exceptions into gRPC statuses, for every method of the API.  The only place where the two meet on the server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc_status import rpc_status

from grader.errors import CallRefused, FieldViolation, InvalidRequest
from grader.statuses import to_status

log = structlog.get_logger()

_API_PREFIX = "/grader.v1."
_UNREADABLE = FieldViolation(
    "request", "is not a message of this method; every text in it must be UTF-8, so save sources as UTF-8 before sending them"
)


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """A request that is no message: kept until somebody can answer it."""

    detail: str


class ErrorInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Wraps both kinds of handler that the API has."""

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Wrap the method's handler."""
        handler, method = await continuation(handler_call_details), handler_call_details.method
        if handler is None or not method.startswith(_API_PREFIX):
            return handler
        reader = _reader(handler.request_deserializer)
        if handler.response_streaming:
            stream = _stream(handler.unary_stream, method)
            return grpc.unary_stream_rpc_method_handler(stream, reader, handler.response_serializer)
        return grpc.unary_unary_rpc_method_handler(_unary(handler.unary_unary, method), reader, handler.response_serializer)


def _reader(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except DecodeError as error:
            return _Unreadable(str(error))

    return read


def _unary(method: Callable[[Any, Any], Awaitable[Any]], name: str) -> Callable[[Any, Any], Awaitable[Any]]:
    async def call(request: Any, context: Any) -> Any:
        try:
            return await method(_readable(request), context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001  # every one is answered, and logged where it is ours
            await _abort(context, name, error)

    return call


def _stream(method: Callable[[Any, Any], AsyncIterator[Any]], name: str) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        try:
            async for message in method(_readable(request), context):
                yield message
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001  # as above
            await _abort(context, name, error)

    return call


def _readable(request: Any) -> Any:
    if isinstance(request, _Unreadable):
        raise InvalidRequest([_UNREADABLE])
    return request


async def _abort(context: Any, method: str, error: Exception) -> NoReturn:
    request_id = uuid.uuid4().hex
    if isinstance(error, CallRefused):
        log.info("call_refused", method=method, reason=error.reason)
    else:
        log.error("call_failed", method=method, request_id=request_id, exc_info=error)
    await context.abort_with_status(rpc_status.to_status(to_status(error, request_id)))
    raise AssertionError("abort_with_status always raises")
