"""Commands about submissions that are there: `list`, `show`, `cancel` and `withdraw`; and their short ids."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, cast

import typer
from google.protobuf import json_format
from rich.table import Table
from rich.text import Text

from grader import extensions
from grader.api.client import GraderClient
from grader.api.resource_names import COMPETITIONS, PROBLEMS, SUBMISSIONS, full_name, resource_id
from grader.cli import report
from grader.cli.exits import Exit, GraderFailed, UsageError
from grader.cli.options import Json, Name, Server, StateDir
from grader.cli.output import did_you_mean, open_console, plain, print_line, print_message, print_note, print_untrusted, text_table
from grader.cli.saved_files import STDOUT, artifact_file_name, save_artifacts, save_sources, write_text
from grader.cli.session import ServerRequirement, Target, connect
from grader.devices import EMULATED
from grader.errors import CallRefused, InternalFault, ServerUnreachable
from grader.v1 import grader_service_pb2, report_pb2, submission_pb2
from grader.views import formatting
from grader.views.sanitize import one_line

ID_CHARS = 16  # of a whole id
SHORT_CHARS = 8  # of a short one in lists
WRAPPED_CHARS = 24  # longer cells of a list are wrapped
VERDICTS = {name.removeprefix("VERDICT_"): cast(report_pb2.Verdict, number) for name, number in report_pb2.Verdict.items() if number}
_CANDIDATES_SHOWN = 5
_TIMED = (submission_pb2.MODE_BENCHMARK, submission_pb2.MODE_RANKED)
_FINAL = (submission_pb2.SUBMISSION_STATE_SUCCEEDED, submission_pb2.SUBMISSION_STATE_FAILED, submission_pb2.SUBMISSION_STATE_CANCELLED)


async def whole_name(client: GraderClient, name: str) -> str:
    """Find the full name of the submission whose id begins so, of "last" the caller's newest. UsageError unless it is a single one. A
    whole id is not looked up."""
    prefix = resource_id(SUBMISSIONS, name)
    if prefix == "last":
        for newest in (await client.list_submissions(page_size=1, user=(await client.get_caller()).user)).submissions:
            return newest.name
    if len(prefix) >= ID_CHARS or not prefix.isalnum() or not prefix.isascii():
        return full_name(SUBMISSIONS, name)
    matches: list[str] = []
    async for page in client.submission_pages(id_prefix=prefix):
        ids = (resource_id(SUBMISSIONS, submission.name) for submission in page)
        matches += [submission_id for submission_id in ids if submission_id.startswith(prefix)]  # an old server knows no prefix
        if len(matches) > _CANDIDATES_SHOWN:
            break
    if prefix in matches or len(matches) == 1:
        return full_name(SUBMISSIONS, prefix if prefix in matches else matches[0])
    if not matches:
        place = "this machine" if client.address.startswith("unix:") else client.address
        text = f"there is no submission of yours on {place} whose id begins with {prefix!r}; list them with: grader-cli list"
        raise UsageError(f"{text} (of another user's, write the whole id)")
    candidates = ", ".join(matches[:_CANDIDATES_SHOWN]) + (", ..." if len(matches) > _CANDIDATES_SHOWN else "")
    raise UsageError(f"several submissions have an id that begins with {prefix!r}: {candidates}; write more of it")


def short_ids(ids: Sequence[str]) -> list[str]:
    """Cut each id to its first characters: as few as no other id begins with, and no fewer than SHORT_CHARS."""

    def shortest(submission_id: str, rest: set[str]) -> str:
        length = SHORT_CHARS
        while length < len(submission_id) and any(another.startswith(submission_id[:length]) for another in rest):
            length += 1
        return submission_id[:length]

    return [shortest(submission_id, set(ids) - {submission_id}) for submission_id in ids]


# -- list ----------------------------------------------------------------------------------------------------------------


def read_verdicts(texts: Sequence[str]) -> tuple[report_pb2.Verdict, ...]:
    """Read verdicts of options that may each hold several, separated by commas. BadParameter where one is unknown."""
    verdicts = dict[report_pb2.Verdict, None]()
    for word in (part.strip() for text in texts for part in text.split(",")):
        name = word.upper().replace("-", "_").removeprefix("VERDICT_")
        if name not in VERDICTS:
            raise typer.BadParameter(f"{word!r} is not a verdict; take some of {', '.join(VERDICTS)}.{did_you_mean(name, VERDICTS)}")
        verdicts[VERDICTS[name]] = None
    return tuple(verdicts)


def _check_verdicts(texts: list[str] | None) -> list[str] | None:
    read_verdicts(texts or ())
    return texts


async def list_command(
    problem: Annotated[str, typer.Option(help="Only submissions to this problem.", show_default=False)] = "",
    competition: Annotated[str, typer.Option(help="Only submissions to this competition.", show_default=False)] = "",
    user: Annotated[str, typer.Option(help="Only submissions of this user, as far as you may see them.", show_default=False)] = "",
    tag: Annotated[str, typer.Option(metavar="TAG", help="Only submissions with this tag.", show_default=False)] = "",
    verdict: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VERDICT",
            callback=_check_verdicts,
            help="Only submissions with this verdict, such as ACCEPTED. May be repeated, and may be several with commas between them.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """List submissions, newest first: verdict, mode, and speedup or score.

    A submission without a verdict is listed by its state. Other commands take the short ids that are printed here.
    """
    verdicts = read_verdicts(verdict or ())
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.READ) as client:
        answer = await client.list_submissions(
            page_size=limit,
            problem=full_name(PROBLEMS, problem),
            competition=full_name(COMPETITIONS, competition),
            user=user,
            tag=tag,
            verdicts=verdicts,
        )
        # Filtered again, for a server that is too old to know of verdicts in this call.
        submissions = [entry for entry in answer.submissions if not verdicts or entry.report.verdict in verdicts]
        # The only lists that may show submissions of others are those of a competition or a user.
        speedups = {} if json else await _speedups(client, submissions, may_show_others=bool(competition or user))
    filtered = problem or competition or user or tag or verdicts
    empty = "no such submissions that you may see" if filtered else "no submissions yet; hand one in with: grader-cli submit FILE"
    message = grader_service_pb2.ListSubmissionsResponse(submissions=submissions)
    print_message(message, [render_list(submissions, speedups, open_console().width)] if submissions else empty, json=json)
    return Exit.DONE


def render_list(submissions: Sequence[submission_pb2.Submission], speedups: dict[str, str], width: int) -> Table:
    """A row for each submission, without columns that are empty or have no room. speedups: in words, by name, of those without a score."""
    columns: dict[str, Sequence[str | Text]] = {
        "id": short_ids([resource_id(SUBMISSIONS, submission.name) for submission in submissions]),
        "user": [submission.user for submission in submissions],
        "problem": [resource_id(PROBLEMS, submission.problem) for submission in submissions],
        "competition": [resource_id(COMPETITIONS, submission.competition) for submission in submissions],
        "language": [submission.language for submission in submissions],
        "mode": [formatting.name_of(submission_pb2.Mode, submission.mode, "MODE_").lower() for submission in submissions],
        "verdict": [report.verdict_text(submission) for submission in submissions],
        "speedup or score": [report.score(submission) or speedups.get(submission.name, "-") for submission in submissions],
        "submitted (UTC)": [formatting.utc(submission.create_time) for submission in submissions],
        "tags": [", ".join(submission.tags) for submission in submissions],
        "withdrawn": [formatting.withdrawal(submission).removeprefix("withdrawn ") for submission in submissions],
    }
    optional = ("user", "competition", "tags", "withdrawn")
    columns = {heading: cells for heading, cells in columns.items() if heading not in optional or any(cells)}
    widths = {heading: min(max(map(len, (heading, *cells))), WRAPPED_CHARS) + 2 for heading, cells in columns.items()}
    for heading in ("withdrawn", "tags", "language", "mode", "competition", "submitted (UTC)", "user", "speedup or score"):
        if heading in columns and sum(widths[name] for name in columns) - 2 > width:
            del columns[heading]
    return text_table(list(columns), list(zip(*columns.values(), strict=True)))


async def _speedups(client: GraderClient, submissions: Sequence[submission_pb2.Submission], *, may_show_others: bool) -> dict[str, str]:
    """Read the first speedup of each accepted benchmark of the caller's: a list has no reports, but one stream has them all."""
    unscored = [
        submission
        for submission in submissions
        if submission.report.verdict == report_pb2.VERDICT_ACCEPTED and submission.mode in _TIMED and not submission.HasField("score")
    ]
    if unscored and may_show_others:
        caller = await client.get_caller()
        unscored = [submission for submission in unscored if submission.user == caller.user or "admin" in caller.scopes]
    speedups = dict[str, str]()
    if not unscored:
        return speedups
    # Not where there are too many streams, or a server is too old: then the list is shown without.
    with suppress(CallRefused, InternalFault, ServerUnreachable):
        async for update in client.watch_many(names=[submission.name for submission in unscored]):
            by_baseline = {speedup.baseline: speedup for speedup in update.submission.report.speedups}
            # No time of the emulated device says anything of a GPU.
            practice = " (practice)" if update.submission.report.environment.device_kind == EMULATED else ""
            words = (f"{formatting.ratio(by_baseline[name])} over {name}{practice}" for name in formatting.baselines(by_baseline))
            speedups[update.submission.name] = next(words, "-")
    return speedups


