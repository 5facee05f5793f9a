"""`grader-cli rejudge ...` and `final`: have submissions judged again, follow that to its end, and print what changes."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader import devices
from grader.api.client import AWAY, GraderClient
from grader.api.resource_names import COMPETITIONS, PROBLEMS, REJUDGES, full_name, resource_id
from grader.cli.exits import Exit, UsageError
from grader.cli.options import Json, Server, StateDir, device_choice
from grader.cli.output import plain, print_message, print_note, text_table
from grader.cli.progress import ProgressDisplay, progress
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.submissions import whole_name
from grader.isolations import AUTO
from grader.v1 import competition_pb2, grader_service_pb2, rejudge_pb2, report_pb2
from grader.views import formatting
from grader.views.sanitize import one_line
from grader_extensions.competitions.calls import CompetitionCalls

POLL_FIRST_S, POLL_LIMIT_S, POLL_GROWTH = 0.1, 5.0, 1.5
PATIENCE_S = 120.0  # how long a server may be away, such as for a restart
_NAMESPACE = uuid.UUID("8f2b7c1e-5d0a-4c59-9f6a-2f6f1f0f7a11")
RUNNING, READY = rejudge_pb2.REJUDGE_STATE_RUNNING, rejudge_pb2.REJUDGE_STATE_READY


def request_id(order: rejudge_pb2.Rejudge, again: str = "") -> str:
    """The same for the same order, so that the same command goes on with what it began. again: makes another one of the same order."""
    return str(uuid.uuid5(_NAMESPACE, again + "\0" + order.SerializeToString(deterministic=True).hex()))


async def _create(target: Target, order: rejudge_pb2.Rejudge, again: str, *, json: bool, wait: bool, apply: bool) -> Exit:
    """Request a rejudge, follow it until all is decided unless wait is False, and show or apply it."""
    async with connect(target, ServerRequirement.GRADE) as client:
        order.submissions[:] = [await whole_name(client, name) for name in order.submissions]
        if order.top_count:
            ask_before_end(await CompetitionCalls(client).get_competition(order.competition), may_ask=not json and sys.stdin.isatty())
        rejudge = await CompetitionCalls(client).create_rejudge(order, request_id=request_id(order, again))
        if wait:
            with progress(json=json) as display:
                client.on_absence = display.say
                display.say(f"{rejudge.name}: {one_line(rejudge.cause)}")
                rejudge = await _decided(client, rejudge, display)
            if apply and rejudge.state == READY:
                rejudge = await CompetitionCalls(client).apply_rejudge(rejudge.name)
        return await _print(client, rejudge, json=json)


def ask_before_end(competition: competition_pb2.Competition, *, may_ask: bool) -> None:
    """Ask whether a final may begin before its competition ends; where nobody can answer, only say so."""
    if competition.end_time.ToDatetime(UTC) <= datetime.now(UTC):
        return
    text = f"{one_line(competition.name)} ends at {formatting.utc(competition.end_time)} UTC; a final now is without what comes until then"
    if not may_ask:
        print_note(text, "yellow")
    elif not typer.confirm(f"{text}. Begin it?", err=True):
        raise UsageError("the final was not begun; give the same command again after the end")


async def _decided(client: GraderClient, rejudge: rejudge_pb2.Rejudge, display: ProgressDisplay) -> rejudge_pb2.Rejudge:
    """Follow a rejudge until all is decided, or all the rest has failed; across restarts of the server."""
    loop = asyncio.get_running_loop()
    answered_s, sentence, pause_s = loop.time(), "", POLL_FIRST_S
    while rejudge.state == RUNNING and rejudge.pending_count > rejudge.failed_count:
        decided = rejudge.submission_count - rejudge.pending_count
        line = f"{decided} of {rejudge.submission_count} judged ({rejudge.rerun_count} by runs){_waited_for(rejudge)}"
        if line != sentence:
            display.say(line)
            sentence = line
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * POLL_GROWTH, POLL_LIMIT_S)
        try:
            rejudge, answered_s = await CompetitionCalls(client).get_rejudge(rejudge.name), loop.time()
        except AWAY:
            if loop.time() - answered_s > PATIENCE_S:
                raise
    return rejudge


async def _print(client: GraderClient, rejudge: rejudge_pb2.Rejudge, *, json: bool) -> Exit:
    kind = report_pb2.SCORE_KIND_UNSPECIFIED
    if rejudge.competition and rejudge.changes and not json:
        kind = (await CompetitionCalls(client).get_competition(rejudge.competition)).score_kind
    print_message(rejudge, render(rejudge, kind), json=json)
    if rejudge.state == RUNNING and rejudge.failed_count:
        print_note(f"{rejudge.failed_count} could not be run: the grader failed; the command that made it runs them again", "bold red")
        return Exit.GRADER_FAILED
    return Exit.DONE


def render(rejudge: rejudge_pb2.Rejudge, kind: report_pb2.ScoreKind) -> Iterator[RenderableType]:
    """The parts of what is printed, top to bottom."""
    yield plain(f"{one_line(rejudge.name)}: {_state(rejudge)}", "bold")
    yield plain(one_line(rejudge.cause))
    counts = f"{rejudge.submission_count} submissions: {rejudge.refolded_count} judged by their facts, {rejudge.rerun_count} by runs"
    yield plain(counts + (f"; {rejudge.pending_count} not decided yet{_waited_for(rejudge)}" if rejudge.pending_count else ""))
    if rejudge.changes:
        yield Text()
        yield _table(rejudge, kind)
        if (count := rejudge.change_count) > len(rejudge.changes):
            text = f"the best {len(rejudge.changes)} of {count} changes are shown; for others, name --problem or --submission in another"
            yield plain(f"{text}: grader-cli rejudge create", "yellow")
    elif not rejudge.pending_count:
        yield plain("nothing changes")
    name = one_line(rejudge.name)
    for change in rejudge.changes:
        if rejudge.top_count and change.after.rejudge != rejudge.name and change.rank_after and not change.rank_before:
            text = f"{one_line(change.user)} is now ranked by {one_line(change.submission)}, which was not run again"
            sizes = f"--competition {one_line(rejudge.competition)} --sizes-of {name} " if rejudge.fresh_sizes else ""
            yield plain(f"{text}: grader-cli rejudge create --run {sizes}--submission does", "yellow")
    if rejudge.state == READY:
        yield plain(f"\nnothing of it counts yet: grader-cli rejudge apply {name}, or discard")
    elif rejudge.HasField("end_time"):
        ended = formatting.utc(rejudge.end_time)
        yield plain(f"\n{_state(rejudge).lower()} at {ended} UTC; the same command with --again TEXT makes another")


def _waited_for(rejudge: rejudge_pb2.Rejudge) -> str:
    return f"; waiting for {one_line(rejudge.pending_runs[0])}" if rejudge.pending_runs else ""


def _table(rejudge: rejudge_pb2.Rejudge, kind: report_pb2.ScoreKind) -> Table:
    rows = []
    for change in sorted(rejudge.changes, key=lambda entry: (entry.rank_after or 2**31, entry.rank_before or 2**31)):
        ranks = (str(rank) if rank else "-" for rank in (change.rank_after, change.rank_before))
        rows.append((*ranks, change.user, change.submission, _judgement(change.before, kind), _judgement(change.after, kind)))
    return text_table(("rank", "was", "user", "submission", "before", "after"), rows)


def _judgement(judgement: rejudge_pb2.Judgement, kind: report_pb2.ScoreKind) -> str:
    verdict = formatting.name_of(report_pb2.Verdict, judgement.verdict, "VERDICT_")
    sentence = f"{verdict} {one_line(judgement.reason)}".strip()
    if not judgement.HasField("score"):
        return sentence
    score = (judgement.score, judgement.score_low, judgement.score_high)
    kind_known = kind != report_pb2.SCORE_KIND_UNSPECIFIED
    return f"{sentence} {formatting.score(*score, kind) if kind_known else '{:.4g} ({:.4g}..{:.4g})'.format(*score)}"


def _state(rejudge: rejudge_pb2.Rejudge) -> str:
    return formatting.name_of(rejudge_pb2.RejudgeState, rejudge.state, "REJUDGE_STATE_")


Rejudge = Annotated[str, typer.Argument(metavar="NAME", help="rejudges/ID, or just ID.")]
Again = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help="Create a new one, not the one of the same earlier command. Any text, such as a date.", show_default=False
    ),
]
Apply = Annotated[bool, typer.Option("--apply", help="Apply it when everything is decided. Default: show it only.")]
_DEVICE_HELP = f"What to run on: auto (as each was submitted), {devices.FORMS}."


async def create_command(
    cause: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the history.")],
    problem: Annotated[str, typer.Option(help="Only submissions to this problem.", show_default=False)] = "",
    competition: Annotated[str, typer.Option(help="Only submissions to this competition.", show_default=False)] = "",
    submission: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be given several times.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Only this many of each problem's board, best first; needs --competition. 0: all.")] = 0,
    run_all: Annotated[bool, typer.Option("--run", help="Run all again, including those that stored facts decide.")] = False,
    device: Annotated[str, typer.Option(metavar="DEVICE", callback=device_choice, help=_DEVICE_HELP)] = AUTO,
    fresh_sizes: Annotated[bool, typer.Option("--fresh-sizes", help="Draw the competition's secret sizes anew, as a final does.")] = False,
    sizes_of: Annotated[str, typer.Option(metavar="NAME", help="Take the secret sizes that this rejudge drew.", show_default=False)] = "",
    apply: Apply = False,
    again: Again = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return when the server has it; needs --server.")] = False,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """Judge again by the problems as the server has them now, by stored facts where those suffice, and show what would change.

    Nothing that others see changes before it is applied. The same command again goes on with the same rejudge, and runs again what the
    grader failed at. Ctrl-C stops the waiting only.
    """
    if no_wait and server is None:
        raise UsageError("--no-wait: without --server nothing would be left to run it; name a server, or wait")
    if no_wait and apply:
        raise UsageError("--apply needs what --no-wait does not wait for; leave one of them out")
    order = rejudge_pb2.Rejudge(
        cause=cause,
        problem=full_name(PROBLEMS, problem),
        competition=full_name(COMPETITIONS, competition),
        submissions=submission or (),
        method=rejudge_pb2.REJUDGE_METHOD_RUN if run_all else rejudge_pb2.REJUDGE_METHOD_FACTS_OR_RUN,
        top_count=top,
        device_kind="" if device == AUTO else device,
        fresh_sizes=fresh_sizes,
        sizes_of=full_name(REJUDGES, sizes_of),
    )
    return await _create(_target(server, state_dir, json=json), order, again, json=json, wait=not no_wait, apply=apply)


async def show_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="rejudges/ID, or just ID. Default: list the newest.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many to list, newest first.")] = 20,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """Print a rejudge, and all that it changes; without a name list rejudges, newest first."""
    async with connect(_target(server, state_dir, json=json), ServerRequirement.READ) as client:
        if name:
            return await _print(client, await CompetitionCalls(client).get_rejudge(full_name(REJUDGES, name)), json=json)
        rejudges = (await CompetitionCalls(client).list_rejudges(page_size=limit)).rejudges
    rows = [
        (entry.name, _state(entry), str(entry.submission_count), str(entry.pending_count), formatting.utc(entry.create_time), entry.cause)
        for entry in rejudges
    ]
    table = text_table(("name", "state", "submissions", "to decide", "requested (UTC)", "cause"), rows)
    empty = "no rejudges yet; make one with: grader-cli rejudge create --help"
    print_message(grader_service_pb2.ListRejudgesResponse(rejudges=rejudges), [table] if rows else empty, json=json)
    return Exit.DONE


async def apply_command(name: Rejudge, server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """Let the new judgements count. The old ones stay in each submission's history."""
    async with connect(_target(server, state_dir, json=json), ServerRequirement.WRITE) as client:
        return await _print(client, await CompetitionCalls(client).apply_rejudge(full_name(REJUDGES, name)), json=json)


