"""How large a request may be: its message before it is read, its lists and texts before anything walks them; pages, too (AIP-158).

Every field has a limit without being named here. The exact limits, such as 64 sources, are those of intake; these keep a request from
taking the server's time before it comes there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from grader.errors import FieldViolation, InvalidRequest

P = TypeVar("P", str, int)

MESSAGE_BYTES = 64 * 1024
BATCH_LIMIT = 100
# Methods that take sources, or many names. Sources over their limit of 1 MiB are refused by intake, which says why.
MESSAGE_BYTES_OF = {
    "Submit": 2 * 1024 * 1024,
    "BatchSubmit": 4 * 1024 * 1024,
    "CreateRejudge": 1024 * 1024,
    "WatchSubmissions": 256 * 1024,
}
TEXT_BYTES = 8 * 1024
TEXT_BYTES_OF = {"grader.v1.SourceFile.content": MESSAGE_BYTES_OF["Submit"], "grader.fleet.v1.Ended.message": 1024 * 1024}
COUNT = 1000
COUNT_OF = {"grader.v1.BatchSubmitRequest.requests": BATCH_LIMIT, "grader.v1.Rejudge.submissions": 10_000}
# Output only, and ignored: a client may send back what it got.
_OUTPUTS = ("Submission.report", "Submission.error", "Submission.judgements", "Sweep.workloads", "Rejudge.changes")
IGNORED = frozenset(f"grader.v1.{name}" for name in _OUTPUTS)
CHECKED_APART = "grader.v1.BatchSubmitRequest.requests"  # each is refused by itself
_NAMED_VIOLATIONS = 10


def message_bytes(method: str) -> int:
    """How many bytes a request of this method may have, such as `/grader.v1.GraderService/Submit`."""
    return MESSAGE_BYTES_OF.get(method.rpartition("/")[2], MESSAGE_BYTES)


def check_size(size: int, method: str) -> None:
    """InvalidRequest where a message is too large to be read."""
    if size > (limit := message_bytes(method)):
        shown = f"{limit // 1024} KiB" if limit % (1024 * 1024) else f"{limit // (1024 * 1024)} MiB"
        text = f"has {size} bytes; {method.rpartition('/')[2]} takes at most {limit} ({shown}); send less in one call"
        raise InvalidRequest([FieldViolation("request", text)])


def check_fields(request: Message) -> None:
    """InvalidRequest where a list or a text is too long, with the path of its field."""
    if violations := list(islice(_of_message(request, ""), _NAMED_VIOLATIONS)):
        raise InvalidRequest(violations)


def _of_message(message: Message, prefix: str) -> Iterator[FieldViolation]:
    for field, value in message.ListFields():
        if field.full_name not in IGNORED:
            yield from _of_value(field, value, prefix + field.name)


def _of_value(field: FieldDescriptor, value: Any, path: str) -> Iterator[FieldViolation]:
    match value:
        case Message():
            yield from _of_message(value, f"{path}.")
        case str():
            size, limit = len(value.encode()), TEXT_BYTES_OF.get(field.full_name, TEXT_BYTES)
            if size > limit:
                yield FieldViolation(path, f"has {size} bytes; send at most {limit}")
        case int() | float() | bytes():  # bytes are pieces of files between server and worker; the message bounds them
            pass
        case _:
            limit = COUNT_OF.get(field.full_name, COUNT)
            if len(value) > limit:
                yield FieldViolation(path, f"there are {len(value)}; send at most {limit}")
            elif isinstance(value, Mapping):
                for index, pair in enumerate(value.items()):
                    for part in pair:
                        yield from _of_value(field, part, f"{path}[{index}]")
            elif field.full_name != CHECKED_APART:
                for index, item in enumerate(value):
                    yield from _of_value(field, item, f"{path}[{index}]")


# Page sizes and page tokens.

PAGE_SIZE_DEFAULT, PAGE_SIZE_LIMIT = 50, 1000
POSITION_LIMIT = 2**63 - 1


def page_size(size: int) -> int:
    """How many to return."""
    if size < 0:
        raise InvalidRequest([FieldViolation("page_size", f"{size} is negative; leave it out, or ask for 1 to {PAGE_SIZE_LIMIT}")])
    return min(size, PAGE_SIZE_LIMIT) or PAGE_SIZE_DEFAULT


def page_token(position: str | int | None, *fields: object) -> str:
    """A token for the page after position, good only with these other fields; "" after the last page."""
    if position is None:
        return ""
    return base64.urlsafe_b64encode(json.dumps([position, _digest(fields)]).encode()).decode()


def page_position(token: str, kind: type[P], *fields: object) -> P | None:
    """The position in a token; None for the first page; InvalidRequest where it was made with other fields."""
    if not token:
        return None
    try:
        position, digest = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        position, digest = None, ""
    # Anybody can make a token: the digest keeps accidents away, and the ledger takes no number over 63 bits.
    if digest != _digest(fields) or type(position) is not kind or (isinstance(position, int) and not 0 <= position <= POSITION_LIMIT):
        text = "is not a token of this list; send it back as it came, with the other fields as they were, or leave it out"
        raise InvalidRequest([FieldViolation("page_token", text)])
    return position


def _digest(fields: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(fields).encode()).hexdigest()[:16]
