"""Forms: that a request comes from one of ours, and what it holds.

Three things are asked of each request that changes something, and each is enough by itself in a browser that does what it should: a cookie
that goes with requests of this site only, a browser that says that this site has sent the request, and a token that only our page shows.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.multipart import BodyPartReader
from multidict import MultiDict

from grader.errors import FieldViolation, InvalidRequest
from grader_extensions.web.sessions import Transport, read_cookie, set_cookie, transport
from grader_extensions.web.site import FormRefused, Site

TOKEN_FIELD = "token"  # a name
FORM_COOKIE = "grader_form"
FIELDS, READ_S = 20, 10.0  # of a short form
FORM_LASTS = timedelta(hours=12)
PLAIN = (
    "This connection is not encrypted, so a key could be read on the way. Open this page over https, or on the server's own host at "
    "http://127.0.0.1. A proxy that does TLS has to pass the header X-Forwarded-Proto."
)
_AGAIN = "Open the page again, and send the form from there."


class FormTokens:
    """The token of each form: of the session, or before there is one, of a cookie that the page with the form sets."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def page(self, request: web.Request, name: str, shown: Mapping[str, Any], status: int = 200) -> web.Response:
        """A page with a form, its token, and the cookie that goes with it."""
        session, cookie = self._site.session(request), read_cookie(request, FORM_COOKIE)
        value = cookie or secrets.token_urlsafe(32)
        token = _of_cookie(value) if session is None else session.form_token
        response = await self._site.page(request, name, {**shown, "token": token}, status, form=True)
        if session is None and not cookie:
            set_cookie(request, response, FORM_COOKIE, value, FORM_LASTS)
        return response

    def check(self, request: web.Request, sent: str) -> None:
        """FormRefused unless this is the token of a page that this browser was shown."""
        session, cookie = self._site.session(request), read_cookie(request, FORM_COOKIE)
        wanted = session.form_token if session is not None else _of_cookie(cookie) if cookie else ""
        if not wanted or not hmac.compare_digest(wanted.encode(), sent.encode(errors="replace")):
            raise FormRefused(f"The form is of an earlier session, or cookies are off. {_AGAIN}")

    async def read(self, request: web.Request) -> dict[str, str]:
        """The fields of a short form that this browser was shown; FormRefused."""
        check_origin(request)
        if request.content_type != "application/x-www-form-urlencoded":
            raise FormRefused(f"This is not the form of the page. {_AGAIN}")
        try:
            async with asyncio.timeout(READ_S):
                body = await request.read()  # as much as the application takes of any request
            fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS))
        except (ValueError, TimeoutError, web.HTTPRequestEntityTooLarge):
            raise FormRefused(f"The form can't be read. {_AGAIN}") from None
        self.check(request, fields.get(TOKEN_FIELD, ""))
        return fields


def check_origin(request: web.Request) -> None:
    """FormRefused unless the browser says that a page of this site has sent the request."""
    if "Sec-Fetch-Site" in request.headers:  # an origin is not always sent, and a proxy may change the host
        ours = request.headers.getall("Sec-Fetch-Site") in (["same-origin"], ["none"])
    else:
        scheme = "https" if transport(request) is Transport.TLS else "http"
        ours = request.headers.getall("Origin", []) == [f"{scheme}://{request.host}"]
    if not ours:
        raise FormRefused(f"The request comes from another site, or from a program. {_AGAIN} Programs use the API.")


def check_private(request: web.Request) -> None:
    """FormRefused where what is sent could be read on the way."""
    if transport(request) is Transport.PLAIN:
        raise FormRefused(PLAIN)


def _of_cookie(value: str) -> str:
    return sha256(f"form {value}".encode(errors="replace")).hexdigest()


# Forms with files are read within a bound, part by part: fields in memory, and nothing on disk.

PART_LIMIT = 256
_CHUNK_BYTES = 64 * 1024


class FormTooLarge(Exception):
    """More than was to be read of it."""


SentForm = tuple[MultiDict[str], list[tuple[str, bytes]]]  # fields in the browser's order; names and bytes of the files that were chosen


async def read_form(request: web.Request, limit_bytes: int) -> SentForm:
    """The form. FormTooLarge; InvalidRequest where it is no form."""
    if request.content_type != "multipart/form-data":
        raise InvalidRequest([FieldViolation("form", "is not multipart/form-data; send it from the page")])
    if (request.content_length or 0) > limit_bytes:
        raise FormTooLarge
    fields, files, remaining_bytes = MultiDict[str](), list[tuple[str, bytes]](), limit_bytes
    try:
        reader, count = await request.multipart(), 0
        while (part := await reader.next()) is not None:
            count += 1
            if not isinstance(part, BodyPartReader) or count > PART_LIMIT:
                raise ValueError("too many parts, or parts in parts")
            content = bytearray()
            while chunk := await part.read_chunk(_CHUNK_BYTES):
                remaining_bytes -= len(chunk)
                if remaining_bytes < 0:
                    raise FormTooLarge
                content += chunk
            if part.filename is None:
                fields.add(part.name or "", content.decode())
            elif part.filename:  # "": nothing was chosen
                files.append((part.filename.replace("\\", "/").rpartition("/")[2], bytes(content)))
    except (ValueError, AssertionError, web.HTTPException) as error:
        raise InvalidRequest([FieldViolation("form", "can't be read; send it from the page, in UTF-8")]) from error
    return fields, files
