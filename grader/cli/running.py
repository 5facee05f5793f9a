"""Runs a command to its exit code.  At a signal to end, it cancels the command, so that no untrusted code is left running."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from json import dumps
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from grader.cli.exits import CommandFailed, Exit, GraderFailed, exit_of_error, refused_as
from grader.cli.output import did_you_mean, open_console, plain
from grader.errors import CompetitionNotFound, GraderError, ProblemNotFound
from sandbox.protocol.entry_points import EntryPointInvalid

ECHO_S = 1.0  # `timeout` signals its command, then the group that this is in: the second within this time is not counted
_CODES = {signal.SIGHUP: Exit.HUNG_UP, signal.SIGTERM: Exit.TERMINATED}


def run(work: Coroutine[Any, Any, Exit], *, json: bool = False) -> None:
    """Run a command to its exit code. json: it prints JSON, also where it is refused."""
    ending = SignalScope()
    try:
        code = _run(work, ending, json=json)
    except OSError as error:
        # Anybody who read our output has seen enough, or the terminal went away and sent SIGHUP.
        if ending.code is None and not isinstance(error, BrokenPipeError):
            raise
        code = ending.code or Exit.GRADER_FAILED
    _drop_unwritten()
    gc.freeze()  # the interpreter would look at everything that a server imports once more on its way out
    raise typer.Exit(code)


def begin(app: Callable[[], object]) -> None:
    """Run the command line. Help, the version and usage that no one reads end as quietly as a command does."""
    try:
        app()
    except SystemExit as end:
        # typer and rich write those, and end with 1 where a pipe is closed: here that is another verdict.
        if not isinstance(end.__context__, BrokenPipeError) and _is_read():
            raise
        _drop_unwritten()
        raise SystemExit(int(Exit.GRADER_FAILED)) from None


class SignalScope:
    """Cancels a command at the first SIGTERM or SIGHUP, as asyncio does at Ctrl-C, and breaks it off at the next."""

    def __init__(self) -> None:
        self.code: Exit | None = None  # None until a signal comes
        self._signalled_s = 0.0

    async def run(self, work: Coroutine[Any, Any, Exit]) -> Exit:
        """Do the work, and take signals meanwhile. What is ignored, as under nohup, stays so."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def hear(number: int, _: FrameType | None) -> None:
            if self.code is None:
                self.code, self._signalled_s = _CODES[signal.Signals(number)], time.monotonic()
                loop.call_soon_threadsafe(task.cancel)
            elif time.monotonic() - self._signalled_s > ECHO_S:
                raise KeyboardInterrupt

        # Not the loop's own handlers: those do not run while something keeps the loop, such as a prompt.
        alone = threading.current_thread() is threading.main_thread()  # no other may take signals
        handled = [number for number in _CODES if alone and signal.getsignal(number) is signal.SIG_DFL]
        for number in handled:
            signal.signal(number, hear)
        try:
            return await work
        finally:
            for number in handled:
                signal.signal(number, signal.SIG_DFL)


def _run(work: Coroutine[Any, Any, Exit], ending: SignalScope, *, json: bool) -> Exit:
    try:
        code = asyncio.run(ending.run(work))
        _flush()
    except (CommandFailed, GraderError, EntryPointInvalid) as error:
        text = str(error)
        match error:
            case ProblemNotFound(problem_id=word, available=names, fault="") | CompetitionNotFound(competition_id=word, available=names):
                text += did_you_mean(word, names).replace(" ", ". ", 1)
        open_console(stderr=True).print(plain("error: ", "bold red") + plain(text), soft_wrap=True)
        if json:
            refusal = {key: getattr(error, key, "") or getattr(refused_as(error), key) for key in ("code", "reason")}
            first = re.match(r"(\w+): ", str(error)) if exit_of_error(error) is Exit.MISUSE else None
            field = next((fault.field for fault in getattr(error, "violations", ())), getattr(error, "setting", first[1] if first else ""))
            print(dumps({"error": {**refusal, "field": field, "message": str(error)}}, indent=2))
        return exit_of_error(error)
    except KeyboardInterrupt:
        return ending.code or Exit.INTERRUPTED
    except asyncio.CancelledError:
        if ending.code is None:
            raise
        return ending.code
    return code


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise GraderFailed(f"the output can't be written: {error}") from None


def _is_read() -> bool:
    """Write the rest of the output, and tell if it has a reader."""
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None where there was none to begin with
            stream.flush()
    except BrokenPipeError:
        return False
    except OSError:  # such as a full disk, of which the interpreter tells on its way out
        return True
    return True


def _drop_unwritten() -> None:
    """Have what can't be written go nowhere: the interpreter tries again on its way out, and would end with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError), Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())
