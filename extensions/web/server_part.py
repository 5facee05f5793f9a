"""Pages at the web port of a server."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from grader.extensions import ServerAdditions, ServerContext


def server_part(server: ServerContext) -> ServerAdditions:
    """Add the pages."""

    def routes() -> Any:
        return import_module("extensions.web.pages").routes_of(server)  # only where there is a port: it takes half a second

    return ServerAdditions(routes=routes)
