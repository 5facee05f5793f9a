"""`grade` and `agrade`: one call for each kernel."""

from __future__ import annotations

import asyncio
import os
import random
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict, Unpack

from grader.api.client import GraderClient
from grader.api.resource_names import PROBLEMS, resource_id
from grader.api.statuses import reason_of
from grader.cli import sources
from grader.cli.exits import UsageError
from grader.cli.output import open_console
from grader.cli.progress import PlainLines, ProgressDisplay
from grader.cli.submit import build_submission, follow
from grader.errors import GraderError, QueueFull, QueueShareUsed
from grader.model import SourceFile
from grader.python.background import background
from grader.python.functions import kernel_source
from grader.python.results import CallInvalid, KernelInvalid, Result, Unscored, unscored
from grader.v1 import submission_pb2
from grader.views.sanitize import one_line
from sandbox.protocol.modes import Mode

Kernel = str | os.PathLike[str] | Sequence[os.PathLike[str]] | Mapping[str, str] | Callable[..., Any]
ProblemChoice = str | os.PathLike[str]

_CANCEL_S, _SHOWN_CHARS = 10.0, 200
_UNSENDABLE = (AttributeError, TypeError, ValueError)  # bytes for text, half of a pair of surrogates


class GradeOptions(TypedDict, total=False):
    """Options of a call."""

    mode: str  # test, the default; benchmark, which also times; ranked, sanitize or profile
    device: str  # auto, emulated, cuda, cuda:H200
    server: str | None  # HOST:PORT or unix:PATH; None: $GRADER_SERVER, else one that this process starts, and keeps
    key: str  # ""; $GRADER_KEY, or that of `grader-cli login`
    language: str  # "": detected
    entry: str  # "": the problem's
    tags: Sequence[str]
    timeout_s: float | None  # for all of it; then the submission is cancelled
    cascade: bool  # on the emulated device first, where it would run on a GPU
    skip_sanitizer: bool  # do not look for the causes of a wrong result on the emulated device


def grade(kernel: Kernel, problem: ProblemChoice, **options: Unpack[GradeOptions]) -> Result:
    """Grade a kernel and wait for the result. Every other end raises `Unscored`, or one below it.

    kernel: a path, or several; text, which has a line break; texts by their file names; or a Python function, whose module is sent. Give
    text that a model wrote by a file name, as in {"kernel.py": text}: then it is never taken for a path. problem: a name, the path of a
    problem, or a `Problem`. options: those of `GradeOptions`.
    """
    return background().run(_graded(notebook_progress(), kernel, problem, **options))


async def agrade(kernel: Kernel, problem: ProblemChoice, **options: Unpack[GradeOptions]) -> Result:
    """Grade a kernel as `grade` does, from any event loop. Cancelling it cancels the submission. Any number may run at a time: those for
    which a server has no room wait."""
    return await asyncio.wrap_future(background().begin(_graded(ProgressDisplay(), kernel, problem, **options)))


async def _graded(
    display: ProgressDisplay,
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
    cascade: bool = False,
    skip_sanitizer: bool = False,
) -> Result:
    try:
        with _sendable(), unscored():
            limit = asyncio.timeout(timeout_s)
            if mode not in list(Mode):
                raise UsageError(f"mode: {mode!r} is none; take one of: {', '.join(Mode)}")
            path = _problem_path(problem)
            if callable(kernel) and not entry and not isinstance(kernel, type):
                entry = getattr(kernel, "__name__", "")
            order = submission_pb2.Submission(
                language=language,
                entry=entry,
                device_kind="" if device == "auto" else device,
                mode=f"MODE_{mode.upper()}",
                tags=tags,
                skip_sanitizer=skip_sanitizer,
                cascade=cascade,
            )
            message = build_submission(_files(kernel, path.name if path else resource_id(PROBLEMS, str(problem)), language), order)
        with unscored():
            async with limit:
                with _sendable():
                    connection = await background().connection(server or os.environ.get("GRADER_SERVER"), key)
                async with connection.call():
                    message.annotations.update(connection.annotations)
                    if path:
                        message.problem = f"problems/{await connection.problem_id(str(path))}"
                    final = await _followed(connection.client, message, display)
    except OSError as error:
        if timeout_s is None or not isinstance(error, TimeoutError):
            raise Unscored(f"the call failed: {error!r}") from error
        raise Unscored(f"no verdict within {timeout_s:g} s; the submission is cancelled", "TIMED_OUT") from None
    if final.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED:
        return Result(final)
    fault = final.error.message or "it was cancelled before it was graded"
    raise Unscored(f"{final.name}: {fault}", reason_of(final.error) or "CANCELLED")


