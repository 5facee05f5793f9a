"""A live container: watches its end, its output, its time and its counters."""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import docker
import docker.errors
import requests.exceptions

from grader.isolation import BoxExit, BoxSpec, cgroups, processes
from grader.isolation.errors import IsolationBroken
from grader.isolation.exit_cause import Counters, FirstCause
from grader.isolation.host_memory import MemoryWatch
from grader.isolation.output import OutputReader
from grader.isolation.stdio import StdioSocket
from sandbox.protocol.wire import BoxCause

WAIT_GRACE_S = 120
SAMPLE_S = 0.25
REMOVE_ATTEMPTS = 3

Result = TypeVar("Result")


class _EngineClient(Protocol):
    @property
    def local(self) -> bool: ...

    async def call(self, work: Callable[[docker.APIClient], Result]) -> Result: ...


class DockerBox:
    """One container.  `supervise` runs beside it and enforces every limit, whether anybody waits or not."""

    def __init__(
        self, engine: _EngineClient, container_id: str, spec: BoxSpec, uid: int, stdio: StdioSocket, *, watch_memory: bool = True
    ) -> None:
        self.container_id = container_id
        self._engine = engine
        self._spec = spec
        self._uid = uid
        self._stdio = stdio
        self._watch_memory = watch_memory
        self._ending = FirstCause()
        self._exit: asyncio.Future[BoxExit] = asyncio.get_running_loop().create_future()
        self._reader: OutputReader | None = None
        self._directories: tuple[Path, ...] = ()
        self._first_pid = -1
        self._counters = Counters()
        self._code: int | None = None
        self._removed = False

    @property
    def uid(self) -> int:
        """The host uid that its processes have."""
        return self._uid

    async def wait(self) -> BoxExit:
        """Return when it has ended."""
        return await asyncio.shield(self._exit)

    async def kill(self) -> BoxExit:
        """End it now."""
        self.end()
        return await self.wait()

    def end(self) -> None:
        """Begin to end it; `supervise` does the rest."""
        self._ending.record_cause(BoxCause.KILLED)

    async def start(self) -> None:
        """Start the container's first process."""
        try:
            await self._engine.call(lambda client: client.start(self.container_id))
        except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
            raise IsolationBroken(f"the engine does not start the box: {error}") from error
        self._ending.begin()

    async def supervise(self) -> None:
        """Watch the box until it has ended, then remove it and set its exit."""
        try:
            async with asyncio.TaskGroup() as tasks:
                watches = (self._await_exit, self._converse, self._count_down, self._sample, self._watch_host_memory)
                watchers = [tasks.create_task(watch()) for watch in watches]
                await self._ending.struck.wait()
                if self._ending.cause is not BoxCause.EXITED:
                    await self.remove()
                for watcher in watchers:
                    watcher.cancel()
            self._exit.set_result(await self._summary())
        except BaseException as error:
            if not self._exit.done():
                self._exit.set_exception(error)
                self._exit.exception()  # whoever waits gets it; whoever does not need not
            if not isinstance(error, Exception):
                raise
        finally:
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
                await self._engine.call(lambda client: client.remove_container(self.container_id, force=True, v=True))
            except docker.errors.NotFound:
                break
            except (docker.errors.APIError, requests.exceptions.RequestException) as error:
                if attempt == REMOVE_ATTEMPTS - 1:
                    raise IsolationBroken(f"the engine does not remove box {self.container_id[:12]}: {error}") from error
            else:
                break
        self._removed = True

    async def _await_exit(self) -> None:
        timeout_s = math.ceil(self._spec.limits.wall_s) + WAIT_GRACE_S
        try:
            answer = await self._engine.call(lambda client: client.wait(self.container_id, timeout=timeout_s))
        except docker.errors.NotFound:
            return  # removed by us meanwhile
        self._code = int(answer["StatusCode"])
        self._ending.record_cause(BoxCause.EXITED)

    async def _converse(self) -> None:
        connection = await self._stdio.accept()
        self._reader = OutputReader(
            connection.fileno(), cap_bytes=self._spec.limits.output_bytes, on_full=lambda: self._ending.record_cause(BoxCause.OUTPUT_LIMIT)
        )
        await self._reader.ended.wait()
        if self._ending.cause is None:
            self._look()  # the first process waits for us to hang up, so the counters are still there
            connection.close()

    async def _count_down(self) -> None:
        await asyncio.sleep(self._spec.limits.wall_s)
        self._ending.record_cause(BoxCause.WALL_LIMIT)

    async def _sample(self) -> None:
        if not self._engine.local:
            return
        state: dict[str, Any] = await self._engine.call(lambda client: client.inspect_container(self.container_id))
        self._first_pid = int(state["State"]["Pid"]) or -1
        found = cgroups.directories_of(self._first_pid)
        self._directories = tuple(directory for directory in found if self.container_id in str(directory))
        while True:
            self._look()
            await asyncio.sleep(SAMPLE_S)

    async def _watch_host_memory(self) -> None:
        """Hold the memory limit where the driver takes memory for the box."""
        if self._spec.gpu is not None and self._watch_memory and self._engine.local:
            record_cause = functools.partial(self._ending.record_cause, BoxCause.MEMORY_LIMIT)
            await MemoryWatch(limit_bytes=self._spec.limits.memory_bytes, members=self._members, record_cause=record_cause).run()

    def _members(self) -> set[int]:
        return processes.descendants(self._first_pid, processes.table())

    def _look(self) -> None:
        self._counters = self._counters.merged(cgroups.read_counters(self._directories))

    async def _summary(self) -> BoxExit:
        if self._reader is None:
            if self._ending.cause is not BoxCause.KILLED:
                raise IsolationBroken("a box's first process never reported; is `python3` (3.11 or later) in the box root?")
        elif self._ending.cause is not BoxCause.OUTPUT_LIMIT:
            self._reader.drain()
        if self._ending.cause is BoxCause.EXITED:
            state: dict[str, Any] = await self._engine.call(lambda client: client.inspect_container(self.container_id))
            if state["State"].get("OOMKilled"):
                self._counters = self._counters.merged(Counters(oom_kills=1))
        return self._ending.summary(self._code, self._counters, self._reader, self._spec.limits.memory_bytes)
