"""Pages at the web port of a server."""

from __future__ import annotations

from importlib import import_module

from grader.extensions import ServerAdditions, ServerContext
from grader_extensions.web.identities import identity_provider


def server_part(server: ServerContext) -> ServerAdditions:
    """Add the pages, which are imported where there is a port: that takes half a second. SettingsInvalid where nobody could sign in."""
    provider = identity_provider(server.settings)
    return ServerAdditions(
        routes=lambda: import_module("grader_extensions.web.pages").routes_of(server, provider), settings=("oidc_issuer",)
    )
