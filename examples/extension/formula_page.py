"""A page `/languages` at the web port of a server."""

from __future__ import annotations

from aiohttp import web

from grader.extensions import ServerAdditions, ServerContext
from sandbox.protocol.languages import languages


def server_part(server: ServerContext) -> ServerAdditions:
    """Add the page, which needs no key."""

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="\n".join(languages()))

    return ServerAdditions(routes=lambda: [web.get("/languages", page)])
