"""POSTs to addresses that others named: to public ones only, each looked at before it is connected to, and no further than there.

Redirects are not followed, of an answer only its status and a few words are read, and all of it has one time limit.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from grader.errors import GraderError

POST_S = 10.0  # for all of one POST
URL_CHARS = 2000
ANSWER_BYTES = 400
_ADDRESSES_TRIED = 3
_HEADERS_MOST = 100
_LINE_BYTES = 8192
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})[ \r\n]")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Python's is_global calls these public, or parts of them, depending on its version. 192.0.0.192 is a cloud's metadata service.
_SPECIAL = (ipaddress.ip_network("192.0.0.0/24"), ipaddress.ip_network("64:ff9b:1::/48"), ipaddress.ip_network("3fff::/20"))

Resolve = Callable[[str, int], Awaitable[list[str]]]


class UrlRefused(GraderError):
    """Nothing is sent to this URL."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class PostFailed(GraderError):
    """What was sent did not arrive, or nobody can say whether it did."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """Where a POST goes. path: with the query, as it is sent."""

    tls: bool
    host: str
    port: int
    path: str

    @property
    def host_header(self) -> str:
        """The host as HTTP writes it."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port == (443 if self.tls else 80) else f"{name}:{self.port}"


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back: the status, and the first bytes of the body. Untrusted."""

    status: int
    body: bytes


def target(url: str) -> WebhookTarget:
    """The parts of a URL that POSTs may be sent to as far as can be said without looking; UrlRefused."""
    if len(url) > URL_CHARS or not re.fullmatch(r"[!-~]+", url):
        raise UrlRefused(f"write the URL in ASCII without spaces, at most {URL_CHARS} characters, with anything else percent-encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UrlRefused(f"it is not a URL: {error}") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise UrlRefused("write https://HOST/PATH")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise UrlRefused("leave out user, password and #fragment; what is sent is signed")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    tls = parts.scheme == "https"
    return WebhookTarget(tls=tls, host=parts.hostname, port=(443 if tls else 80) if port is None else port, path=path)


def why_not(to: WebhookTarget, address: str, *, allow_private: bool) -> str | None:
    """Why this address is not connected to; None where it is."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if not to.tls and not (allow_private and found.is_loopback):
        return "http:// goes to this host only, and only from a server with --hooks-allow-private; use https://"
    if allow_private:
        return "it is a multicast address" if found.is_multicast else None
    return None if _public(found) else "it is not a public address, and this server runs without --hooks-allow-private"


def _public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        if (mapped := address.ipv4_mapped) is not None:
            return _public(mapped)
        if address in _NAT64:
            return _public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.sixtofour is not None or address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or any(address in network for network in _SPECIAL))


def resolver(threads: Executor | None = None) -> Resolve:
    """The system's resolver. It can hang for long, so who has other work for the loop's own threads gives it some."""

    async def resolve(host: str, port: int) -> list[str]:
        ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await asyncio.get_running_loop().run_in_executor(threads, ask)
        return list(dict.fromkeys(str(one[4][0]) for one in found))

    return resolve


async def post(
    to: WebhookTarget,
    headers: Mapping[str, str],
    body: bytes,
    *,
    allow_private: bool = False,
    resolve: Resolve | None = None,
    context: ssl.SSLContext | None = None,
    limit_s: float = POST_S,
) -> HttpReply:
    """Send it and read the answer's status; UrlRefused where it may not go there, PostFailed where it did not get there."""
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await _connect(to, await _addresses(to, allow_private, resolve or resolver()), context)
            try:
                writer.write(_request(to, headers, body))
                await writer.drain()
                return await _answer(reader)
            finally:
                writer.transport.abort()
    except TimeoutError:
        raise PostFailed(f"no answer in {limit_s:g} s") from None
    except (OSError, ValueError) as error:  # ValueError: a line of the answer without an end
        raise PostFailed(f"{type(error).__name__}: {error}") from None


async def _addresses(to: WebhookTarget, allow_private: bool, resolve: Resolve) -> list[str]:
    """Every one must do: of a name that is public and private at once, nobody means well."""
    addresses = await resolve(to.host, to.port)
    for address in addresses:
        if (reason := why_not(to, address, allow_private=allow_private)) is not None:
            raise UrlRefused(f"{to.host} is at {address}: {reason}")
    return addresses


async def _connect(
    to: WebhookTarget, addresses: list[str], context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to one of these very addresses; the name is asked for no more, only the certificate is compared with it."""
    tls = (context or ssl.create_default_context()) if to.tls else None
    failed: OSError = OSError("the name has no address")
    for address in addresses[:_ADDRESSES_TRIED]:
        try:
            return await asyncio.open_connection(address, to.port, ssl=tls, server_hostname=to.host if tls else None, limit=_LINE_BYTES)
        except OSError as error:
            failed = error
    raise failed


def _request(to: WebhookTarget, headers: Mapping[str, str], body: bytes) -> bytes:
    own = {"Host": to.host_header, "Content-Length": str(len(body)), "Connection": "close", "User-Agent": "grader"}
    lines = [f"POST {to.path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**own, **headers}.items())]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


async def _answer(reader: asyncio.StreamReader) -> HttpReply:
    while True:
        found = _STATUS_LINE.match(await reader.readline())
        if found is None:
            raise PostFailed("what answered does not speak HTTP/1.1")
        for _ in range(_HEADERS_MOST):
            if await reader.readline() in (b"\r\n", b"\n", b""):
                break
        else:
            raise PostFailed("the answer has too many headers")
        status = int(found.group(1))
        if status >= 200:
            # A success needs no words, and anybody who keeps the connection open is not waited for.
            return HttpReply(status, b"" if status < 300 else await reader.read(ANSWER_BYTES))
