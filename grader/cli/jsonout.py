"""Prints a message as protobuf JSON with proto field names; control characters come out as JSON escapes."""

from __future__ import annotations

from google.protobuf import json_format
from google.protobuf.message import Message
from google.rpc import error_details_pb2

# Submission.error holds details of these types; JSON can be written only of types that are loaded.
DETAILS = error_details_pb2.DESCRIPTOR.name


def print_json(message: Message) -> None:
    """Print message, and nothing else, on stdout."""
    print(json_format.MessageToJson(message, preserving_proto_field_name=True))
