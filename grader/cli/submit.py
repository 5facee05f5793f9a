"""`grader-cli submit` and `watch`: hand a kernel in, follow it, and say what became of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from grader.api.client import AWAY, GraderClient
from grader.api.resource_names import COMPETITIONS, SUBMISSIONS, full_name, resource_id
from grader.cli import extras, sources
from grader.cli.exits import Exit, GraderFailed, UsageError
from grader.cli.options import DeviceOption, Json, Name, SandboxOption, Server, StateDir
from grader.cli.output import print_line, print_note
from grader.cli.progress import ProgressDisplay, progress
from grader.cli.saved_files import open_directory, save_artifacts
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.submissions import print_submission, whole_name
from grader.errors import CallRefused, GraderError, ServerUnreachable
from grader.isolations import AUTO
from grader.v1 import report_pb2, submission_pb2
from grader.views.formatting import verdict_name
from grader.views.sanitize import one_line
from sandbox.protocol.modes import Mode

_CANCEL_TIMEOUT_S = 10.0
_SECONDS_LIMIT = 1e9


def build_submission(files: sources.SubmittedFiles, order: submission_pb2.Submission) -> submission_pb2.Submission:
    """The message that hands the files in. order: its other fields; language and entry are the files' where it has none."""
    message = submission_pb2.Submission(problem=f"problems/{files.problem_id}", language=files.language, entry=files.entry)
    message.sources.extend(submission_pb2.SourceFile(path=source.path, content=source.content) for source in files.sources)
    message.MergeFrom(order)
    return message


def nanoseconds(seconds: float, option: str) -> int:
    """Of seconds on a command line; UsageError where a message could not carry them."""
    if not abs(seconds) < _SECONDS_LIMIT:
        raise UsageError(f"{option}: {seconds:g} is not a number of seconds that can be sent; write one such as 5")
    return round(seconds * 1e9)


def read_annotations(texts: Sequence[str]) -> dict[str, str]:
    """Of texts KEY=VALUE; UsageError where one is not, or where a key comes twice."""
    annotations = dict[str, str]()
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--annotate: {text!r} has no key; write KEY=VALUE")
        if key in annotations:
            raise UsageError(f"--annotate: the key {key!r} is given twice; give each once")
        annotations[key] = value
    return annotations


async def submit(
    target: Target,
    paths: Sequence[Path],
    order: submission_pb2.Submission,
    *,
    problem: str | None = None,
    out: Path | None = None,
    request_id: str = "",
    cached: bool = False,
    batch: bool = False,
    json: bool,
    wait: bool,
) -> Exit:
    """Submit, follow to the end unless wait is False, and print. order: as of `build_submission`. out: where the files of a profile are
    saved. request_id: a UUID; "": a new one. cached, batch: as of `GraderClient.submit`."""
    if not wait and target.server is None:
        raise UsageError("--no-wait: without --server nothing would be left to grade it; name a server, or wait")
    if out is not None and (order.mode != submission_pb2.MODE_PROFILE or not wait):
        raise UsageError("--out: only a profile leaves files, when it has ended; add --mode profile, and leave out --no-wait")
    if out is not None:
        os.close(open_directory(out))  # before anything is graded
    if order.competition and target.server is None:
        raise UsageError("--competition: a command without --server has none; name the server that holds it")
    named, problem_path = (problem, None) if target.server is not None else problem_at(problem)
    if sources.STDIN in paths and len(paths) > 1:
        raise UsageError("sources: - (standard input) is a whole submission; leave out the other files, or name files only")
    files = await sources.read_stdin(order.language, named) if sources.STDIN in paths else sources.read(paths, named)
    problem_dir = tuple(path for path in (files.problem_dir, problem_path) if path is not None)
    target = replace(target, problem_dirs=(*target.problem_dirs, *problem_dir))
    for note in files.notes:
        print_note(f"note: {one_line(note)}")
    async with connect(target, ServerRequirement.GRADE) as client:
        await require_answer(client, target)
        message = build_submission(files, order)
        message.parent = await whole_name(client, order.parent) if order.parent else ""
        request_id = request_id or str(uuid.uuid4())
        with explain_no_answer(target, f"the same command with --request-id {request_id} goes on, and does not submit it twice"):
            submission = await client.submit(message, request_id=request_id, allow_cached_result=cached, batch=batch)
        if not wait:
            print_submission(submission, json=json)
            return Exit.ACCEPTED
        saved: list[Path] = []
        async with cancelled_with_command(client, target, submission.name):
            with progress(json=json) as display:
                display.say(described(submission, target))
                final = await follow(client, submission.name, display)
                if out is not None:
                    saved = await save_artifacts(client, list(await client.list_artifacts(submission.name)), out)
    print_submission(final, json=json)
    for path in saved if not json else ():
        print_line(str(path))
    return exit_of(final)


