"""Network addresses: which are of this host, and how many calls each has open without a key, so that none takes everything."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import unquote

_IPV6_PREFIX = 64  # a single host is often given this whole network


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerLimits:
    """How many may be open in all, and from one address. proxies: whose X-Forwarded-For names the caller."""

    total: int
    per_address: int
    proxies: Collection[str] = ()


class PeerCount:
    """How many are open now."""

    def __init__(self, limits: PeerLimits) -> None:
        self.limits = limits
        self._open: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Open from all addresses."""
        return self._open.total()

    def enter(self, address: str) -> bool:
        """Count one more from this address; False, and nothing is counted, where that is over a limit."""
        if self.total >= self.limits.total or self._open[address] >= self.limits.per_address:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """The end of one that entered."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    @contextmanager
    def entered(self, address: str) -> Iterator[bool]:
        """Count one until the context is left; whether it is within the limits."""
        inside = self.enter(address)
        try:
            yield inside
        finally:
            if inside:
                self.leave(address)


def address_of_peer(peer: str) -> str:
    """The address in what gRPC calls a peer, such as ipv4:192.0.2.1:5000 or ipv6:%5B2001:db8::1%5D:5000; without the port."""
    kind, _, rest = unquote(peer).partition(":")
    return network_of(rest.rpartition(":")[0].strip("[]")) if kind in ("ipv4", "ipv6") else kind


def caller_of(peer: str, forwarded: Iterable[str], proxies: Collection[str]) -> str:
    """Return the address of who calls: of a trusted proxy's X-Forwarded-For the last that is not such a proxy's itself."""
    hops = [hop.strip() for value in forwarded for hop in value.split(",")]
    while hops and peer in proxies:
        peer = hops.pop()
    return peer


def loopback(address: str) -> bool:
    """Return whether an address, HOST:PORT or unix:PATH, is one that only this host can reach."""
    host = address.rsplit(":", 1)[0].strip("[]")
    try:
        return address.startswith("unix:") or host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, which may resolve to any address
        return False


def network_of(host: str) -> str:
    """Return what counts as one address: an IPv4 address, or the /64 of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)
