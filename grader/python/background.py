"""The thread of this process that has an event loop: clients and the process's own server belong to it, whichever thread calls."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from grader.api import credentials
from grader.api.client import GraderClient
from grader.cli.session import dial
from grader.errors import ServerUnreachable
from grader.python import results
from grader.python.results import MARK, CallInvalid, Unscored
from grader.state_dir import FileStamp, stamp

T = TypeVar("T")

CALL_LIMIT = 96  # at a time on one client: a server answers 200 calls on a connection, and the rest wait here
_COMMAND = (sys.executable, "-P", "-m", "grader.python.serve")
_LOOK_S, _END_S = 0.5, 40.0
_FORKED = (
    "this process was forked from one that had begun to use grader, and can't use what that began; start workers by "
    "multiprocessing.get_context('spawn'), or make the first call in the workers"
)


class Connection:
    """A client of a server that is named, and the calls on it. For the background loop, as is what is below it."""

    def __init__(self, client: GraderClient) -> None:
        self.client, self._room = client, asyncio.Semaphore(CALL_LIMIT)
        self.annotations = dict[str, str]()  # of what is submitted

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Have it there for one call."""
        async with self._room:
            yield

    async def problem_id(self, path: str) -> str:
        """Return the name of the problem at path, for submissions."""
        text = f"problem: the server does not see {path}; have it imported there (`grader-cli problems import`), and give its name"
        raise CallInvalid(text, "INVALID_REQUEST")


class OwnServer(Connection):
    """The process's own server: `serve.py` in a child process, which neither Ctrl-C nor the caller's work disturbs, from the first call on.

    Both talk in lines of JSON over pipes. The system closes them when the caller ends, however it does: then the server ends, too.
    """

    _process: subprocess.Popen[bytes] | None = None
    _ready: asyncio.Task[None] | None = None
    _call_count = 0

    def __init__(self) -> None:
        super().__init__(GraderClient("unix:"))  # until it is there
        self.annotations[MARK] = uuid.uuid4().hex
        self._command = (*_COMMAND, self.annotations[MARK], str(os.getpid()))

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Have it there for one call. Between calls another process that waits for the state directory gets its turn."""
        async with super().call():
            self._call_count += 1
            try:
                if self._ready is None or (self._ready.done() and (self._process is None or self._process.poll() is not None)):
                    self._ready = asyncio.create_task(self._begin())
                ready = self._ready
                await asyncio.shield(ready)  # of all calls: one that is cancelled does not end it for the rest
                try:
                    yield
                except ServerUnreachable:  # it was killed, though the system may not say so yet
                    self._ready = None if self._ready is ready else self._ready
                    raise
            finally:
                self._call_count -= 1

    async def problem_id(self, path: str) -> str:
        """Return the name of the problem at path, which the server reads now."""

        async def ask() -> str:
            async with self._turn:
                assert self._process is not None and self._process.stdin is not None
                with suppress(BrokenPipeError):
                    self._process.stdin.write(json.dumps(path).encode() + b"\n")
                return str((await self._answer())["problem"])

        return await asyncio.shield(asyncio.create_task(ask()))  # else the next call would read its answer

    async def close(self) -> None:
        """End it, and wait until all that it began has ended."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()  # a fork of the caller may have the pipe, too
        with suppress(TimeoutError):
            await asyncio.wait_for(self._answers.read(), _END_S)  # no thread waits: an interpreter that ends begins none
        process.kill()
        process.wait()

    async def _begin(self) -> None:
        await self.close()  # one that was killed
        self._process = subprocess.Popen(self._command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._turn, self._answers = asyncio.Lock(), asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(self._answers)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._process.stdout)
        ready = await self._answer()
        address, lock = ready["address"].replace("/proc/self/", f"/proc/{self._process.pid}/"), Path(ready["lock"])
        self.client = await GraderClient(address, patience_s=0.0).__aenter__()  # nothing brings it back where it is away
        self._giving_way = asyncio.create_task(self._give_way(self._process, lock, stamp(lock)))

    async def _answer(self) -> Any:
        answer = json.loads(await self._answers.readline() or '{"kind": "Unscored"}')
        if kind := answer.get("kind"):
            ended = "the grader's own server ended; grader-cli.log in the state directory says more"
            raise getattr(results, kind)(answer.get("fault", ended), answer.get("reason", "SERVER_ENDED"))
        return answer

    async def _give_way(self, process: subprocess.Popen[bytes], lock: Path, begun: FileStamp | None) -> None:
        while self._process is process and (self._call_count or stamp(lock) == begun):  # who waits for the lock touches it
            await asyncio.sleep(_LOOK_S)
        if self._process is process:
            await self.close()


class Background:
    """A loop in a thread of its own."""

    def __init__(self) -> None:
        self._pid, self._loop, self._own = os.getpid(), asyncio.new_event_loop(), OwnServer()
        self._connections: dict[tuple[str, str], Connection] = {}
        threading.Thread(target=self._loop.run_forever, name="grader", daemon=True).start()
        atexit.register(self._end)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin work in the loop. Cancelling the future cancels it."""
        if os.getpid() != self._pid:
            work.close()
            raise Unscored(_FORKED, "FORKED")
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do work in the loop, and wait for it in this thread. Ctrl-C cancels it."""
        future = self.begin(work)
        try:
            return future.result()
        finally:
            future.cancel()

    async def connection(self, server: str | None, key: str) -> Connection:
        """Return the way to a server that is named, or with None to this process's own. In the loop only."""
        if not server:
            return self._own
        if (server, key) not in self._connections:
            stored = credentials.find(server)
            client = await dial(server, replace(stored, key=key) if key else stored, quiet=True).__aenter__()
            self._connections[server, key] = Connection(client)
        return self._connections[server, key]

    def _end(self) -> None:
        if os.getpid() == self._pid:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    async def _close(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:  # each cancels its submission
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._own.close()


_background: Background | None = None
_beginning = threading.Lock()


def background() -> Background:
    """Return that of this process, which the first call begins."""
    global _background
    with _beginning:
        _background = _background or Background()
        return _background


class SyncGraderClient:
    """`GraderClient` without `await`: the same arguments and methods, from any thread; streams are iterators. Use as a context."""

    def __init__(self, address: str, **options: Any) -> None:
        self._client = GraderClient(address, **options)

    def __enter__(self) -> Self:
        background().run(self._client.__aenter__())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        background().run(self._client.__aexit__(kind, error, trace))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        if inspect.isasyncgenfunction(method):
            return lambda *arguments, **options: _iterate(method(*arguments, **options))
        return lambda *arguments, **options: background().run(method(*arguments, **options))


def _iterate(stream: Any) -> Iterator[Any]:
    async def following() -> Any:
        return await anext(stream, None)

    try:
        while (message := background().run(following())) is not None:
            yield message
    finally:
        background().run(stream.aclose())
