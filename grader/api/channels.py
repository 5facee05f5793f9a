"""Addresses of servers, and whether a key may travel there; and why no channel came about, in a sentence with what to do."""

from __future__ import annotations

import re

from grader.errors import SettingsInvalid
from grader.peers import loopback

_RESOLVER = re.compile(r"(?:unix|unix-abstract|dns|ipv4|ipv6):")  # gRPC's own forms

CLIENT_HEADER = "grader-client"  # what a client without a key calls itself: all on a unix socket would be alike

_SELF_SIGNED = "its certificate is self-signed, and not trusted here; name that certificate with `grader-cli login --ca FILE`"

# By what gRPC's words contain: the first that is there decides.
_TLS = {
    "certificate has expired": "its certificate has expired; the server's operator has to renew it (if this host's clock is right)",
    "certificate is not yet valid": "its certificate is not valid yet; check this host's clock, else ask the server's operator",
    "self signed certificate": _SELF_SIGNED,
    "self-signed certificate": _SELF_SIGNED,
    "unable to get": "its certificate is of an authority that is not trusted here; name the authority with `grader-cli login --ca FILE`",
    "certificate revoked": "its certificate was revoked; the server's operator has to replace it",
    "CERTIFICATE_VERIFY_FAILED": "its certificate can't be verified: it is of no authority that is trusted here, or has expired; "
    "name the authority with `grader-cli login --ca FILE`",
    "Hostname Verification Check failed": "its certificate is not for this name; call it by one that is in the certificate",
    "missing selected ALPN property": "it speaks TLS, but is not a grader-server: no HTTP/2; check the port, and a proxy before it",
    "WRONG_VERSION_NUMBER": "it does not speak TLS; check the port, or write http://HOST:PORT where it is meant to be without",
    "certificate required": "it wants a certificate of the client, which users do not have; check the port",
}
_ANY = {
    "Connection refused": "nothing listens there; check host and port, and that grader-server runs",
    "errors resolving": "no host has that name; check its spelling",
    "DNS resolution failed": "no host has that name; check its spelling",
    "No route to host": "this host has no route to it; check the network, or a VPN",
    "Network is unreachable": "this host has no route to it; check the network, or a VPN",
    "No such file or directory": "the socket does not exist; check the path, and that grader-server runs",
    "Deadline Exceeded": "it does not answer in time; it is overloaded, or something between drops what is sent",
    "timed out": "it does not answer in time; check host and port, and a firewall between",
}


def route(server: str, tls: bool | None = None) -> tuple[str, bool]:
    """The address of HOST:PORT, https://HOST:PORT, http://HOST:PORT or unix:PATH, and whether TLS is spoken there. What the address says
    goes before tls; where neither says it, TLS is for all that is not this host."""
    for scheme, meant in (("https://", True), ("http://", False)):
        if server.startswith(scheme):
            return _host_and_port(server.removeprefix(scheme).rstrip("/")), meant
    _host_and_port(server)
    return server, not loopback(server) if tls is None else tls


def _host_and_port(address: str) -> str:
    """The address. SettingsInvalid where it can't be one. Without a port gRPC takes 443."""
    if _RESOLVER.match(address) is None and re.fullmatch(r"(?:\[[^\]]+\]|[^\s:/]+)(?::\d+)?", address) is None:
        raise SettingsInvalid("server", f"{address.rpartition('@')[2]!r} is not a server address; write HOST:PORT, such as localhost:50551")
    return address


def check_key(key: str, address: str, *, tls: bool, plain_text: bool) -> None:
    """SettingsInvalid where a key can't travel, or would so that others can read it. The key is never quoted."""
    if not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsInvalid("API key", "this is not one: a key is one word, as `grader-server admin keys create` prints it")
    if not tls and not plain_text and not loopback(address):
        text = (
            f"the key would travel to {address} in plain text, where others can read it, so it is not sent; "
            f"write https://{address}, or log in with --insecure-plain-text where the network is yours alone"
        )
        raise SettingsInvalid("server", text)


def explain(detail: str, *, tls: bool, answered: bool = False) -> str:
    """Explain gRPC's words, which are for its authors; return them where they are not known. answered: the server did, before this."""
    for sign, sentence in ((_TLS | _ANY) if tls else _ANY).items():
        if sign in detail:
            return sentence
    if "Socket closed" in detail:
        if answered:
            return "it closed the connection, as a server does that stops"
        if tls:
            return "it closed the connection; check the port, and that it speaks TLS"
        return (
            "it closed the connection, as a server does that wants TLS (write https://HOST:PORT) "
            "or has as many connections as it takes (try again)"
        )
    return detail


def is_permanent(detail: str, *, tls: bool) -> bool:
    """Return whether the failure stays until somebody changes something, other than that of a server that restarts."""
    signs = (*(_TLS if tls else ()), "errors resolving", "DNS resolution failed")
    return any(sign in detail for sign in signs)