def problem_at(problem: str | None) -> tuple[str | None, Path | None]:
    """The id of the problem that --problem means, and its path where it is one: a file or directory, in a format that says its id."""
    path = Path(problem or "")
    if problem is None or not (("/" in problem or path.suffix) and os.path.exists(path)):  # noqa: PTH110  a name may be too long
        return problem, None
    problems = extras.load("grader.problems.store", "server", "judge", remedy=extras.OTHER_SERVER).Problems()
    return problems.add(path).problem_id, path


async def watch(target: Target, name: str, *, json: bool) -> Exit:
    """Follow a submission to its end, and print it."""
    async with connect(target, ServerRequirement.FOLLOW) as client:
        with progress(json=json) as display:
            name = await whole_name(client, name)
            with explain_giving_up(target, name):
                final = await follow(client, name, display)
    print_submission(final, json=json)
    return exit_of(final)


async def require_answer(client: GraderClient, target: Target) -> None:
    """Have a server that is named answer before anything is submitted: then calls wait for it when it is away, and are made again."""
    if target.server is None:
        return
    try:
        await client.get_caller()
    except ServerUnreachable as error:
        raise GraderFailed(f"{error}; nothing was submitted") from None


@contextlib.contextmanager
def explain_no_answer(target: Target, remedy: str) -> Iterator[None]:
    """Say what to do where it is not known whether a submission was accepted, because the server stays away or the user stops waiting."""
    text = f"the server may have accepted the submission; {remedy}"
    try:
        yield
    except AWAY as error:
        if target.server is None:
            raise
        raise GraderFailed(f"{error}; {text}") from None
    except asyncio.CancelledError:
        if target.server is not None:
            print_note(f"no answer yet: {text}")
        raise


@contextlib.contextmanager
def explain_giving_up(target: Target, name: str) -> Iterator[None]:
    """Say how to go on with a submission, where the server is waited for no longer."""
    try:
        yield
    except AWAY as error:
        if target.server is None:
            raise
        command = f"grader-cli watch {resource_id(SUBMISSIONS, name)} --server {target.server}"
        raise GraderFailed(f"{error}; {name} is still submitted, so do not submit it again; follow it with: {command}") from None


@contextlib.asynccontextmanager
async def cancelled_with_command(client: GraderClient, target: Target, name: str) -> AsyncIterator[None]:
    """Cancel a submission where this command is, and say how to go on with it where its server is waited for no longer."""
    try:
        with explain_giving_up(target, name):
            yield
    except (asyncio.CancelledError, OSError) as error:  # OSError: nobody reads what we write, or the terminal is gone
        # A server that is named goes on without a reader, as `| head` may want it; Ctrl-C and signals cancel there too.
        if target.server is None or not isinstance(error, BrokenPipeError):
            await cancel_quietly(client, name)
        raise


def described(submission: submission_pb2.Submission, target: Target) -> str:
    """The line that a submission begins with."""
    at = f" at {target.server}" if target.server is not None else ""
    return f"{submission.name} for {submission.problem} ({submission.language}){at}"


async def follow(client: GraderClient, name: str, display: ProgressDisplay) -> submission_pb2.Submission:
    """Show events until the last, and return the submission as it then is. A server that restarts is waited for."""
    client.on_absence, stage = display.say, submission_pb2.STAGE_UNSPECIFIED
    async for event in client.watch(name, until_findings=True):
        display.feed(event)
        report, stage = event.submission.report, event.progress.stage or stage
        if stage == submission_pb2.STAGE_PROFILING and event.submission.HasField("report") and not report.HasField("profile"):
            display.say(f"{verdict_name(report)}; waiting for the sanitizer, which --skip-sanitizer leaves out")
    return await client.get_submission(name)


async def cancel_quietly(client: GraderClient, name: str) -> None:
    """Cancel on the way out, and report it: a user who pressed Ctrl-C does not want to read why it could not be, but whether it was."""
    with contextlib.suppress(OSError):
        try:
            await asyncio.wait_for(client.cancel(name), _CANCEL_TIMEOUT_S)
        except CallRefused:  # it has finished
            return
        except (GraderError, TimeoutError):
            command = f"grader-cli cancel {resource_id(SUBMISSIONS, one_line(name))}"
            print_note(f"no answer, so {one_line(name)} was not cancelled; do so with: {command}")
            return
        print_note(f"cancelled {one_line(name)}")


def exit_of(submission: submission_pb2.Submission) -> Exit:
    """The exit code that says what became of a submission."""
    if submission.state != submission_pb2.SUBMISSION_STATE_SUCCEEDED:
        return Exit.GRADER_FAILED
    return Exit.ACCEPTED if submission.report.verdict == report_pb2.VERDICT_ACCEPTED else Exit.OTHER_VERDICT