async def discard_command(name: Rejudge, server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """Drop the new judgements, and cancel what still runs for them."""
    async with connect(_target(server, state_dir, json=json), ServerRequirement.WRITE) as client:
        return await _print(client, await CompetitionCalls(client).discard_rejudge(full_name(REJUDGES, name)), json=json)


async def final_command(
    competition: Annotated[str, typer.Argument(metavar="COMPETITION", help="competitions/ID, or just ID.")],
    top: Annotated[int, typer.Option(min=1, help="How many of each problem's board; entries that share the last rank are included.")],
    device: Annotated[str, typer.Option(metavar="DEVICE", callback=device_choice, help=f"What to run on: {devices.FORMS}.")],
    apply: Apply = False,
    again: Again = "",
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """Run the best of a competition again, on one device with fresh secret inputs, and show the ranks before and after.

    Sizes of secret workloads that the competition draws from ranges are drawn anew, from a seed of this final's own; inputs always are.
    The same command goes on where it stopped, also after a restart of client or server.
    """
    if device == AUTO:
        raise typer.BadParameter(f"a final is run on one device; write {devices.FORMS}", param_hint="--device")
    about = f" ({again})" if again else ""
    order = rejudge_pb2.Rejudge(
        cause=f"final of {resource_id(COMPETITIONS, competition)}: the best {top} run again on {device}{about}",
        competition=full_name(COMPETITIONS, competition),
        method=rejudge_pb2.REJUDGE_METHOD_RUN,
        top_count=top,
        device_kind=device,
        fresh_sizes=True,
    )
    return await _create(_target(server, state_dir, json=json), order, again, json=json, wait=True, apply=apply)


def _target(server: str | None, state_dir: Path | None, *, json: bool) -> Target:
    return Target(server=server, state_dir=state_dir, quiet=json and not sys.stderr.isatty())
