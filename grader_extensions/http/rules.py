"""Rules of `google.api.http` in the proto files: which method a request means, and its message.  Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from google.api import annotations_pb2
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from multidict import MultiMapping

from grader.errors import FieldViolation, InvalidRequest

VARIABLE = re.compile(r"\{(\w+)=([^}]+)\}")
_SEGMENT = r"(?:[A-Za-z0-9._~!$&'()+,;=@-]|%[0-9A-Fa-f]{2})+"  # a colon begins a verb
_WRONG_FIELD = re.compile(r"Failed to parse (\w+) field")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRule:
    """A way to call a method. has_body: its fields are a JSON object in the body; else they are in the query."""

    verb: str
    path: str
    has_body: bool
    method: MethodDescriptor

    def path_fields(self, raw_path: str) -> dict[str, str] | None:
        """Return the fields in a path, as it was sent; None where it is another path. A segment never holds a slash, nor leads upwards."""
        match = _pattern(self.path).fullmatch(raw_path)
        fields = match.groupdict() if match else {}
        segments = [unquote(segment) for value in fields.values() for segment in value.split("/")]
        if match is None or any(
            segment in (".", "..") or not segment.isprintable() or set(segment) & {"/", "\ufffd"} for segment in segments
        ):
            return None
        return {name: unquote(value) for name, value in fields.items()}

    def message(self, fields: Mapping[str, str], query: MultiMapping[str], body: bytes) -> Message:
        """Make the request of what was sent. InvalidRequest names the field, a JSON one by its path."""
        message = GetMessageClass(self.method.input_type)()
        if query if self.has_body else body:
            raise invalid("request", f"send the fields in {'the body, as JSON' if self.has_body else 'the query'}")
        if body.strip()[:1] not in (b"", b"{"):  # protobuf takes an empty list for an empty message
            raise invalid("request", "is not a JSON object")
        try:
            if self.has_body:
                json_format.Parse(body or b"{}", message)
            else:
                json_format.ParseDict({name: _query_value(message, name, query.getall(name)) for name in query}, message)
        except (json_format.ParseError, ValueError, RecursionError) as error:
            raise invalid(*_explained(str(error))) from None
        for name, value in fields.items():
            if getattr(message, name) not in ("", value):
                raise invalid(name, f"differs from the path, which says {value!r}; leave it out")
            setattr(message, name, value)
        return message


def rules_of(service: ServiceDescriptor) -> Iterator[HttpRule]:
    """Yield the rules of a service's methods."""
    for method in service.methods:
        options = method.GetOptions().Extensions[annotations_pb2.http]
        for binding in (options, *options.additional_bindings):
            verb = str(binding.WhichOneof("pattern"))
            yield HttpRule(verb=verb.upper(), path=getattr(binding, verb), has_body=binding.body == "*", method=method)


@functools.cache
def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(VARIABLE.sub(lambda variable: f"(?P<{variable[1]}>{variable[2].replace('*', _SEGMENT)})", path))


def _query_value(message: Message, name: str, values: list[str]) -> Any:
    """Values of a field as JSON has them. Strings of numbers and enums are taken there, too."""
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None or field.message_type is not None or field.is_repeated:
        return values
    if len(values) > 1:
        raise invalid(name, f"is there {len(values)} times; send it once")
    return {"true": True, "false": False}.get(values[0], values[0]) if field.type == FieldDescriptor.TYPE_BOOL else values[0]


def _explained(text: str) -> tuple[str, str]:
    """The field that JSON is wrong at, and how. text: protobuf's words, and the client's in them, so that no pattern may go back in it."""
    name, is_unknown, rest = text.partition(' has no field named "')[2].partition('" at "')
    if is_unknown:
        path = rest.partition('"')[0].partition(".")[2]  # behind the message's name
        return ".".join(filter(None, (path, name)))[:300], "there is no such field; docs/reference/api.md has all"
    reason = text.rpartition(" field: ")[2].partition("\n")[0].rstrip(".")
    return ".".join(_WRONG_FIELD.findall(text))[:300] or "request", f"can't be read: {reason[:300]}; docs/api.md says how JSON is written"


def invalid(field: str, description: str) -> InvalidRequest:
    """Refuse one field of a request."""
    return InvalidRequest([FieldViolation(field, description)])
