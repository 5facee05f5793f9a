"""Opens the way to a server: one that is named, or one that this command runs itself."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from grader.api import credentials
from grader.api.client import GraderClient
from grader.api.credentials import Credential
from grader.cli.exits import GraderFailed
from grader.cli.progress import stderr_console
from grader.cli.text import one_line
from grader.errors import StateDirectoryInUse
from grader.isolations import AUTO

EXAMPLES = Path(__file__).resolve().parents[2] / "kernels_examples"  # there in a source tree only
LOG_NAME = "grader-cli.log"
_LOG_LIMIT_BYTES = 4 * 1024 * 1024
_DRAIN_S = 2.0  # what else was in the queue goes back to it


class Need(Enum):
    """What a command needs of a server of its own."""

    READ = auto()  # what the state directory holds
    FOLLOW = auto()  # grading, but another command that grades there will do
    GRADE = auto()  # grading, after every other command there


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which server a command talks to. server: HOST:PORT; None is the command's own."""

    server: str | None = None
    state_dir: Path | None = None
    sandbox: str = AUTO
    device: str = "auto"
    problem_dirs: tuple[Path, ...] = ()
    quiet: bool = False  # say nothing while waiting for another command


@asynccontextmanager
async def connect(target: Target, need: Need) -> AsyncIterator[GraderClient]:
    """A client of the server that target names, or of the command's own."""
    if target.server is not None:
        async with dial(target.server, credentials.find(target.server)) as client:
            yield client
        return
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(_own(target, need))
        except StateDirectoryInUse:
            if need is not Need.FOLLOW:
                raise
            client = await stack.enter_async_context(_own(target, Need.READ))
        yield client


def dial(server: str, credential: Credential) -> GraderClient:
    """A client of a server that is named."""
    return GraderClient(
        server,
        key=credential.key,
        tls=credential.tls,
        ca=None if credential.ca is None else credential.ca.encode(),
        plain_text_key=credential.plain_text,
        patience_s=10.0,
    )


@asynccontextmanager
async def _own(target: Target, need: Need) -> AsyncIterator[GraderClient]:
    # Only here: the server takes most of a second to import, and a command that names another does not need it.
    from grader.config import Settings, state_directory
    from grader.isolation.errors import IsolationBroken
    from grader.server.embedded import embedded

    roots = (*target.problem_dirs, *((EXAMPLES,) if EXAMPLES.is_dir() else ()))
    state_dir = target.state_dir or state_directory()
    settings = Settings(state_dir=state_dir, problems=roots, sandbox=target.sandbox, device=target.device, drain_s=_DRAIN_S)
    waiting = None if need is Need.FOLLOW else _silent if target.quiet else _say
    async with AsyncExitStack() as stack:
        try:
            log_to(settings.state_dir / LOG_NAME)
            address = await stack.enter_async_context(embedded(settings, reader=need is Need.READ, waiting=waiting))
        except IsolationBroken as error:
            raise GraderFailed(f"{error}; 'grader-cli doctor' says more") from None
        except OSError as error:
            raise GraderFailed(f"the state directory {settings.state_dir} can't be used: {error}; name another with --state-dir") from None
        yield await stack.enter_async_context(GraderClient(address))


def log_to(path: Path) -> None:
    """Send the server's log to a file: the terminal is for the report, and a log may quote untrusted text."""
    import structlog

    from grader.observability.log import TRACEBACKS

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if fresh else os.O_APPEND), 0o600)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            TRACEBACKS,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(os.fdopen(descriptor, "a", buffering=1)),
        cache_logger_on_first_use=False,
    )


def _say(line: str) -> None:
    stderr_console().print(f"waiting: {one_line(line)}", soft_wrap=True)


def _silent(line: str) -> None:
    pass
