"""The thread of this process that has an event loop: clients and the process's own server live there, whichever thread calls."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeVar

from grader.api import credentials
from grader.api.client import GraderClient
from grader.cli.session import dial
from grader.python.failures import CallInvalid, unscored
from grader.python.own_process import OwnServer

T = TypeVar("T")

CALL_LIMIT = 96  # at a time on one client: a server answers 200 calls on a connection, and the rest wait here
_END_S = 60.0
_FORKED = (
    "this process was forked from one that had begun to use grader, and can't use what it began; start workers by "
    "multiprocessing.get_context('spawn'), or let the first call be made in the workers"
)


class Connection:
    """A client of a server that is named, and the calls on it. Its methods are for the background loop."""

    def __init__(self, client: GraderClient) -> None:
        self.client, self.room = client, asyncio.Semaphore(CALL_LIMIT)

    async def problem_id(self, path: str) -> str:
        """Return the name of the problem at path, for submissions; CallInvalid, since the server can't read it."""
        raise CallInvalid(
            f"problem: {path} is on this side, and server= names a server that does not see it; have it imported there, and give its name",
            reason="INVALID_REQUEST",
            code="INVALID_ARGUMENT",
        )


class Background:
    """A loop in a thread of its own. own: the server of this process, begun when a call needs it."""

    def __init__(self) -> None:
        self._pid, self._loop = os.getpid(), asyncio.new_event_loop()
        self._connections: dict[tuple[str, str], Connection] = {}
        self._own = OwnServer(CALL_LIMIT)
        threading.Thread(target=self._loop.run_forever, name="grader", daemon=True).start()
        atexit.register(self._end)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin work in the loop; whose future is cancelled, is cancelled too."""
        if os.getpid() != self._pid:
            work.close()
            raise CallInvalid(_FORKED, reason="FORKED", code="FAILED_PRECONDITION")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work in the loop, and wait for it in this thread; Ctrl-C cancels it."""
        future = self.begin(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    @asynccontextmanager
    async def connection(self, server: str | None, key: str) -> AsyncIterator[Connection | OwnServer]:
        """Open the way to a server, for one call: one that is named, or with None this process's own. In the loop only."""
        if server is None:
            async with self._own.call():
                yield self._own
            return
        if (server, key) not in self._connections:
            stored = credentials.find(server)
            client = dial(server, replace(stored, key=key) if key else stored, quiet=True)
            self._connections[server, key] = Connection(await client.__aenter__())
        connection = self._connections[server, key]
        async with connection.room:
            yield connection

    def _end(self) -> None:
        if os.getpid() == self._pid:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_END_S)

    async def _close(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:  # each cancels its submission
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in self._connections.values():
            await connection.client.__aexit__(None, None, None)
        await self._own.close()


_background: Background | None = None
_beginning = threading.Lock()


def background() -> Background:
    """Return that of this process; the first call begins it."""
    global _background
    with _beginning:
        _background = _background or Background()
        return _background


class SyncGraderClient:
    """`GraderClient` without `await`: the same arguments and methods, from any thread. Streams are iterators. Use as a context."""

    def __init__(self, address: str, **options: Any) -> None:
        with unscored():
            self._client = GraderClient(address, **options)

    def __enter__(self) -> Self:
        background().run(self._client.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        background().run(self._client.__aexit__(kind, error, trace))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        if inspect.isasyncgenfunction(method):
            return lambda *args, **options: _iterate(method(*args, **options))
        return lambda *args, **options: background().run(method(*args, **options))


def _iterate(stream: Any) -> Iterator[Any]:
    try:
        while (item := background().run(anext(stream, None))) is not None:
            yield item
    finally:
        background().run(stream.aclose())
