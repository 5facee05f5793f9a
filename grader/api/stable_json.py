"""Messages as JSON for programs: proto field names, enums by name, 64-bit integers as strings, keys sorted.  Pure.

The same message gives the same bytes, which protobuf's own JSON does not promise: it has maps in any order.
"""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2

# Submission.error holds details of these types; JSON can be written only of types that are loaded.
DETAILS = error_details_pb2.DESCRIPTOR.name


def to_data(message: Message) -> dict[str, Any]:
    """Convert a message to what JSON is written of; TypeError or SerializeToJsonError where it holds a type that is not known here."""
    data: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    return data


def to_text(data: dict[str, Any], *, indent: int | None = None) -> str:
    """The JSON, on one line where there is no indent."""
    return json.dumps(data, sort_keys=True, indent=indent, separators=(",", ":") if indent is None else None)
