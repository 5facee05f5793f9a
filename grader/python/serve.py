"""The child process of `own_process.py`: a server as commands have it, until stdin ends. Needs the extras `server` and `judge`."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from grader.api.client import GraderClient
from grader.cli import extras
from grader.cli.exits import CommandFailed, Exit, UsageError, exit_of_error, refused_as
from grader.cli.session import ServerRequirement, Target, problem_roots
from grader.errors import CallRefused, GraderError
from grader.v1 import submission_pb2
from sandbox.protocol.entry_points import EntryPointInvalid

FAILURES = (CommandFailed, GraderError, EntryPointInvalid)
UNFINISHED = (submission_pb2.SUBMISSION_STATE_QUEUED, submission_pb2.SUBMISSION_STATE_RUNNING)
_REMEDY = ", or name a server: grade(..., server='HOST:PORT')"


def main() -> None:
    """Serve, and answer on what was stdout; whatever else prints does so on stderr."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**fields: object) -> None:
        answers.write(json.dumps(fields) + "\n")

    try:
        asyncio.run(_main(answer))
    except FAILURES as error:
        answer(**_fault(error))
    sys.exit(0)


def _fault(error: Exception) -> dict[str, object]:
    words = {key: getattr(error, key, "") or getattr(refused_as(error), key) for key in ("reason", "code")}
    return {"fault": str(error), "misuse": exit_of_error(error) is Exit.MISUSE, **words}


async def _main(answer: Any) -> None:
    loop, reader, requests = asyncio.get_running_loop(), asyncio.StreamReader(), asyncio.Queue[bytes]()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, reader.feed_eof)
    ready = asyncio.Event()
    serving = asyncio.create_task(_serve(requests, ready, answer))
    serving.add_done_callback(lambda _: reader.feed_eof())
    async for line in reader:
        requests.put_nowait(line)
    requests.put_nowait(b"")
    if not ready.is_set():  # it may wait for the state directory
        serving.cancel()
    await asyncio.wait([serving])
    if not serving.cancelled():
        serving.result()


async def _serve(requests: asyncio.Queue[bytes], ready: asyncio.Event, answer: Any) -> None:
    own_server = extras.load("grader.cli.own_server", "server", "judge", remedy=_REMEDY)
    store, config = extras.load("grader.problems.store", "server"), extras.load("grader.config", "server")
    target, state_dir = Target(), config.state_directory()
    problems = store.Problems.load(problem_roots(target), state_dir / config.IMPORTED_NAME)
    async with own_server.own_server(target, ServerRequirement.GRADE, problems) as client:
        begin_time = datetime.now(UTC)
        answer(address=client.address, lock=str(own_server.lock_path(state_dir)))
        ready.set()
        while line := await requests.get():
            try:
                answer(problem=_add(problems, Path(json.loads(line)["problem"])))
            except FAILURES as error:
                answer(**_fault(error))
        await _cancel_rest(client, begin_time)


def _add(problems: Any, path: Path) -> str:
    toolchain = extras.load("grader.isolation.toolchain", "server")
    visible = [bind.source for bind in toolchain.host_toolchain(Path("/etc")).binds if path.resolve().is_relative_to(bind.source)]
    if visible:  # boxes that are there already see it, hidden workloads and all
        raise UsageError(f"problem: {path} lies in {visible[0]}, which kernels can read; move it, such as to your home directory")
    return str(problems.add(path, again=True).problem_id)


async def _cancel_rest(client: GraderClient, begin_time: datetime) -> None:
    """Cancel what this server was given and nobody waits for, as of a caller that was killed: the next server would grade it."""
    page = await client.list_submissions(states=UNFINISHED, page_size=1000)
    for submission in page.submissions:
        if submission.create_time.ToDatetime(UTC) >= begin_time:
            try:
                await client.cancel(submission.name)
            except CallRefused:  # it has finished
                continue


if __name__ == "__main__":
    main()
