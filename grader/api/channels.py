"""How a client reaches a server: in plain text or over TLS, with a key or without."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import grpc

from grader.errors import SettingsInvalid
from grader.peers import loopback

_RESOLVER = re.compile(r"(?:unix|unix-abstract|dns|ipv4|ipv6):")  # gRPC's own forms


def route(server: str, tls: bool | None = None) -> tuple[str, bool]:
    """The address of HOST:PORT, https://HOST:PORT, http://HOST:PORT or unix:PATH, and whether TLS is spoken there.

    What the address says goes before tls; where neither says it, TLS is for all that is not this host.
    """
    for scheme, meant in (("https://", True), ("http://", False)):
        if server.startswith(scheme):
            return _host_and_port(server.removeprefix(scheme).rstrip("/")), meant
    _host_and_port(server)
    return server, not loopback(server) if tls is None else tls


def _host_and_port(address: str) -> str:
    """The address. SettingsInvalid where it can't be one. Without a port gRPC takes 443."""
    if _RESOLVER.match(address) is None and re.fullmatch(r"(?:\[[^\]]+\]|[^\s:/]+)(?::\d+)?", address) is None:
        raise SettingsInvalid("server", f"{address!r} is not a server address; write HOST:PORT, such as localhost:50551")
    return address


def open_channel(address: str, *, tls: bool, ca: bytes | None, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
    """A channel to the address. ca: the authorities to trust, in PEM, in place of those that everybody trusts."""
    if not tls:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(root_certificates=ca), options=options)


def carry_key(stub: Any, key: str) -> None:
    """Send the key with every call of a generated stub. Not by gRPC's call credentials: those refuse plain text on loopback too."""
    for name, call in vars(stub).items():
        setattr(stub, name, functools.partial(call, metadata=(("authorization", f"Bearer {key}"),)))


def check_key(key: str, address: str, *, tls: bool, plain_text: bool) -> None:
    """SettingsInvalid where a key can't travel, or would so that others can read it. The key is never quoted."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsInvalid("key", "what was given is not a key; a key is one word, as `grader-server admin keys create` prints it")
    if not tls and not plain_text and not loopback(address):
        text = (
            f"the key would travel to {address} in plain text, where others can read it, so it is not sent; "
            f"write https://{address}, or log in with --insecure-plain-text where the network is yours alone"
        )
        raise SettingsInvalid("server", text)
