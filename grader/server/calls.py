"""Tells an observer of the API's calls: method, status and duration.  The outermost interceptor, so that it sees what others refuse."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from grader.observability.observer import Observer
from grader.v1 import grader_service_pb2

_SERVICE = grader_service_pb2.DESCRIPTOR.services_by_name["GraderService"]
_METHODS = {f"/{_SERVICE.full_name}/{method.name}": method.name for method in _SERVICE.methods}


class CallsInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in the stubs only
    """Wraps both kinds of handler that the API has; health and reflection are not counted."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]], handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Wrap the method's handler."""
        handler, method = await continuation(handler_call_details), _METHODS.get(handler_call_details.method)
        if handler is None or method is None:
            return handler
        reader, writer = handler.request_deserializer, handler.response_serializer
        if handler.request_streaming:  # a call that was refused before its request was taken
            return grpc.stream_stream_rpc_method_handler(self._unary(handler.stream_stream, method), reader, writer)
        if handler.response_streaming:
            return grpc.unary_stream_rpc_method_handler(self._stream(handler.unary_stream, method), reader, writer)
        return grpc.unary_unary_rpc_method_handler(self._unary(handler.unary_unary, method), reader, writer)

    def _unary(self, answer: Callable[[Any, Any], Awaitable[Any]], method: str) -> Callable[[Any, Any], Awaitable[Any]]:
        async def call(request: Any, context: Any) -> Any:
            with self._counted(method, context):
                return await answer(request, context)

        return call

    def _stream(self, answer: Callable[[Any, Any], AsyncIterator[Any]], method: str) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def call(request: Any, context: Any) -> AsyncIterator[Any]:
            with self._counted(method, context):
                async for message in answer(request, context):
                    yield message

        return call

    @contextmanager
    def _counted(self, method: str, context: Any) -> Iterator[None]:
        begun, code = time.monotonic(), "UNKNOWN"
        self._observer.call_began(method)
        try:
            yield
            code = "OK"
        except grpc.aio.AbortError:
            statement = context.code()
            code = statement.name if isinstance(statement, grpc.StatusCode) else "UNKNOWN"
            raise
        except (asyncio.CancelledError, GeneratorExit):  # the caller went away
            code = "CANCELLED"
            raise
        finally:
            self._observer.call_ended(method, code, time.monotonic() - begun)
