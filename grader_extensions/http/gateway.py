"""Answers HTTP requests with the API's own methods, through the interceptor that gRPC calls go through: one place checks keys and sizes.

A request of a caller without a key is refused before its body is read. The cookies of pages are never looked at.
"""

from __future__ import annotations

import asyncio
import base64
import math
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextvars import copy_context
from types import SimpleNamespace
from typing import Any, NoReturn
from urllib.parse import quote

import grpc
from aiohttp import hdrs, web
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from grader.api.channels import CLIENT_HEADER
from grader.api.conversion import to_data, to_text
from grader.config import web_address
from grader.errors import CallRefused, SettingsInvalid
from grader.extensions import ServerContext
from grader.peers import PeerCount, PeerLimits, loopback, network_of
from grader.server.auth import PREFIX, REFLECTION
from grader.server.connections import web_limits
from grader.server.interceptors import status_for
from grader.server.request_limits import MESSAGE_BYTES, message_bytes
from grader.server.service import AT_ONCE_BYTES
from grader.v1 import grader_service_pb2, grader_service_pb2_grpc
from grader_extensions.http.rules import VARIABLE, HttpRule, invalid, rules_of
from grader_extensions.web.sessions import Transport, asked_from_here, transport
from grader_extensions.web.site import ARTIFACT_HEADERS

SERVICE = grader_service_pb2.DESCRIPTOR.services_by_name["GraderService"]
OPENAPI = "/v1/openapi.json"
BODY_S = 30.0  # for a body to come in
CALL_S = 60.0  # for an answer that is no stream
SEND_S = 30.0  # for a reader to take what is sent
FIRST_S = 0.5  # so long a stream may still be refused with a status; then it begins
HEARTBEAT_S = 15.0  # below what proxies wait for; it also finds out who has left
BODY_FACTOR = 2  # JSON may be longer than its message: line ends in sources are two bytes
BODY_LIMITS = PeerLimits(total=64, per_address=32)  # bodies that come in at once, but small ones
_HEADERS = {
    "Cache-Control": "no-store, no-transform",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "grader",
    "X-Content-Type-Options": "nosniff",
    "Vary": "Origin",
}
_PREFLIGHT = {
    "Access-Control-Allow-Headers": f"Authorization, Content-Type, Last-Event-ID, {CLIENT_HEADER}",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Max-Age": "600",
}
_CORS = {"Access-Control-Expose-Headers": "Repr-Digest, Retry-After, WWW-Authenticate"}
# The canonical mapping, of google/rpc/code.proto; 500 for all others.
_HTTP_STATUS = {
    **dict.fromkeys((code_pb2.INVALID_ARGUMENT, code_pb2.FAILED_PRECONDITION, code_pb2.OUT_OF_RANGE), 400),
    **{code_pb2.UNAUTHENTICATED: 401, code_pb2.PERMISSION_DENIED: 403, code_pb2.NOT_FOUND: 404, code_pb2.ALREADY_EXISTS: 409},
    **{code_pb2.RESOURCE_EXHAUSTED: 429, code_pb2.UNIMPLEMENTED: 501, code_pb2.UNAVAILABLE: 503, code_pb2.DEADLINE_EXCEEDED: 504},
}
_CODES = {403: "PERMISSION_DENIED", 404: "NOT_FOUND", 405: "UNIMPLEMENTED", 429: "RESOURCE_EXHAUSTED", 504: "DEADLINE_EXCEEDED"}

Messages = AsyncGenerator[Any, None]


class HttpRefused(CallRefused):
    """A request that is no call, or may not be one from where it comes. status: HTTP's."""

    reason, code = "HTTP_REQUEST_REFUSED", "INVALID_ARGUMENT"
    status: int
    detail: str

    def __post_init__(self) -> None:
        self.code = _CODES.get(self.status, self.code)


