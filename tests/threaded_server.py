"""A server in a thread of its own, for commands that run an event loop themselves."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import structlog
import trustme

from grader.cli.own_server import log_to
from grader.config import Settings
from grader.observability import log
from grader.server import admin
from grader.server.running import embedded, serving
from tests import fakes

START_S = 300.0
Entered = TypeVar("Entered")


@dataclass(frozen=True, slots=True)
class ThreadedServer:
    """Where it listens, and where its ledger and its authority's certificate are."""

    address: str
    state_dir: Path
    ca: Path

    def admin(self, *words: object) -> int:
        """Run `grader-server admin keys`."""
        return admin.main(["keys", *map(str, words), "--state-dir", str(self.state_dir)])

    def key(self, *words: object) -> str:
        """A new key's text, of `admin keys create`."""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            assert self.admin("create", *words) == 0
        return printed.getvalue().strip()


def certificates(root: Path) -> dict[str, Path]:
    """Settings with a certificate for 127.0.0.1, whose authority's is in ca.pem."""
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(root / "ca.pem")
    issued.cert_chain_pems[0].write_to_path(root / "server.pem")
    issued.private_key_pem.write_to_path(root / "server.key")
    return {"tls_certificate": root / "server.pem", "tls_key": root / "server.key"}


@contextmanager
def in_thread(context: AbstractAsyncContextManager[Entered]) -> Iterator[Entered]:
    """Hold the context open in the event loop of another thread."""
    entered: list[Entered] = []
    up, loop, ending = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def hold() -> None:
        async with context as value:
            entered.append(value)
            up.set()
            await ending.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(hold(),))
    thread.start()
    try:
        assert up.wait(START_S), "the server did not start"
        yield entered[0]
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()
        loop.close()


@contextmanager
def threaded_server(root: Path, grade: fakes.FakeGrade | None = None, **changes: object) -> Iterator[ThreadedServer]:
    """Serve the problem `sum` with a fake grade, asking for keys unless `auth` says otherwise."""
    fakes.write_problem(root / "problems")
    fixed = {"listen": "127.0.0.1:0", "state_dir": root / "state", "problems": (root / "problems",), "drain_s": 0.1, "auth": "keys"}
    settings = Settings(**{**fixed, **changes})
    log.configure("json", level=50)
    with in_thread(serving(settings, fakes.wiring(grade))) as running:
        yield ThreadedServer(running.address, settings.state_dir, root / "ca.pem")


@contextmanager
def embedded_server(root: Path, **changes: object) -> Iterator[str]:
    """The address of a command's own server for the problem `sum`, with a fake grade."""
    fakes.write_problem(root / "problems")
    settings = Settings(state_dir=root / "state", problems=(root / "problems",), drain_s=0.1, **changes)
    log_to(root / "log")  # not to stdout, which the tests read
    with in_thread(embedded(settings, wiring=fakes.wiring())) as address:
        yield address
    structlog.reset_defaults()
