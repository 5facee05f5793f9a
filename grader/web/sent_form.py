"""Reads a form with files within a bound, part by part: fields in memory, and nothing on disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.multipart import BodyPartReader

from grader.errors import FieldViolation, InvalidRequest

PART_LIMIT = 256
_CHUNK_BYTES = 64 * 1024


class FormTooLarge(Exception):
    """More than was to be read of it."""


@dataclass(slots=True)
class SentForm:
    """What a browser sent, in its order. files: the names and bytes of those that were chosen."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    files: list[tuple[str, bytes]] = field(default_factory=list)

    def one(self, name: str) -> str:
        """The first field of this name; ""."""
        return next((value for found, value in self.fields if found == name), "")

    def all(self, name: str) -> list[str]:
        """Every field of this name."""
        return [value for found, value in self.fields if found == name]


async def read_form(request: web.Request, limit_bytes: int) -> SentForm:
    """The form. FormTooLarge; InvalidRequest where it is no form."""
    if request.content_type != "multipart/form-data":
        raise InvalidRequest([FieldViolation("form", "is not multipart/form-data; send it from the page")])
    if (request.content_length or 0) > limit_bytes:
        raise FormTooLarge
    found, left = SentForm(), limit_bytes
    try:
        reader, count = await request.multipart(), 0
        while (part := await reader.next()) is not None:
            count += 1
            if not isinstance(part, BodyPartReader) or count > PART_LIMIT:
                raise ValueError("too many parts, or parts in parts")
            content = bytearray()
            while chunk := await part.read_chunk(_CHUNK_BYTES):
                left -= len(chunk)
                if left < 0:
                    raise FormTooLarge
                content += chunk
            if part.filename is None:
                found.fields.append((part.name or "", content.decode()))
            elif part.filename:  # "": nothing was chosen
                found.files.append((part.filename.replace("\\", "/").rpartition("/")[2], bytes(content)))
    except (ValueError, AssertionError, web.HTTPException) as error:
        raise InvalidRequest([FieldViolation("form", "can't be read; send it from the page, in UTF-8")]) from error
    return found
