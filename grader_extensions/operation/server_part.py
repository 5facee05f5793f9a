"""Removes what is kept for a time only."""

from __future__ import annotations

from grader.extensions import ServerAdditions, ServerContext
from grader_extensions.operation.retention import Retention


def server_part(server: ServerContext) -> ServerAdditions:
    """Add retention of sources and events."""
    settings = server.settings
    days = {"sources_days": settings.retain_sources_days, "events_days": settings.retain_events_days}
    retention = Retention(server.service.ledger, server.service.policy, **days)
    return ServerAdditions(settings=("retain_sources_days", "retain_events_days"), run=retention.run)
