"""Run `grader-server` once its command line is read: serve, and drain when signalled."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Mapping
from typing import Any

import structlog

from grader.config import Settings
from grader.errors import GraderError, ProblemInvalid, SettingsInvalid
from grader.isolation import IsolationBroken
from grader.observability import log as log_setup
from grader.server.connections import bound_arenas, raise_descriptor_limit
from grader.server.grading import Wiring
from grader.server.running import serving
from grader.server.settings import FAILED, USAGE_ERROR, parse_settings
from grader.server.wiring import wired
from grader.state_dir import writable_directory

log = structlog.get_logger()

# The ledger's thread asks for the interpreter after every statement: with the default of 5 ms a busy event loop made each of them wait.
SWITCH_S = 0.0005


def run(options: Mapping[str, Any], wiring: Wiring = wired) -> int:
    """Serve with these settings until SIGTERM or SIGINT; the exit code."""
    settings = parse_settings("grader-server", options)
    if settings is None:
        return USAGE_ERROR
    log_setup.configure(settings.log_format, log_setup.LEVELS[settings.log_level])
    sys.setswitchinterval(SWITCH_S)
    bound_arenas()
    raise_descriptor_limit()
    try:
        with writable_directory(settings.state_dir):  # before problems are looked for in it
            pass
        asyncio.run(_serve(settings, wiring))
    except (GraderError, IsolationBroken) as error:
        sys.stderr.write(f"grader-server: {error}\n")
        return USAGE_ERROR if isinstance(error, (SettingsInvalid, ProblemInvalid)) else FAILED
    return 0


async def _serve(settings: Settings, wiring: Wiring) -> None:
    signalled = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled.set)
    hung_up = asyncio.Event()
    if takes_hang_up():
        loop.add_signal_handler(signal.SIGHUP, hung_up.set)
    async with serving(settings, wiring) as running:
        # What is there now stays: the collector need not look at it again and again, for a tenth of a second in which nobody is answered.
        gc.collect()
        gc.freeze()
        async with asyncio.TaskGroup() as group:
            reloading = group.create_task(running.reload_at(hung_up))
            await signalled.wait()
            reloading.cancel()
        for number in (signal.SIGTERM, signal.SIGINT):  # a second one: no more patience
            loop.add_signal_handler(number, running.abort_running)


def takes_hang_up() -> bool:
    """Return whether SIGHUP has competitions read again. On a terminal it says that the terminal was closed, and ends the server."""
    on_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    return not on_terminal and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