@contextmanager
def _sendable() -> Iterator[None]:
    try:
        yield
    except _UNSENDABLE as error:
        raise CallInvalid(f"an argument can't be sent: {error}", "INVALID_REQUEST") from error


def _problem_path(problem: ProblemChoice) -> Path | None:
    path = Path(problem).absolute()
    try:
        exists = path.exists()
    except OSError as error:
        raise UsageError(f"problem: {str(path)[:_SHOWN_CHARS]!r} can't be read: {error.strerror}") from None
    if exists and (not isinstance(problem, str) or "/" in problem or path.suffix):
        return path
    if not isinstance(problem, str) or "/" in resource_id(PROBLEMS, problem) or path.suffix:
        raise UsageError(f"problem: {path} does not exist; check the path, or give the name of a problem")
    return None


def _files(kernel: Kernel, problem_id: str, language: str) -> sources.SubmittedFiles:
    if isinstance(kernel, bytes) or (isinstance(kernel, str) and "\n" in kernel):
        kernel = {"": kernel}
    if not isinstance(kernel, Mapping) and not callable(kernel):
        paths = [kernel] if isinstance(kernel, str | os.PathLike) else kernel
        return sources.read([Path(path) for path in paths], problem_id)
    try:
        kernel = kernel if isinstance(kernel, Mapping) else {"kernel.py": kernel_source(kernel)}
        files = [SourceFile(path=path or sources.file_name(text, language), content=text) for path, text in kernel.items()]
        sources.check_size(files)
        "".join(file.path for file in files).encode()
    except (UsageError, OSError, SyntaxError, *_UNSENDABLE) as error:
        text = str(error) if isinstance(error, UsageError) else f"sources: not text that can be sent: {error}"
        raise KernelInvalid(text, "INVALID_SUBMISSION") from None
    return sources.SubmittedFiles(sources=tuple(files), problem_id=problem_id)


async def _followed(client: GraderClient, message: submission_pb2.Submission, display: ProgressDisplay) -> submission_pb2.Submission:
    submitting = asyncio.create_task(_submitted(client, message))
    try:
        return await follow(client, (await asyncio.shield(submitting)).name, display)
    except asyncio.CancelledError:
        with suppress(GraderError, TimeoutError):
            async with asyncio.timeout(_CANCEL_S):
                await client.cancel((await submitting).name)
        raise


async def _submitted(client: GraderClient, message: submission_pb2.Submission) -> submission_pb2.Submission:
    request_id = str(uuid.uuid4())
    while True:
        try:
            return await client.submit(message, request_id=request_id)
        except (QueueFull, QueueShareUsed) as full:
            await asyncio.sleep(full.retry_s * random.uniform(1.0, 1.5))


class NotebookProgress(PlainLines):
    """Lines below the cell that runs. handle: IPython's, of an output that can be changed."""

    def __init__(self, handle: Any) -> None:
        super().__init__(open_console())
        self._handle, self._lines = handle, list[str]()

    def say(self, line: str) -> None:
        """Show one line more."""
        self._lines.append(one_line(line))
        self._handle.update({"text/plain": "\n".join(self._lines)}, raw=True)


def notebook_progress() -> ProgressDisplay:
    """Return what shows progress in a notebook, and nothing elsewhere."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return ProgressDisplay()
    return NotebookProgress(ipython.display.display({"text/plain": "queued"}, raw=True, display_id=True))
