"""The server that a command runs itself, without `--server`.  Needs the extra `server`: only `grader/cli/extras.py` imports this."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from grader import devices
from grader.api.client import GraderClient
from grader.cli import extras
from grader.cli.exits import GraderFailed
from grader.cli.output import print_note
from grader.cli.session import ServerRequirement, Target, problem_roots
from grader.dispatch.gpus import discover
from grader.dispatch.lanes import JudgeProcess
from grader.isolation import IsolationBroken
from grader.observability import log as log_setup
from grader.state_dir import lock_holder, state_directory
from grader.views.sanitize import one_line

if TYPE_CHECKING:
    from grader.problems.store import Problems

LOG_NAME = "grader-cli.log"
_LOG_LIMIT_BYTES = 4 * 1024 * 1024
_DRAIN_S = 2.0  # what else was in the queue goes back to it


@asynccontextmanager
async def own_server(target: Target, need: ServerRequirement, problems: Problems | None = None) -> AsyncIterator[GraderClient]:
    """Run a server in this process and yield a client of it. problems: None: those of the target."""
    state_dir = (target.state_dir or state_directory()).absolute()

    def tell_waiting(line: str) -> None:
        if not target.quiet:
            print_note(f"waiting: {one_line(line)}")

    waiting = None if need is ServerRequirement.FOLLOW else tell_waiting
    judge = JudgeProcess(devices.EMULATED)  # of the one emulated lane
    async with AsyncExitStack() as stack:
        stack.push_async_callback(judge.close)
        try:
            log_to(state_dir / LOG_NAME)
            alone = need is ServerRequirement.GRADE and lock_holder(state_dir) is None  # else it would take cores of the one that grades
            if alone and (target.device == devices.EMULATED or not discover()):
                await judge.begin()
            # Imported only now, next to the judge's own imports: each takes half a second or more.
            running, config = extras.load("grader.server.running", "server"), extras.load("grader.config", "server")
            chosen = {"sandbox": target.sandbox, "device": target.device}
            settings = config.Settings(state_dir=state_dir, problems=problem_roots(target), drain_s=_DRAIN_S, **chosen)
            # Its one user reads at once what is wrong, and does not wait for a kernel that is not theirs.
            wiring = partial(running.wired, proving=False, make_judge=lambda kind, *gpu: JudgeProcess(kind, *gpu) if gpu[0] else judge)
            server = running.embedded(settings, reader=need is ServerRequirement.READ, waiting=waiting, wiring=wiring, problems=problems)
            address = await stack.enter_async_context(server)
        except IsolationBroken as error:
            raise GraderFailed(f"{error}; 'grader-cli doctor' says more") from None
        except OSError as error:
            raise GraderFailed(f"the state directory {state_dir} can't be used: {error}; name another with --state-dir") from None
        yield await stack.enter_async_context(GraderClient(address))


def log_to(path: Path) -> None:
    """Send the server's log to a file: the terminal is for the report, and a log may quote untrusted text."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if fresh else os.O_APPEND), 0o600)
    log_setup.configure("json", file=os.fdopen(descriptor, "a", buffering=1))
