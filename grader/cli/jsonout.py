"""Prints a message as protobuf JSON with proto field names; control characters come out as JSON escapes."""

from __future__ import annotations

from google.protobuf import json_format
from google.protobuf.message import Message

from grader.api import stable_json
from grader.cli.exits import GraderFailed


def print_json(message: Message) -> None:
    """Print message, and nothing else, on stdout."""
    print(json_text(message))


def json_text(message: Message) -> str:
    """The JSON of a message. Raises GraderFailed."""
    try:
        return stable_json.to_text(stable_json.to_data(message), indent=2)
    except (TypeError, json_format.SerializeToJsonError) as error:  # a detail of a type that is not known here, a time of no calendar
        raise GraderFailed(f"the server sent what can't be written as JSON: {error}; use a grader-cli of its version") from None
