"""`grade` and `agrade`: one call for each kernel."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from grader.api.client import GraderClient
from grader.api.resource_names import PROBLEMS, resource_id
from grader.api.statuses import reason_of
from grader.cli import sources
from grader.cli.exits import UsageError
from grader.cli.progress import GradingStages, ProgressDisplay
from grader.cli.submit import build_submission, follow
from grader.errors import FieldViolation, GraderError, InvalidSubmission, QueueFull, QueueShareUsed
from grader.model import SourceFile
from grader.python.background import background
from grader.python.failures import KernelInvalid, Unscored, unscored
from grader.python.results import Result
from grader.v1 import submission_pb2
from grader.views.sanitize import one_line
from sandbox.protocol.modes import Mode

Kernel = str | os.PathLike[str] | Sequence[os.PathLike[str]] | Mapping[str, str]
ProblemChoice = str | os.PathLike[str]

_CANCEL_S = 10.0


def grade(
    kernel: Kernel,
    problem: ProblemChoice,
    *,
    mode: str = "test",
    device: str = "auto",
    server: str | None = None,
    key: str = "",
    language: str = "",
    entry: str = "",
    tags: Sequence[str] = (),
    timeout_s: float | None = None,
    skip_sanitizer: bool = False,
) -> Result:
    """Grade a kernel and wait for the result. Every other end raises `Unscored`, or one below it.

    kernel: a path, or several; text, which has a line break (a text without one is a path); texts by their paths; or a Python function,
    whose source is sent. For text that a model wrote, which must never be taken for a path, give texts by their paths.
    problem: a name, the path of one, or a `Problem`. mode: test, benchmark (with times), ranked, sanitize or profile.
    server: HOST:PORT or unix:PATH; None: $GRADER_SERVER, else one that this process starts, and keeps. key: of a server that asks for one;
    "": $GRADER_KEY, or that of `grader-cli login`. language, entry: detected; the problem's. timeout_s: for all of it; then the submission
    is cancelled. skip_sanitizer: do not look for the causes of a wrong result on the emulated device.
    """
    message, path = _request(kernel, problem, mode, device, language, entry, tags, skip_sanitizer)
    server = server or os.environ.get("GRADER_SERVER")
    return background().run(_graded(message, path, server, key, timeout_s, notebook_progress()))


async def agrade(
    kernel: Kernel,
    problem: ProblemChoice,
    *,
    mode: str = "test",
    device: str = "auto",
    server: str | None = None,
    key: str = "",
    language: str = "",
    entry: str = "",
    tags: Sequence[str] = (),
    timeout_s: float | None = None,
    skip_sanitizer: bool = False,
) -> Result:
    """Grade a kernel as `grade` does, from any event loop. Cancelling it cancels the submission. Any number may run at a time: those for
    which a server has no room wait."""
    message, path = _request(kernel, problem, mode, device, language, entry, tags, skip_sanitizer)
    server = server or os.environ.get("GRADER_SERVER")
    work = _graded(message, path, server, key, timeout_s, notebook_progress())
    return await asyncio.wrap_future(background().begin(work))


def _request(
    kernel: Kernel,
    problem: ProblemChoice,
    mode: str,
    device: str,
    language: str,
    entry: str,
    tags: Sequence[str],
    skip_sanitizer: bool,
) -> tuple[submission_pb2.Submission, str | None]:
    """Return the submission, and the path of its problem where it has one; then the server that reads it knows its name."""
    with unscored():
        if mode not in list(Mode):
            raise UsageError(f"mode: {mode!r} is none; take one of: {', '.join(Mode)}")
        path = _problem_path(problem)
        problem_id = "" if path else resource_id(PROBLEMS, str(problem))
        order = submission_pb2.Submission(
            language=language,
            entry=entry,
            device_kind="" if device == "auto" else device,
            mode=f"MODE_{mode.upper()}",
            tags=tags,
            skip_sanitizer=skip_sanitizer,
        )
        return build_submission(_files(kernel, problem_id or "from_its_path", language), order), path


def _problem_path(problem: ProblemChoice) -> str | None:
    path = Path(problem).absolute()
    if path.exists() and (not isinstance(problem, str) or "/" in problem or path.suffix):
        return str(path)
    if not isinstance(problem, str) or "/" in resource_id(PROBLEMS, problem) or Path(problem).suffix:
        raise UsageError(f"problem: {path} does not exist; check the path, or give the name of a problem")
    return None


def _files(kernel: Kernel, problem_id: str, language: str) -> sources.SubmittedFiles:
    if isinstance(kernel, Mapping):
        return _texts(kernel, problem_id)
    if isinstance(kernel, str):
        if "\n" in kernel:
            try:
                return _texts({sources.file_name(kernel, language): kernel}, problem_id)
            except UsageError as error:
                raise KernelInvalid(str(error), reason=error.reason, code=error.code) from None
        kernel = Path(kernel)
    paths = [kernel] if isinstance(kernel, os.PathLike) else list(kernel)
    return sources.read([Path(path) for path in paths], problem_id)


def _texts(texts: Mapping[str, str], problem_id: str) -> sources.SubmittedFiles:
    for path, text in texts.items():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            violation = FieldViolation("sources", f"{path!r} is no text: {error.reason} at {error.start}; leave that out")
            raise InvalidSubmission([violation]) from None
    files = tuple(SourceFile(path=path, content=text) for path, text in texts.items())
    try:
        sources.check_size(files)
    except UsageError as error:
        raise KernelInvalid(str(error), reason=error.reason, code=error.code) from None
    return sources.SubmittedFiles(sources=files, problem_id=problem_id)


async def _graded(
    message: submission_pb2.Submission,
    problem_path: str | None,
    server: str | None,
    key: str,
    timeout_s: float | None,
    display: ProgressDisplay,
) -> Result:
    try:
        with unscored():
            async with asyncio.timeout(timeout_s), background().connection(server, key) as connection:
                if problem_path is not None:
                    message.problem = f"problems/{await connection.problem_id(problem_path)}"
                final = await _followed(connection.client, message, display)
    except TimeoutError:
        text = f"no verdict within {timeout_s:g} s; the submission is cancelled"
        raise Unscored(text, reason="TIMED_OUT", code="DEADLINE_EXCEEDED") from None
    if final.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED:
        return Result(final)
    cancelled = final.state == submission_pb2.SUBMISSION_STATE_CANCELLED
    text = "it was cancelled before it was graded" if cancelled else final.error.message or "the grader failed"
    raise Unscored(f"{final.name}: {text}", reason="CANCELLED" if cancelled else reason_of(final.error), name=final.name)


async def _followed(client: GraderClient, message: submission_pb2.Submission, display: ProgressDisplay) -> submission_pb2.Submission:
    submitting = asyncio.create_task(_submitted(client, message))
    try:
        submission = await asyncio.shield(submitting)
        return await follow(client, submission.name, display)
    except asyncio.CancelledError:
        with suppress(GraderError, TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                await client.cancel((await submitting).name)
        submitting.cancel()
        raise


async def _submitted(client: GraderClient, message: submission_pb2.Submission) -> submission_pb2.Submission:
    """Hand it in. Where there is no room for more, wait until there is."""
    request_id = str(uuid.uuid4())
    while True:
        try:
            return await client.submit(message, request_id=request_id)
        except (QueueFull, QueueShareUsed) as full:
            await asyncio.sleep(full.retry_s * random.uniform(1.0, 1.5))


class NotebookProgress(ProgressDisplay):
    """Lines below the cell that runs. handle: IPython's, of one output that can be changed."""

    def __init__(self, handle: Any) -> None:
        self._handle, self._stages, self._lines = handle, GradingStages(time.monotonic()), list[str]()

    def feed(self, event: submission_pb2.SubmissionEvent) -> None:
        """Show the lines that an event adds."""
        for line in self._stages.feed(event, time.monotonic()):
            self.say(line)

    def say(self, line: str) -> None:
        """Show one line more."""
        self._lines.append(one_line(line))
        self._handle.update({"text/plain": "\n".join(self._lines)}, raw=True)


def notebook_progress() -> ProgressDisplay:
    """Return what shows progress in a notebook, and nothing elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return ProgressDisplay()
    return NotebookProgress(ipython.display.display({"text/plain": "queued"}, raw=True, display_id=True))  # type: ignore[union-attr]
