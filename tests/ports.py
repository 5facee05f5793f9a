"""Ports for servers of tests that have to be named before they are opened."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port of this host that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
