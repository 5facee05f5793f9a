"""How many connections and open calls a server has, and with what options gRPC serves them."""

from __future__ import annotations

from grader.config import Settings
from grader.peers import PeerLimits
from grader.server.resources import connections_within, descriptor_limit

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
    most, _ = _connections(settings)
    return (*_OPTIONS, ("grpc.max_allowed_incoming_connections", most))


def web_limits(settings: Settings) -> PeerLimits:
    """Of connections to the web port."""
    _, most = _connections(settings)
    return PeerLimits(total=most, per_address=settings.web_address_limit)


def stream_limits(settings: Settings) -> PeerLimits:
    """Of the web port's connections that follow a submission: some are left for pages, from every address."""
    limits = web_limits(settings)
    return PeerLimits(total=max(limits.total // 4, 1), per_address=max(limits.per_address // 8, 1))


def health_limits(settings: Settings) -> PeerLimits:
    """Of calls of the health service that are open."""
    return PeerLimits(total=settings.health_call_limit, per_address=settings.health_address_limit)


def _connections(settings: Settings) -> tuple[int, int]:
    """To the API and to the web port: fewer than asked for where descriptors would run out."""
    most, web = connections_within(descriptor_limit(), settings.connection_limit, settings.web_connection_limit)
    return most, web
