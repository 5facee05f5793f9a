"""Opens the way to a server: one that is named, or one that this command runs itself."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from grader.api import credentials
from grader.api.client import GraderClient
from grader.api.credentials import Credential
from grader.cli import extras
from grader.cli.output import print_note
from grader.errors import StateDirectoryInUse
from grader.isolations import AUTO
from grader.views.sanitize import one_line

EXAMPLES = Path(__file__).resolve().parents[2] / "kernels_examples"  # there in a source tree only

REACH_S = 10.0  # for a server that has not answered yet: its address may be wrong
RESTART_S = 300.0


class ServerRequirement(Enum):
    """Needs of a command that runs a server of its own."""

    READ = auto()  # what the state directory holds
    WRITE = auto()  # to change that, after every other command there
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
    quiet: bool = False  # say nothing while waiting for another command, or for a server
    restart_s: float = RESTART_S  # how long to wait for a server that has answered and is away


@asynccontextmanager
async def connect(target: Target, need: ServerRequirement) -> AsyncIterator[GraderClient]:
    """A client of the server that target names, or of the command's own."""
    if target.server is not None:
        credential = credentials.find(target.server)
        # What is followed was submitted before, so that the address was right: the server may be away from the beginning.
        reach_s = target.restart_s if need is ServerRequirement.FOLLOW else min(REACH_S, target.restart_s)
        async with dial(target.server, credential, quiet=target.quiet, reach_s=reach_s, restart_s=target.restart_s) as client:
            yield client
        return
    async with AsyncExitStack() as stack:
        try:
            client = await stack.enter_async_context(_own(target, need))
        except StateDirectoryInUse:
            if need is not ServerRequirement.FOLLOW:
                raise
            client = await stack.enter_async_context(_own(target, ServerRequirement.READ))
        yield client


def problem_roots(target: Target) -> tuple[Path, ...]:
    """Return where a command's own problems are, besides those that were imported."""
    return (*target.problem_dirs, *((EXAMPLES,) if EXAMPLES.is_dir() else ()))


def dial(
    server: str, credential: Credential, *, quiet: bool = False, reach_s: float = REACH_S, restart_s: float = RESTART_S
) -> GraderClient:
    """A client of a server that is named. One that has answered is waited for where it is away, as during a restart."""
    return GraderClient(
        server,
        key=credential.key,
        tls=credential.tls,
        ca=None if credential.ca is None else credential.ca.encode(),
        plain_text_key=credential.plain_text,
        patience_s=reach_s,
        restart_s=restart_s,
        on_absence=lambda sentence: None if quiet else print_note(one_line(sentence)),
        client_name=f"{os.getuid()}@{os.uname().nodename!a}",  # of this login: each command is a process, and a loop of them one client
    )


def _own(target: Target, need: ServerRequirement) -> AbstractAsyncContextManager[GraderClient]:
    needed = ("server",) if need is ServerRequirement.READ else ("server", "judge")  # one that grades nothing needs no PyTorch
    own_server = extras.load("grader.cli.own_server", *needed, remedy=extras.OTHER_SERVER).own_server
    opened: AbstractAsyncContextManager[GraderClient] = own_server(target, need)
    return opened