class HttpCall:
    """A call's context: those parts of gRPC's that the interceptor and the methods use. status: why it was refused. response: one that
    has begun."""

    def __init__(self, request: web.Request) -> None:
        self.request, self.status = request, status_pb2.Status()
        self.response: web.StreamResponse | None = None

    def invocation_metadata(self) -> list[tuple[str, str]]:
        """Return the headers that are metadata of gRPC, too, also where one came twice."""
        names = (hdrs.AUTHORIZATION, CLIENT_HEADER)
        return [(name.lower(), value) for name in names for value in self.request.headers.getall(name, [])]

    def peer(self) -> str:
        """Return the connection's other end, as gRPC writes it."""
        host, port = self.request.get_extra_info("peername", ("", 0))[:2]
        return f"ipv6:%5B{host}%5D:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def code(self) -> grpc.StatusCode:
        """Return the code that it was refused with."""
        return grpc.StatusCode[code_pb2.Code.Name(self.status.code)]

    async def abort_with_status(self, status: Any) -> NoReturn:
        """End the call."""
        [(_, packed)] = status.trailing_metadata
        self.status.ParseFromString(packed)
        raise grpc.aio.AbortError


class _Handlers:
    """Takes the place of a gRPC server, for generated code to register the methods with."""

    def add_generic_rpc_handlers(self, handlers: object) -> None:
        pass

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        self.by_name = handlers


def routes_of(server: ServerContext) -> list[web.RouteDef]:
    """Return the one route below /v1/."""

    async def continue_later(request: web.Request) -> None:  # when key and length are right
        pass

    return [web.route("*", "/v1/{path:.*}", HttpGateway(server).handle, expect_handler=continue_later)]


