"""A box whose start is cancelled leaves nothing, whatever the engine was doing for it at that moment."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import docker
import pytest

from grader.isolation.docker import DEFAULT_HOST, DockerIsolation
from grader.isolation.launch import STATE_LABEL

pytestmark = pytest.mark.docker
NO_CONTENT = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


class EngineProxy:
    """Passes requests on to the engine, but holds the first of one kind until it is released. removes: whether it passes on removals."""

    def __init__(self, request, *, removes=True):
        self._held_request, self._removes = request, removes
        self.requests, self.reached, self.released = [], asyncio.Event(), asyncio.Event()

    async def serve(self, reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        method, path, _ = head.split(b"\r\n")[0].decode().split()
        self.requests.append(f"{method} {path.partition('?')[0].rpartition('/')[2]}")
        if self.requests[-1] == self._held_request:
            self.reached.set()
            await self.released.wait()
        if method == "DELETE" and not self._removes:
            writer.write(NO_CONTENT)
        else:
            engine_reader, engine_writer = await asyncio.open_unix_connection(DEFAULT_HOST.removeprefix("unix://"))
            engine_writer.write(head)
            sending = asyncio.create_task(copy(reader, engine_writer))
            await copy(engine_reader, writer)
            sending.cancel()
            engine_writer.close()
        writer.close()


async def copy(reader, writer):
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def cancelled_start(cage, request, **options):
    """Cancel a start while the engine works on the request that is held, or once the box lives; return the requests until then."""
    proxy, path, lives = EngineProxy(request, **options), cage.place / "engine.sock", asyncio.Event()

    async def hold():
        async with isolation.start(cage.spec("time.sleep(600)")):
            lives.set()
            await asyncio.Event().wait()

    async with await asyncio.start_unix_server(proxy.serve, path):
        isolation = DockerIsolation(replace(cage.settings, docker_host=f"unix://{path}"))
        cage.isolations.append(isolation)
        task = asyncio.create_task(hold())
        waits = [asyncio.create_task(event.wait()) for event in (proxy.reached, lives)]
        await asyncio.wait([task, *waits], return_when=asyncio.FIRST_COMPLETED)
        requests = list(proxy.requests)
        for cancelled in (task, *waits):
            cancelled.cancel()
        await asyncio.wait({task}, timeout=0)  # lets the cancellation arrive while the request is held
        proxy.released.set()
        await asyncio.wait({task})
    assert task.cancelled()
    return requests


def containers(cage):
    with docker.APIClient(DEFAULT_HOST, version="auto") as client:
        labelled = {"label": f"{STATE_LABEL}={cage.settings.state_id}"}
        return [container["Id"] for container in client.containers(all=True, filters=labelled)]


async def test_a_start_that_is_cancelled_at_any_request_leaves_no_container(docker_cage):
    """Every request that a whole start makes is the one that is under way, in its turn."""
    requests = await cancelled_start(docker_cage, request=None)
    assert containers(docker_cage) == []
    assert {"POST create", "POST start"} <= set(requests)
    for request in dict.fromkeys(requests):
        assert (await cancelled_start(docker_cage, request))[-1] == request
        assert containers(docker_cage) == [], request


async def test_without_the_removal_the_container_stays(docker_cage):
    """The control: the same cancellation, and the request to remove it is not passed on."""
    await cancelled_start(docker_cage, "POST create", removes=False)
    (container,) = containers(docker_cage)
    with docker.APIClient(DEFAULT_HOST, version="auto") as client:
        client.remove_container(container, force=True)
