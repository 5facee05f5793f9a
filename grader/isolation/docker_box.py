"""A live container: watches its end, its output and its counters, and removes it."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import docker
import docker.errors
import requests.exceptions

from grader.isolation import BoxSpec, IsolationBroken, cgroups, processes
from grader.isolation.cgroups import Counters
from grader.isolation.supervision import SupervisedBox
from sandbox.protocol.wire import BoxCause

WAIT_GRACE_S = 120
IDLE_LIMIT_S = 24 * 3600  # no box waits for so long for what it is to do
SAMPLE_S = 0.25
REMOVE_ATTEMPTS = 3

Result = TypeVar("Result")


class _EngineClient(Protocol):
    @property
    def local(self) -> bool: ...

    async def call(self, work: Callable[[docker.APIClient], Result]) -> Result: ...


class StdioSocket:
    """A listening socket in a directory of ours; takes one connection, the box's first process's, and is gone."""

    def __init__(self, directory: Path, name: str) -> None:
        self._path = directory / name
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection: socket.socket | None = None
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Through the descriptor: a socket's path may have 107 bytes at most, and state directories lie deep.
            self._listener.bind(f"/proc/self/fd/{descriptor}/{name}")
        except BaseException:
            self._listener.close()
            raise
        finally:
            os.close(descriptor)
        self._path.chmod(0o666)
        self._listener.listen(1)
        self._listener.setblocking(False)

    async def accept(self) -> socket.socket:
        """Take the first connection and close the door."""
        self.connection, _ = await asyncio.get_running_loop().sock_accept(self._listener)
        self._close_listener()
        return self.connection

    def close(self) -> None:
        """Close whatever is open."""
        self._close_listener()
        if self.connection is not None:
            self.connection.close()

    def _close_listener(self) -> None:
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()


class DockerBox(SupervisedBox):
    """One container. create: makes it under `name`; stdio: where its first process connects to print.

    It is removed by its name: a start that is cancelled while the engine creates it never hears the
    id.
    """

    def __init__(
        self,
        engine: _EngineClient,
        name: str,
        create: Callable[[docker.APIClient], object],
        spec: BoxSpec,
        uid: int,
        stdio: StdioSocket,
        *,
        watch_memory: bool = True,
    ) -> None:
        super().__init__(spec, uid, watch_memory=watch_memory and engine.local)
        self._name, self._create = name, create
        self._engine, self._stdio = engine, stdio
        self._directories: tuple[Path, ...] = ()
        self._first_pid = -1
        self._code: int | None = None
        self._removed = False

    async def start(self) -> None:
        """Create the container and start its first process."""
        try:
            await self._engine.call(self._create)
            await self._engine.call(lambda client: client.start(self._name))
        except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
            raise IsolationBroken(f"the engine does not start the box: {error}") from error
        self._ending.begin()

    def _watches(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        return self._await_exit, self._converse, self._sample

    async def _stop(self) -> None:
        if self._ending.cause is not BoxCause.EXITED:
            await self.remove()

    async def _clear(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._stdio.close()
        await self.remove()

    async def remove(self) -> None:
        """Kill and remove the container; every process of its pid namespace dies with it."""
        if self._removed:
            return
        for attempt in range(REMOVE_ATTEMPTS):
            try:
                await self._engine.call(lambda client: client.remove_container(self._name, force=True, v=True))
            except docker.errors.NotFound:
                break
            except (docker.errors.APIError, requests.exceptions.RequestException) as error:
                if attempt == REMOVE_ATTEMPTS - 1:
                    raise IsolationBroken(f"the engine does not remove box {self._name}: {error}") from error
            else:
                break
        self._removed = True

    async def _await_exit(self) -> None:
        timeout_s = math.ceil(self._spec.limits.wall_s) + IDLE_LIMIT_S + WAIT_GRACE_S  # `begin` may have been late
        try:
            answer = await self._engine.call(lambda client: client.wait(self._name, timeout=timeout_s))
        except docker.errors.NotFound:
            return  # removed by us meanwhile
        self._code = int(answer["StatusCode"])
        self._ending.record_cause(BoxCause.EXITED)

    async def _converse(self) -> None:
        connection = await self._stdio.accept()
        self._read(connection.fileno())
        assert self._reader is not None
        await self._reader.ended.wait()
        if self._ending.cause is None:
            self._look()  # the first process waits for us to hang up, so the counters are still there
            connection.close()

    async def _sample(self) -> None:
        if not self._engine.local:
            return
        state: dict[str, Any] = await self._engine.call(lambda client: client.inspect_container(self._name))
        self._first_pid = int(state["State"]["Pid"]) or -1
        found = cgroups.directories_of(self._first_pid)
        self._directories = tuple(directory for directory in found if str(state["Id"]) in str(directory))
        while True:
            self._look()
            await asyncio.sleep(SAMPLE_S)

    def _members(self) -> set[int]:
        return processes.descendants(self._first_pid, processes.table())

    def _look(self) -> None:
        self._counters = self._counters.merged(cgroups.read_counters(self._directories))

    async def _settle(self) -> int | None:
        if self._reader is None and self._ending.cause is not BoxCause.KILLED:
            raise IsolationBroken("a box's first process never reported; is `python3` (3.11 or later) in the box root?")
        self._drain()
        if self._ending.cause is BoxCause.EXITED:
            state: dict[str, Any] = await self._engine.call(lambda client: client.inspect_container(self._name))
            if state["State"].get("OOMKilled"):
                self._counters = self._counters.merged(Counters(oom_kills=1))
        return self._code
