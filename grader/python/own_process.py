"""The server that a process has for its calls: `grader.python.serve` in a child process, which begins with the first call.

In a process of its own neither Ctrl-C nor the caller's own work disturbs it. Both talk in lines of JSON over pipes, which the system closes
when the caller ends, however it does: then the server ends, too.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.api.client import GraderClient
from grader.python.failures import CallInvalid, Unscored
from grader.state_dir import FileStamp, stamp

COMMAND = (sys.executable, "-P", "-m", "grader.python.serve")
_LOOK_S = 0.5
_END_S = 40.0
_LINE_BYTES = 1024 * 1024


@dataclass(slots=True, eq=False)
class ServerProcess:
    """One child process. client, lock: once it serves; the lock's file changes when another process waits for the state directory."""

    process: subprocess.Popen[bytes]
    answers: asyncio.StreamReader
    client: GraderClient | None = None
    lock: tuple[Path, FileStamp | None] = (Path(), None)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def begin(cls) -> ServerProcess:
        """Start it, and do not wait until it serves. It prints what it waits for on stderr."""
        process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        answers = asyncio.StreamReader(limit=_LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(answers), process.stdout)
        return cls(process, answers)

    async def serves(self) -> None:
        """Wait until it serves, and open the client. Where it stops, calls fail at once: nothing brings it back."""
        ready = await self._answer()
        self.lock = (Path(ready["lock"]), stamp(Path(ready["lock"])))
        address = ready["address"].replace("/proc/self/", f"/proc/{self.process.pid}/")
        self.client = await GraderClient(address, patience_s=0.0).__aenter__()

    async def ask(self, **request: str) -> Any:
        """Return its answer to a request."""
        async with self.turn:
            assert self.process.stdin is not None
            with suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps(request).encode() + b"\n")
                self.process.stdin.flush()
            return await self._answer()

    async def close(self) -> None:
        """End it, and wait until it and all that it began have ended."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        if self.client is not None:
            await self.client.__aexit__(None, None, None)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.answers.read(), _END_S)  # to its end; not by a thread, which an interpreter that ends does not give
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        self.process.kill()

    async def _answer(self) -> Any:
        line = await self.answers.readline()
        if not line:
            text = "the grader's own server ended; grader-cli.log in the state directory says more, and `grader-cli doctor` finds causes"
            raise Unscored(text, reason="SERVER_ENDED", code="UNAVAILABLE")
        answer = json.loads(line)
        if fault := answer.get("fault"):
            raise (CallInvalid if answer["misuse"] else Unscored)(fault, reason=answer["reason"], code=answer["code"])
        return answer


class OwnServer:
    """The process's own server. Its methods are for the background loop."""

    def __init__(self, call_limit: int) -> None:
        self.room = asyncio.Semaphore(call_limit)
        self._server: ServerProcess | None = None
        self._ready: asyncio.Task[None] | None = None
        self._call_count = 0

    @property
    def client(self) -> GraderClient:
        """The client, during a call."""
        assert self._server is not None and self._server.client is not None
        return self._server.client

    @asynccontextmanager
    async def call(self) -> AsyncIterator[None]:
        """Have the server there for one call. Between calls another process that waits for the state directory gets its turn."""
        async with self.room:
            self._call_count += 1
            try:
                if self._ready is None or (self._ready.done() and not self._serves()):
                    self._ready = asyncio.create_task(self._begin())
                await asyncio.shield(self._ready)  # of all calls: one that is cancelled does not end it for the rest
                yield
            finally:
                self._call_count -= 1

    async def problem_id(self, path: str) -> str:
        """Return the name of the problem at path, for submissions."""
        assert self._server is not None
        answer = await asyncio.shield(asyncio.create_task(self._server.ask(problem=path)))  # else the next call would read it
        return str(answer["problem"])

    async def close(self) -> None:
        """End the server."""
        server, self._server = self._server, None
        if server is not None:
            await server.close()

    def _serves(self) -> bool:
        return self._server is not None and self._server.client is not None and self._server.process.poll() is None

    async def _begin(self) -> None:
        await self.close()  # one that was killed
        server = self._server = await ServerProcess.begin()
        await server.serves()
        self._watching = asyncio.create_task(self._give_way(server))

    async def _give_way(self, server: ServerProcess) -> None:
        while self._server is server:
            await asyncio.sleep(_LOOK_S)
            if self._call_count == 0 and self._server is server and stamp(server.lock[0]) != server.lock[1]:
                await self.close()