class HttpGateway:
    """Used on one event loop only."""

    def __init__(self, server: ServerContext) -> None:
        settings, handlers, limits = server.settings, _Handlers(), web_limits(server.settings)
        grader_service_pb2_grpc.add_GraderServiceServicer_to_server(server.service, handlers)  # type: ignore[no-untyped-call]  # generated
        self._handlers, self._interceptor, self._gate = handlers.by_name, server.interceptor, server.gate
        self._rules = list(rules_of(SERVICE))
        self._local = loopback(f"{web_address(settings.web or '0')[0]}:0")
        self._origins = settings.http_allow_origin
        if "*" in self._origins and self._gate is None:
            text = "without keys, '*' would let every site that a user of this host visits submit here; name the sites, or pass --auth keys"
            raise SettingsInvalid("http_allow_origin", text)
        # Next to the streams of pages, some connections are left for metrics, health and pages, from every address.
        self._streams = PeerCount(PeerLimits(total=max(limits.total * 5 // 8, 1), per_address=max(limits.per_address * 3 // 4, 1)))
        self._bodies = PeerCount(BODY_LIMITS)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        headers, call = dict(_HEADERS), HttpCall(request)
        try:
            headers |= self._check_site(request)
            if request.method == hdrs.METH_OPTIONS and hdrs.ACCESS_CONTROL_ALLOW_ORIGIN in headers:
                return web.Response(status=204, headers=headers | _PREFLIGHT)
            self._check_caller(call)
            if request.rel_url.raw_path != OPENAPI:
                return await self._answer(call, headers)
            if self._gate is not None:
                await self._gate.admit(REFLECTION, call.invocation_metadata())
            text = to_text(document(self._rules, keys=self._gate is not None))
            return web.Response(text=text, content_type="application/json", headers=headers)
        except grpc.aio.AbortError:
            return _failure(call.status, headers)
        except Exception as error:  # noqa: BLE001  # every one is answered, and logged where it is ours
            return _failure(status_for(error, request.path), headers, error.status if isinstance(error, HttpRefused) else 0)

    def _check_site(self, request: web.Request) -> dict[str, str]:
        """Return headers for a script of another site; HttpRefused where it is of one that may not call."""
        for name in (hdrs.HOST, hdrs.ORIGIN, hdrs.CONTENT_TYPE, hdrs.LAST_EVENT_ID):
            if len(request.headers.getall(name, [])) > 1:
                raise HttpRefused(400, f"the header {name} is there more than once; send it once")
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and ("*" in self._origins or origin in self._origins):
            return {**_CORS, hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin}
        if origin is not None and origin.partition("://")[2] != request.host:
            text = f"scripts of {origin[:200]!r} may not call this server; its operator can allow them with --http-allow-origin"
            raise HttpRefused(403, text)
        return {}

    def _check_caller(self, call: HttpCall) -> None:
        """HttpRefused where a server without keys is called from elsewhere, or others could read a key on its way."""
        request = call.request
        if self._gate is not None and transport(request) is Transport.PLAIN:
            raise HttpRefused(403, "keys travel over TLS, or on the server's own host, only; call it by https://")
        here = self._local and asked_from_here(request.host, request.headers) and loopback(f"{request.remote}:0")
        if self._gate is None and not here:
            raise HttpRefused(403, "this server requires no keys, so only programs of its own host may call it, at 127.0.0.1 or localhost")
        if not all(value.isascii() for _, value in call.invocation_metadata()):
            raise HttpRefused(400, "a header has other characters than ASCII; send the key as it was printed")

    async def _answer(self, call: HttpCall, headers: Mapping[str, str]) -> web.StreamResponse:
        rule, fields = self._rule(call.request)

        async def find(_: Any) -> Any:
            return self._handlers[rule.method.name]

        details: Any = SimpleNamespace(method=PREFIX + rule.method.name, invocation_metadata=call.invocation_metadata())
        handler: Any = await self._interceptor.intercept_service(find, details)
        if handler.stream_stream is not None:  # so the interceptor refuses a call whose request is not to be taken
            await handler.stream_stream(None, call)
        body = await self._body(call.request, BODY_FACTOR * message_bytes(rule.method.name))
        message = await asyncio.to_thread(rule.message, fields, call.request.query, body)  # a large body takes a while
        if last_event := call.request.headers.get(hdrs.LAST_EVENT_ID):
            _resume(message, last_event)
        readable = handler.request_deserializer(message.SerializeToString())
        if rule.method.server_streaming:
            return await self._stream(call, rule, handler.unary_stream(readable, call), headers)
        try:
            async with asyncio.timeout(CALL_S):
                answer = await handler.unary_unary(readable, call)
        except TimeoutError:
            raise HttpRefused(504, f"there was no answer within {CALL_S:g} s; try again later") from None
        return web.Response(text=await _json(answer), content_type="application/json", headers=headers)

    def _rule(self, request: web.Request) -> tuple[HttpRule, dict[str, str]]:
        path = request.rel_url.raw_path
        matches = {rule.verb: (rule, fields) for rule in self._rules if (fields := rule.path_fields(path)) is not None}
        if request.method in matches:
            return matches[request.method]
        if matches:
            raise HttpRefused(405, f"{request.method} is not for this path; send {' or '.join(matches)}")
        raise HttpRefused(404, f"there is no path {path[:200]!r}; {OPENAPI} has all")

    async def _body(self, request: web.Request, limit: int) -> bytes:
        """Read the body. HttpRefused, before any of it, where it is too long or no JSON."""
        body, too_long = bytearray(), HttpRefused(413, f"the body is too long; this method takes at most {limit} bytes of JSON")
        if not request.body_exists:
            return b""
        if request.content_type != "application/json" or hdrs.CONTENT_ENCODING in request.headers:
            raise HttpRefused(415, "the body is not JSON; send Content-Type: application/json, without a Content-Encoding")
        if (request.content_length or 0) > limit:
            raise too_long
        with self._bodies.entered(network_of(request.remote or "")) as inside:
            if not inside and not 0 < (request.content_length or 0) <= MESSAGE_BYTES:
                raise HttpRefused(429, "too many requests with a large body come in at once; send fewer at a time")
            if hdrs.EXPECT in request.headers:
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0  # as aiohttp does it
            try:
                async with asyncio.timeout(BODY_S):
                    async for piece in request.content.iter_any():
                        body += piece
                        if len(body) > limit:
                            raise too_long
            except TimeoutError:
                raise HttpRefused(408, f"the body did not come within {BODY_S:g} s") from None
            except (web.RequestPayloadError, ConnectionError):
                raise HttpRefused(400, "the body ended before it was complete, or its chunks are not as HTTP has them") from None
        return bytes(body)

    async def _stream(self, call: HttpCall, rule: HttpRule, messages: Messages, headers: Mapping[str, str]) -> web.StreamResponse:
        is_file = "data" in rule.method.output_type.fields_by_name
        with self._streams.entered(network_of(call.request.remote or "")) as inside:
            if not inside:
                raise HttpRefused(429, "too many streams are open; close some, or watch more submissions in one")
            try:
                return await (_send_file if is_file else _send_events)(call, messages, headers)
            except (ConnectionError, TimeoutError, grpc.aio.AbortError):
                if call.response is None or call.request.transport is None:
                    raise
                call.request.transport.abort()  # the reader takes nothing: what else is sent would look like a part of the stream
                return call.response
            finally:
                await messages.aclose()


async def _send_file(call: HttpCall, messages: Messages, headers: Mapping[str, str]) -> web.StreamResponse:
    """Send pieces of a file as its bytes."""
    first = await anext(messages)
    name = quote(call.request.path.rpartition("/")[2].removesuffix(":download"), safe="")
    facts = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Length": str(first.size_bytes),
        "Repr-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(first.digest)).decode()}:",
    }
    response = web.StreamResponse(headers={**headers, **ARTIFACT_HEADERS, **facts})
    await _send(call, response, first.data)
    async for piece in messages:
        await _send(call, response, piece.data)
    return response


async def _send_events(call: HttpCall, messages: Messages, headers: Mapping[str, str]) -> web.StreamResponse:
    """Send messages as server-sent events, something where there is none for a while, and how it ended. What goes wrong before the first
    of them is raised."""

    async def next_message() -> Any:
        try:
            return await anext(messages, None)
        except grpc.aio.AbortError:
            if call.response is None:
                raise
            return None

    context = copy_context()  # of all its tasks, for the first message sets the caller
    response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    following = asyncio.create_task(next_message(), context=context)
    try:
        while True:
            await asyncio.wait([following], timeout=HEARTBEAT_S if call.response else FIRST_S)
            if not following.done():
                await _send(call, response, b": still here\n\n")
            elif (message := following.result()) is None:
                await _send(call, response, f"event: end\ndata: {await _json(call.status)}\n\n".encode())
                return response
            else:
                await _send(call, response, f"id: {_event_id(message)}\ndata: {await _json(message)}\n\n".encode())
                following = asyncio.create_task(next_message(), context=context)
    finally:
        following.cancel()
        await asyncio.wait([following])


async def _send(call: HttpCall, response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(SEND_S):
        if call.response is None:
            await response.prepare(call.request)
            call.response = response
        await response.write(data)


def _event_id(message: Any) -> str:
    """How far a reader is: what `Last-Event-ID` says when it comes again."""
    return str(message.sequence) if hasattr(message, "sequence") else f"{message.submission.name}@{message.revision}"


def _resume(message: Any, last_event: str) -> None:
    """Ask only for what came after an event."""
    name, _, number = last_event.rpartition("@")
    if not (
        number.isascii() and number.isdecimal() and len(number) < 19 and hasattr(message, "seen_revisions" if name else "after_sequence")
    ):
        raise invalid("Last-Event-ID", "is not the id of an event of this stream; send it back as it came")
    if name:
        message.seen_revisions[name] = int(number)
    else:
        message.after_sequence = int(number)


async def _json(message: Message) -> str:
    """A message on one line, as `grader-cli --json` writes it; on a thread where that takes long."""
    if message.ByteSize() > AT_ONCE_BYTES:
        return await asyncio.to_thread(lambda: to_text(to_data(message)))
    return to_text(to_data(message))


def _failure(status: status_pb2.Status, headers: Mapping[str, str], http_status: int = 0) -> web.Response:
    """The answer to a call that failed."""
    headers, retry = dict(headers), error_details_pb2.RetryInfo()
    if status.code == code_pb2.UNAUTHENTICATED:
        headers["WWW-Authenticate"] = "Bearer"
    if any(detail.Unpack(retry) for detail in status.details):
        headers["Retry-After"] = str(math.ceil(retry.retry_delay.ToNanoseconds() / 1e9))
    http_status = http_status or _HTTP_STATUS.get(status.code, 500)
    return web.Response(status=http_status, text=to_text(to_data(status)), content_type="application/json", headers=headers)


# The document that describes all of it, in OpenAPI 3.1, made from descriptors.

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_SCALARS: dict[int, Schema] = {
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_STRING: _TEXT,
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer"},
    FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"anyOf": [{"type": "number"}, {"type": "string", "enum": ["NaN", "Infinity", "-Infinity"]}]},
}
_WELL_KNOWN: dict[str, Schema] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": r"^-?[0-9]+(\.[0-9]{1,9})?s$"},
    "google.protobuf.Any": {"type": "object", "properties": {"@type": _TEXT}},
}


def document(rules: Sequence[HttpRule], *, keys: bool) -> Schema:
    """Return the document. keys: whether callers need one."""
    schemas, paths = dict[str, Schema](), defaultdict[str, Schema](dict)
    for rule in rules:
        path = re.sub(r"(\w+)s/\*", r"\1s/{\1}", VARIABLE.sub(r"\2", rule.path))  # each star by its collection's name
        fields = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in re.findall(r"{(\w+)}", path)]
        kind, answer = "application/json", _message(rule.method.output_type, schemas)
        if rule.method.server_streaming and "data" in rule.method.output_type.fields_by_name:
            kind, answer = "application/octet-stream", {"type": "string", "format": "binary"}
        elif rule.method.server_streaming:  # the data of each event
            kind, answer = "text/event-stream", {"type": "string", "contentMediaType": "application/json", "contentSchema": answer}
        refusal = _content("application/json", _message(status_pb2.Status.DESCRIPTOR, schemas))
        responses = {"200": {"description": "Answered.", **_content(kind, answer)}, "default": {"description": "Refused.", **refusal}}
        operation = {"operationId": f"{rule.method.name}_{rule.verb}", "parameters": fields, "responses": responses}
        if rule.has_body:
            operation["requestBody"] = _content("application/json", _message(rule.method.input_type, schemas))
        else:
            queried = [field for field in rule.method.input_type.fields if f"{{{field.name}=" not in rule.path and not field.message_type]
            fields += [{"name": field.name, "in": "query", "schema": _field(field, schemas)} for field in queried]
        paths[path][rule.verb.lower()] = operation
    secured = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}} if keys else {}
    info = {"title": "grader", "version": "v1", "description": "Grades GPU kernels. docs/reference/api.md says what each field means."}
    security = [{"key": list[str]()}] if keys else []
    return {"openapi": "3.1.0", "info": info, "paths": paths, "components": {"schemas": schemas, **secured}, "security": security}


def _content(kind: str, schema: Schema) -> Schema:
    return {"content": {kind: {"schema": schema}}}


def _message(message: Descriptor, schemas: dict[str, Schema]) -> Schema:
    """Refer to a message's schema, which is put into schemas."""
    if message.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[message.full_name]
    name = message.full_name.removeprefix("grader.v1.")
    if name not in schemas:
        schemas[name] = {"type": "object"}
        schemas[name]["properties"] = {field.name: _field(field, schemas) for field in message.fields}
    return {"$ref": f"#/components/schemas/{name}"}


def _field(field: FieldDescriptor, schemas: dict[str, Schema]) -> Schema:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _field(field.message_type.fields_by_name["value"], schemas)}
    if field.enum_type is not None:
        schema: Schema = {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    else:
        schema = _SCALARS[field.cpp_type] if field.message_type is None else _message(field.message_type, schemas)
    return {"type": "array", "items": schema} if field.is_repeated else schema
