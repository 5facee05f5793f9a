"""Small web servers of the tests' own."""

from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def served_app(*routes, middlewares=()):
    """Serve these routes on this host, and give the port."""
    app = web.Application(middlewares=middlewares)
    app.add_routes(routes)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
