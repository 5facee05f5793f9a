"""JSON Schema of messages as `stable_json` writes them.  Pure.

Draft 2020-12, by the rules of ProtoJSON: proto field names, fields without a value left out, 64-bit integers and times as strings.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_INTEGER, _TEXT = {"type": "integer"}, {"type": "string"}
_LONG = {"type": "string", "pattern": "^-?[0-9]+$"}
_FLOAT = {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]}
_SCALARS: dict[int, dict[str, Any]] = {
    FieldDescriptor.TYPE_DOUBLE: _FLOAT,
    FieldDescriptor.TYPE_FLOAT: _FLOAT,
    FieldDescriptor.TYPE_INT32: _INTEGER,
    FieldDescriptor.TYPE_UINT32: {"type": "integer", "minimum": 0},
    FieldDescriptor.TYPE_INT64: _LONG,
    FieldDescriptor.TYPE_UINT64: {"type": "string", "pattern": "^[0-9]+$"},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: _TEXT,
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
}
# Messages that ProtoJSON writes in a form of their own.
_WELL_KNOWN: dict[str, dict[str, Any]] = {
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.Duration": {"type": "string", "pattern": "^-?[0-9]+(\\.[0-9]+)?s$"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Any": {"type": "object", "properties": {"@type": _TEXT}, "required": ["@type"]},
}


def json_schema(message: Any) -> dict[str, Any]:
    """A message's schema, from its descriptor; what it holds is under `$defs`. Unknown fields are allowed: a later version may add some."""
    definitions: dict[str, Any] = {}
    reference = _message(message, definitions)
    return {"$schema": DIALECT, "title": message.name, **reference, "$defs": dict(sorted(definitions.items()))}


def _message(message: Descriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    if message.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[message.full_name]
    if message.full_name not in definitions:
        definitions[message.full_name] = {}  # which ends a message that holds itself
        properties = {field.name: _field(field, definitions) for field in message.fields}
        definitions[message.full_name] = {"type": "object", "properties": properties}
    return {"$ref": f"#/$defs/{message.full_name}"}


def _field(field: FieldDescriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return {"type": "object", "additionalProperties": _value(message.fields_by_name["value"], definitions)}
    value = _value(field, definitions)
    return {"type": "array", "items": value} if field.is_repeated else value


def _value(field: FieldDescriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    if field.message_type is not None:
        return _message(field.message_type, definitions)
    return _enum(field.enum_type, definitions) if field.enum_type is not None else _SCALARS[field.type]


def _enum(enum: EnumDescriptor, definitions: dict[str, Any]) -> dict[str, Any]:
    """A name; a number, of a later version's."""
    names = [value.name for value in enum.values]
    definitions[enum.full_name] = {"anyOf": [{"enum": names}, {"type": "integer"}]}
    return {"$ref": f"#/$defs/{enum.full_name}"}
