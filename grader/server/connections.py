"""Limits of connections, open calls, file descriptors and memory, and the options of the gRPC server."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress

import structlog

from grader.config import Settings
from grader.errors import SettingsInvalid
from grader.peers import PeerLimits

log = structlog.get_logger()

DESCRIPTORS = 65_536  # what is asked for, as deploy/grader-server.service does
RESERVED = 1_024  # for boxes, the ledger and files: connections have the rest
LEAST_RESERVED = 48  # the same, where there are few: connections have half of the rest
ARENAS = 2  # of malloc: with one for each thread, what a burst took stays with them
_M_TRIM_THRESHOLD, _M_ARENA_MAX = -1, -8  # of <malloc.h>
_TRIM_BYTES = 1 << 20


def raise_descriptor_limit(wanted: int = DESCRIPTORS) -> None:
    """Have as many descriptors as the system allows, up to wanted. What is started inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def connections_within(descriptors: int, *limits: int) -> tuple[int, ...]:
    """Return limits of connections, reduced where fewer than RESERVED descriptors, or half, would be left. SettingsInvalid."""
    room = max(descriptors - RESERVED, (descriptors - LEAST_RESERVED) // 2)
    if room < 2 * len(limits):
        text = f"this process may open {descriptors} files, which leaves none for callers; raise that limit: ulimit -n 65536"
        raise SettingsInvalid("connection_limit", text)
    if sum(limits) <= room:
        return limits
    reduced = tuple(max(1, limit * room // sum(limits)) for limit in limits)
    remedy = "raise the limit of open files (ulimit -n)"
    log.warning("connections_limited", descriptors=descriptors, asked=limits, given=reduced, remedy=remedy)
    return reduced


def trim_memory() -> None:
    """Give memory that is free back to the system now: many small pieces keep malloc from doing so. It takes some ms, without the GIL."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def bound_arenas() -> None:
    """Have glibc's malloc keep few arenas and give back what is free. Before threads are made; nothing where libc is another one."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, ARENAS)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)


STREAMS = 200  # calls on one connection
HANDSHAKE_MS = 10_000  # for TLS, and the first words of HTTP/2
READ_CHUNK_BYTES = 8 * 1024  # gRPC reads into buffers of this size at least, for every connection

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second server on the same port is an error and no lottery
    ("grpc.max_receive_message_length", 8 * 1024 * 1024),  # sources over their limit of 1 MiB are refused by intake, which says why
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # below the client's keepalive, or a quiet watch is ended after two minutes
    ("grpc.max_concurrent_streams", STREAMS),
    ("grpc.server_handshake_timeout_ms", HANDSHAKE_MS),
    # Windows stay at 64 KiB: gRPC would take some MiB for what nobody reads, on each connection that is fast enough.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.experimental.tcp_read_chunk_size", READ_CHUNK_BYTES),
    ("grpc.experimental.tcp_min_read_chunk_size", READ_CHUNK_BYTES),
    ("grpc.experimental.tcp_max_read_chunk_size", 8 * READ_CHUNK_BYTES),
)


def grpc_options(settings: Settings) -> tuple[tuple[str, int], ...]:
    """The options of the API's server."""
    limit, _ = _connections(settings)
    return (*_OPTIONS, ("grpc.max_allowed_incoming_connections", limit))


def web_limits(settings: Settings) -> PeerLimits:
    """Of connections to the web port."""
    _, limit = _connections(settings)
    return PeerLimits(total=limit, per_address=settings.web_address_limit, proxies=settings.trusted_proxy)


def health_limits(settings: Settings) -> PeerLimits:
    """Of calls of the health service that are open."""
    return PeerLimits(total=settings.health_call_limit, per_address=settings.health_address_limit)


def _connections(settings: Settings) -> tuple[int, int]:
    """To the API and to the web port: fewer than asked for where descriptors would run out."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptors = DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    api, web = connections_within(descriptors, settings.connection_limit, settings.web_connection_limit)
    return api, web
