"""Page sizes and page tokens (AIP-158).  Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import TypeVar

from grader.errors import FieldViolation, InvalidRequest

P = TypeVar("P", str, int)

SIZE_DEFAULT, SIZE_LIMIT = 50, 1000
LARGEST = 2**63 - 1


def page_size(size: int) -> int:
    """How many to return."""
    if size < 0:
        raise InvalidRequest([FieldViolation("page_size", f"{size} is negative; leave it out, or ask for 1 to {SIZE_LIMIT}")])
    return min(size, SIZE_LIMIT) or SIZE_DEFAULT


def encode(position: str | int | None, *fields: object) -> str:
    """A token for the page after position, good only with these other fields; "" after the last page."""
    if position is None:
        return ""
    return base64.urlsafe_b64encode(json.dumps([position, _digest(fields)]).encode()).decode()


def decode(token: str, kind: type[P], *fields: object) -> P | None:
    """The position in a token; None for the first page; InvalidRequest where it was made with other fields."""
    if not token:
        return None
    try:
        position, digest = json.loads(base64.b64decode(token, altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, TypeError, RecursionError):
        position, digest = None, ""
    # Anybody can make a token: the digest keeps accidents away, and the ledger takes no number over 63 bits.
    if digest != _digest(fields) or type(position) is not kind or (isinstance(position, int) and not 0 <= position <= LARGEST):
        text = "is not a token of this list; send it back as it came, with the other fields as they were, or leave it out"
        raise InvalidRequest([FieldViolation("page_token", text)])
    return position


def _digest(fields: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(fields).encode()).hexdigest()[:16]
