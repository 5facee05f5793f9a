"""The child process of `background.py`: a server as commands have it, until stdin ends. Needs the extras `server` and `judge`.

Its arguments are the mark of what the caller submits, and the caller's process id.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from grader.api.client import GraderClient
from grader.cli import extras
from grader.cli.exits import UsageError
from grader.cli.session import ServerRequirement, Target, problem_roots
from grader.errors import CallRefused
from grader.python.results import MARK, Unscored, unscored
from grader.state_dir import LOCK_NAME, state_directory
from grader.v1 import submission_pb2

_UNFINISHED = (submission_pb2.SUBMISSION_STATE_QUEUED, submission_pb2.SUBMISSION_STATE_RUNNING)
_REMEDY = ", or name a server: grade(..., server='HOST:PORT')"

Answer = Callable[..., None]


def main() -> None:
    """Serve, and answer on what was stdout; whatever else prints does so on stderr."""
    stream = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**fields: str) -> None:
        stream.write(json.dumps(fields) + "\n")

    with suppress(BrokenPipeError), _answered(answer):
        asyncio.run(_main(answer))


@contextmanager
def _answered(answer: Answer) -> Iterator[None]:
    try:
        with unscored():
            yield
    except Unscored as error:
        answer(kind=type(error).__name__, fault=str(error), reason=error.reason)


async def _main(answer: Answer) -> None:
    loop, reader, requests, ready = asyncio.get_running_loop(), asyncio.StreamReader(), asyncio.Queue[bytes](), asyncio.Event()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, reader.feed_eof)
    _watch_caller(loop, reader.feed_eof)
    serving = asyncio.create_task(_serve(requests, ready, answer))
    serving.add_done_callback(lambda _: reader.feed_eof())
    async for line in reader:
        requests.put_nowait(line)
    requests.put_nowait(b"")
    if not ready.is_set():  # it may wait for the state directory
        serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving


def _watch_caller(loop: asyncio.AbstractEventLoop, end: Callable[[], None]) -> None:
    """Call end when the caller has ended: a fork of it may still have the pipe to stdin."""
    caller = int(sys.argv[2])

    def ended() -> None:
        loop.remove_reader(descriptor)
        end()

    with suppress(OSError):  # it has ended, or this kernel has no such descriptors
        descriptor = os.pidfd_open(caller)
        loop.add_reader(descriptor, ended)
    if os.getppid() != caller:  # asked last: it may have ended, and its number been given to another process
        end()


async def _serve(requests: asyncio.Queue[bytes], ready: asyncio.Event, answer: Answer) -> None:
    modules = ("grader.cli.own_server", "grader.problems.store", "grader.config")
    own_server, store, config = (extras.load(name, "server", "judge", remedy=_REMEDY) for name in modules)
    target, state_dir = Target(), state_directory()
    problems = store.Problems.load(problem_roots(target), state_dir / config.IMPORTED_NAME)
    async with own_server.own_server(target, ServerRequirement.GRADE, problems) as client:
        await _cancel_rest(client)
        answer(address=client.address, lock=str(state_dir / LOCK_NAME))
        ready.set()
        while line := await requests.get():
            with _answered(answer):
                answer(problem=_add(problems, Path(json.loads(line))))
        await _cancel_rest(client)


async def _cancel_rest(client: GraderClient) -> None:
    """Cancel what the caller has submitted, for nobody waits for it: the caller, or its server, was killed."""
    async for page in client.submission_pages(states=_UNFINISHED):
        for submission in page:
            if submission.annotations.get(MARK) == sys.argv[1]:  # others have their own in this state directory
                with suppress(CallRefused):  # it has finished
                    await client.cancel(submission.name)


def _add(problems: Any, path: Path) -> str:
    toolchain = extras.load("grader.isolation.toolchain", "server").host_toolchain(Path("/etc"))
    if visible := [bind.source for bind in toolchain.binds if path.resolve().is_relative_to(bind.source)]:
        # Boxes wait that see it, hidden workloads and all.
        raise UsageError(f"problem: {path} lies in {visible[0]}, which kernels can read; move it, such as to your home directory")
    return str(problems.add(path, again=True).problem_id)


if __name__ == "__main__":
    main()