async def submit_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="The kernel's source files, or - for standard input.")],
    problem: Annotated[
        str | None,
        typer.Option(
            help="The problem. Default: a line '// grader: problem=NAME' in the first file, else the problem.toml next to it; "
            "of a solution file, its definition."
        ),
    ] = None,
    device: DeviceOption = AUTO,
    mode: Annotated[
        Mode | None,
        typer.Option(
            help="How far to grade: test verifies, benchmark also times, ranked also takes hidden workloads and several processes, "
            "sanitize verifies and looks for the causes of wrong results, profile verifies and runs profilers; both time nothing. "
            "For sweep there is a command. "
            "[default: benchmark; ranked with --competition]"
        ),
    ] = None,
    competition: Annotated[str, typer.Option(metavar="NAME", help="The competition to submit to.", show_default=False)] = "",
    sandbox: SandboxOption = AUTO,
    language: Annotated[
        str,
        typer.Option(help="cuda, torch_extension, python, or a language of an installed package. Default: detected.", show_default=False),
    ] = "",
    entry: Annotated[str, typer.Option(help="The function to call. Default: the problem's.", show_default=False)] = "",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Save the files of a profile there. Nothing is overwritten.", show_default=False)
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="A tag, to find it by in `list`. May be repeated.")] = None,
    parent: Annotated[
        str, typer.Option(metavar="NAME", help="The submission that it was made from, one of your own.", show_default=False)
    ] = "",
    annotate: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A note, which only you and administrators see. May be repeated.")
    ] = None,
    request_id: Annotated[
        str,
        typer.Option(
            "--request-id",
            metavar="UUID",
            help="What makes this submission one: the same command with the same UUID goes on with it. Default: a new one.",
            show_default=False,
        ),
    ] = "",
    precision: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Time a workload until half of its speedup's interval is at most so much, as far as the clock allows: 0.1 to 20. "
            "Not in ranked mode, where the server decides. [default: 1]",
            show_default=False,
        ),
    ] = None,
    measure_s: Annotated[
        float | None,
        typer.Option(
            "--measure-s",
            metavar="SECONDS",
            help="Time a workload for at most about so long: 0.1 to 30. Not in ranked mode. "
            "[default: 10; on the emulated device 1.5 for all workloads together]",
            show_default=False,
        ),
    ] = None,
    allow_cached: Annotated[
        bool,
        typer.Option(
            "--allow-cached",
            help="Take the result of an identical submission of yours of the last day, if there is one. Modes test and benchmark only.",
        ),
    ] = False,
    batch: Annotated[bool, typer.Option("--batch", help="Let all others go first: for one of many that nobody waits for.")] = False,
    skip_sanitizer: Annotated[
        bool,
        typer.Option(
            "--skip-sanitizer",
            help="Do not run a kernel that failed in mode test on the emulated device once more under the sanitizer, which looks for the "
            "cause and takes seconds.",
        ),
    ] = False,
    cascade: Annotated[
        bool,
        typer.Option(
            "--cascade",
            help="Verify on the emulated device first, at the smallest workloads: a kernel that is wrong there takes no time of a GPU.",
        ),
    ] = False,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return when the server has accepted it; needs --server.")] = False,
) -> Exit:
    """Grade a kernel, and show progress and the report. Ctrl-C cancels it.

    A kernel is one or more files. Their paths are sent relative to their common directory. One file that ends in .json is a solution file
    of FlashInfer-Bench or SOL-ExecBench: it holds the sources, and names entry point, language and problem.
    """
    mode = mode or (Mode.RANKED if competition else Mode.BENCHMARK)
    order = submission_pb2.Submission(
        language=language,
        entry=entry,
        device_kind="" if device == AUTO else device,
        mode=f"MODE_{mode.name}",
        competition=full_name(COMPETITIONS, competition) if competition else "",
        tags=tag,
        parent=parent,
        annotations=read_annotations(annotate or ()),
        precision=None if precision is None else precision / 100,
        skip_sanitizer=skip_sanitizer,
        cascade=cascade,
    )
    if measure_s is not None:
        order.measure_duration.FromNanoseconds(nanoseconds(measure_s, "--measure-s"))
    target = Target(server=server, state_dir=state_dir, sandbox=sandbox, device=device, quiet=json and not sys.stderr.isatty())
    return await submit(
        target, files, order, problem=problem, out=out, request_id=request_id, cached=allow_cached, batch=batch, json=json, wait=not no_wait
    )


async def watch_command(name: Name, server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """Follow a submission from its beginning to its end. Ctrl-C stops watching, not the submission."""
    return await watch(Target(server=server, state_dir=state_dir), name, json=json)
