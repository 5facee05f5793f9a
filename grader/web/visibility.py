"""Who opens a page, and over what.  What that viewer sees is decided by `grader/access.py`, as for the API."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from aiohttp import web

from grader.access import ANYBODY
from grader.model import Caller
from grader.peers import loopback


class Transport(StrEnum):
    """Who could read a request on its way."""

    TLS = "tls"
    LOOPBACK = "loopback"  # only this host
    PLAIN = "plain"  # every host on the way


def transport(request: web.Request) -> Transport:
    """Over what a request came. A proxy that ends TLS sets the header; a browser sets none, and no page can make it."""
    if request.secure or request.headers.getall("X-Forwarded-Proto", []) == ["https"]:
        return Transport.TLS
    here = asked_from_here(request.host, request.headers) and loopback(f"{request.remote}:0")
    return Transport.LOOPBACK if here else Transport.PLAIN


def viewer(host: str, header_names: Iterable[str], *, open_server: bool) -> Caller:
    """Who asks without a session: the caller as whom the API would answer. open_server: no keys are asked for, and only this host can
    connect."""
    return Caller() if open_server and asked_from_here(host, header_names) else ANYBODY


def asked_from_here(host: str, header_names: Iterable[str]) -> bool:
    """Whether a request names this host and came through no proxy. Else a page of a strange name that leads here (DNS rebinding) could
    read everything, and so could everybody where a proxy makes an open server's port public."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    forwarded = any(one.lower() in ("forwarded", "via") or one.lower().startswith("x-forwarded-") for one in header_names)
    return bool(name) and not forwarded and loopback(f"{name}:0")
