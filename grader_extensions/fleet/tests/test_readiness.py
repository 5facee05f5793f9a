"""A server whose workers grade says whether there is one."""

import aiohttp

from grader.server.running import serving
from grader_extensions.fleet.fleet_port import joined
from grader_extensions.fleet.tests.fleet_workers import inside
from tests.server.test_operation import until


async def test_a_server_without_a_worker_is_not_ready(settings, place):
    """Its workers grade, and there is none. The control: one that has joined makes it ready."""
    there = settings.model_copy(update={"fleet": "remote", "fleet_listen": f"unix:{place}/fleet", "web": "0"})
    async with serving(there, joined) as running, aiohttp.ClientSession() as session:

        async def ready():
            async with session.get(f"http://{running.web_address}/readyz") as answer:
                return answer.status, await answer.text()

        assert await ready() == (503, "nothing can be graded: no worker that can grade is connected\n")
        async with inside(there.fleet_listen):
            await until(ready, (200, "ok\n"))
