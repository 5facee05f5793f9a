"""The API over HTTP, next to the pages of a server."""

from __future__ import annotations

from importlib import import_module

from grader.extensions import ServerAdditions, ServerContext


def server_part(server: ServerContext) -> ServerAdditions:
    """Add the paths below /v1/, whose code is imported where there is a port."""
    origins = ("http_allow_origin",)
    return ServerAdditions(routes=lambda: import_module("grader_extensions.http.gateway").routes_of(server), settings=origins)