# -- show ----------------------------------------------------------------------------------------------------------------


async def show_command(
    name: Name,
    source: Annotated[
        bool, typer.Option("--source", help="Print the sources instead. Several files are printed with a line '==> PATH <==' before each.")
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Print what the compiler and the kernel printed instead.")] = False,
    files: Annotated[
        bool, typer.Option("--files", help="List the files that a submission in profile mode left instead. Only its owner sees them.")
    ] = False,
    html: Annotated[
        str,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write the report as one HTML file instead, or to stdout with '-': times, plots, sources with compiler remarks, "
            "environment and raw data. It needs no network and contains no script.",
            show_default=False,
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="With --source or --files: save them there. Nothing is overwritten.", show_default=False),
    ] = None,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """Print a submission as it is now; with an option its sources, its logs, the files that it left, or its report as HTML."""
    if source + log + files + bool(html) > 1:
        raise typer.BadParameter("--source, --log, --files and --html exclude each other; leave out all but one")
    if out is not None and not (source or files):
        raise typer.BadParameter("--out saves sources or files; add --source or --files")
    if json and (source or log or html):
        raise typer.BadParameter("--json has sources, logs and report already; leave out --source, --log and --html")
    target = Target(server=server, state_dir=state_dir)
    if html:
        return await write_html(target, name, html)
    if files:
        return await show_files(target, name, out, json=json)
    if source:
        return await show_source(target, name, out)
    if log:
        return await show_log(target, name)
    print_submission(await _fetch(target, name), json=json, versions=True)
    return Exit.DONE


def print_submission(submission: submission_pb2.Submission, *, json: bool, versions: bool = False) -> None:
    """Print a submission with its report. versions: as of `report.render`."""
    print_message(submission, report.render(submission, versions=versions), json=json)


async def _fetch(target: Target, name: str) -> submission_pb2.Submission:
    async with connect(target, ServerRequirement.READ) as client:
        return await client.get_submission(await whole_name(client, name))


async def show_source(target: Target, name: str, out: Path | None) -> Exit:
    """Print or save the sources."""
    submission = await _fetch(target, name)
    if submission.sources_removed or not submission.sources:
        raise UsageError(f"{one_line(submission.name)}: its sources are not kept any more; verdict and score are: grader-cli show")
    if out is not None:
        for path in save_sources(submission.sources, out):
            print_line(str(path))
        return Exit.DONE
    for source in submission.sources:
        if len(submission.sources) > 1:
            print(f"==> {one_line(source.path)} <==")
        print_untrusted(source.content)
    return Exit.DONE


async def show_log(target: Target, name: str) -> Exit:
    """Print what the compiler and the kernel printed."""
    submission = await _fetch(target, name)
    logs = {"compiler": submission.report.build.log, "output": submission.report.output}
    if not submission.HasField("report"):
        command = f"grader-cli watch {one_line(resource_id(SUBMISSIONS, submission.name))}"
        raise UsageError(f"{one_line(submission.name)}: it is not graded yet; `{command}` waits for it")
    if not any(logs.values()):
        raise UsageError(f"{one_line(submission.name)}: the compiler and the kernel printed nothing")
    for heading, text in logs.items():
        if text:
            print(f"==> {heading} <==")
            print_untrusted(text)
    return Exit.DONE


async def show_files(target: Target, name: str, out: Path | None, *, json: bool) -> Exit:
    """List the files that a submission left; with out, save those that are there into that directory."""
    async with connect(target, ServerRequirement.READ) as client:
        artifacts = list(await client.list_artifacts(await whole_name(client, name)))
        saved = [] if out is None else await save_artifacts(client, artifacts, out)
    if json or out is None or not artifacts:
        empty = f"{one_line(name)} has left no files; `grader-cli submit --mode profile` makes some"
        hint = plain(f"save them with: grader-cli show {one_line(resource_id(SUBMISSIONS, name))} --files --out DIR", "dim")
        message = grader_service_pb2.ListArtifactsResponse(artifacts=artifacts)
        print_message(message, [_artifact_table(artifacts), hint] if artifacts else empty, json=json)
        return Exit.DONE
    for path in saved:
        print_line(str(path))
    for artifact in artifacts:
        if not artifact.available:
            print_line(f"not on this server any more: {one_line(artifact_file_name(artifact))}", "yellow")
    return Exit.DONE


async def write_html(target: Target, name: str, path: str) -> Exit:
    """Write the report of a submission that is over as one HTML file."""
    report_file = extensions.report_files().get("html")
    if report_file is None:
        raise UsageError(f"no installed package writes HTML reports; {extensions.HOW_TO_INSTALL}")
    async with connect(target, ServerRequirement.READ) as client:
        submission = await client.get_submission(await whole_name(client, name), full=True)
    if submission.state not in _FINAL:
        state = formatting.state_name(submission)
        raise UsageError(f"{submission.name} is {state}: it has no report yet; 'grader-cli watch {one_line(name)}' waits for its end")
    try:
        text = await asyncio.to_thread(report_file, submission)
    except (TypeError, json_format.SerializeToJsonError) as error:
        raise GraderFailed(f"the server sent what can't be written as JSON: {error}; use a grader-cli of its version") from None
    write_text(path, text)
    if path != STDOUT:
        print_note(f"wrote {path}: {len(text.encode()) / 1e3:.0f} kB, for any browser; it loads nothing and runs nothing")
    return Exit.DONE


def _artifact_table(artifacts: Sequence[grader_service_pb2.Artifact]) -> Table:
    rows = []
    for artifact in artifacts:
        expires = artifact.expire_time.ToDatetime().strftime("%Y-%m-%d %H:%M") if artifact.HasField("expire_time") else "for ever"
        until = expires if artifact.available else "not here any more"
        rows.append((artifact_file_name(artifact), artifact.tool, formatting.byte_count(artifact.size_bytes), until))
    return text_table(("file", "tool", "size", "until (UTC)"), rows, right=("size",))


# -- cancel --------------------------------------------------------------------------------------------------------------


async def cancel_command(name: Name, server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """Cancel a submission that is queued or running."""
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.WRITE) as client:
        submission = await client.cancel(await whole_name(client, name))
    print_message(submission, f"{submission.name}: {formatting.state_name(submission)}", json=json)
    return Exit.DONE
