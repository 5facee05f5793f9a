"""The API as an OpenAPI 3.1 document, made from descriptors.  Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.rpc import status_pb2

from grader_extensions.http.rules import VARIABLE, HttpRule

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
