"""`grader-cli rejudge ...` and `final`: have submissions judged again, follow that to its end, and print what changes."""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader import devices
from grader.api.client import GraderClient
from grader.api.resource_names import COMPETITIONS, PROBLEMS, REJUDGES, SUBMISSIONS, full_name, resource_id
from grader.cli.exits import Exit, UsageError
from grader.cli.options import Json, Server, StateDir, device_choice
from grader.cli.output import plain, print_json, print_note, stdout_console
from grader.cli.progress import ProgressDisplay, progress
from grader.cli.running import run
from grader.cli.server_choice import GraderTyper
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.submissions import whole_name
from grader.errors import LedgerBusy, ServerUnreachable, ShuttingDown
from grader.isolations import AUTO
from grader.v1 import grader_service_pb2, rejudge_pb2, report_pb2
from grader.views import formatting
from grader.views.sanitize import one_line

POLL_FIRST_S, POLL_MOST_S, POLL_GROWTH = 0.1, 5.0, 1.5
PATIENCE_S = 120.0  # how long a server may be away, such as for a restart
_NAMESPACE = uuid.UUID("8f2b7c1e-5d0a-4c59-9f6a-2f6f1f0f7a11")
_AWAY = (ServerUnreachable, ShuttingDown, LedgerBusy)
RUNNING, READY = rejudge_pb2.REJUDGE_STATE_RUNNING, rejudge_pb2.REJUDGE_STATE_READY


@dataclass(frozen=True, slots=True, kw_only=True)
class RejudgeOptions:
    """Submissions to judge again. again: makes another request of the same order."""

    cause: str
    problem: str = ""
    competition: str = ""
    submissions: tuple[str, ...] = ()
    top_count: int = 0
    run: bool = False
    device_kind: str = ""
    fresh_sizes: bool = False
    sizes_of: str = ""
    again: str = ""

    @property
    def message(self) -> rejudge_pb2.Rejudge:
        """The request to the server."""
        return rejudge_pb2.Rejudge(
            cause=self.cause,
            problem=full_name(PROBLEMS, self.problem),
            competition=full_name(COMPETITIONS, self.competition),
            submissions=[full_name(SUBMISSIONS, submission) for submission in self.submissions],
            method=rejudge_pb2.REJUDGE_METHOD_RUN if self.run else rejudge_pb2.REJUDGE_METHOD_FACTS_OR_RUN,
            top_count=self.top_count,
            device_kind=self.device_kind,
            fresh_sizes=self.fresh_sizes,
            sizes_of=full_name(REJUDGES, self.sizes_of),
        )

    @property
    def request_id(self) -> str:
        """The same for the same order, so that the same command goes on with what it began."""
        return str(uuid.uuid5(_NAMESPACE, self.again + "\0" + self.message.SerializeToString(deterministic=True).hex()))


async def create(target: Target, order: RejudgeOptions, *, json: bool, wait: bool, apply: bool) -> Exit:
    """Ask for it, follow it until all is decided unless wait is False, and show or apply it."""
    if not wait and target.server is None:
        raise UsageError("--no-wait: without --server nothing would be left to run it; name a server, or wait")
    if not wait and apply:
        raise UsageError("--apply needs what --no-wait does not wait for; leave one of them out")
    async with connect(target, ServerRequirement.GRADE) as client:
        order = replace(order, submissions=tuple([await whole_name(client, submission) for submission in order.submissions]))
        rejudge = await client.create_rejudge(order.message, request_id=order.request_id)
        if wait:
            with progress(json=json) as shown:
                client.on_absence = shown.say
                shown.say(f"{rejudge.name}: {one_line(rejudge.cause)}")
                rejudge = await _decided(client, rejudge, shown)
            rejudge = await _applied(client, rejudge, json=json, apply=apply)
        return await _print(client, rejudge, json=json)


async def final(target: Target, order: RejudgeOptions, *, json: bool, apply: bool) -> Exit:
    """A rejudge of the best, all run, with secret sizes of its own."""
    name = resource_id(COMPETITIONS, order.competition)
    about = f" ({order.again})" if order.again else ""
    cause = f"final of {name}: the best {order.top_count} run again on {order.device_kind}{about}"
    return await create(target, replace(order, cause=cause, run=True, fresh_sizes=True), json=json, wait=True, apply=apply)


async def show(target: Target, name: str, *, json: bool) -> Exit:
    """Print one as it is now."""
    async with connect(target, ServerRequirement.READ) as client:
        return await _print(client, await client.get_rejudge(full_name(REJUDGES, name)), json=json)


async def list_(target: Target, limit: int, *, json: bool) -> Exit:
    """Print the newest."""
    async with connect(target, ServerRequirement.READ) as client:
        answer = await client.list_rejudges(page_size=limit)
    if json:
        print_json(grader_service_pb2.ListRejudgesResponse(rejudges=answer.rejudges))
    elif answer.rejudges:
        table = Table("name", "state", "submissions", "to decide", "asked for (UTC)", "cause", box=None, pad_edge=False)
        for rejudge in answer.rejudges:
            create_time = formatting.utc(rejudge.create_time)
            counts = (str(rejudge.submission_count), str(rejudge.pending_count))
            table.add_row(plain(one_line(rejudge.name)), _state(rejudge), *counts, create_time, plain(one_line(rejudge.cause)))
        stdout_console().print(table)
    else:
        print("no rejudges yet; make one with: grader-cli rejudge create --help")
    return Exit.DONE


async def end(target: Target, name: str, *, json: bool, apply: bool) -> Exit:
    """Apply or discard one, and print it."""
    async with connect(target, ServerRequirement.GRADE) as client:
        full = full_name(REJUDGES, name)
        ended = await (client.apply_rejudge(full) if apply else client.discard_rejudge(full))
        return await _print(client, ended, json=json)


async def ask(question: str) -> str:
    """A line of the terminal. Not read by a thread: that could not be cancelled, and the command would end with it only."""
    loop, typed = asyncio.get_running_loop(), asyncio.Event()
    print(question, end="", flush=True)
    loop.add_reader(sys.stdin.fileno(), typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    return sys.stdin.readline()


async def _decided(client: GraderClient, rejudge: rejudge_pb2.Rejudge, shown: ProgressDisplay) -> rejudge_pb2.Rejudge:
    """Follow it until all is decided, or what is left waits no more; across restarts of the server."""
    loop = asyncio.get_running_loop()
    heard_s, sentence, pause_s = loop.time(), "", POLL_FIRST_S
    while rejudge.state == RUNNING and rejudge.pending_count > rejudge.failed_count:
        line = f"{rejudge.submission_count - rejudge.pending_count} of {rejudge.submission_count} judged ({rejudge.rerun_count} by runs)"
        if line != sentence:
            shown.say(line)
            sentence = line
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * POLL_GROWTH, POLL_MOST_S)
        try:
            rejudge, heard_s = await client.get_rejudge(rejudge.name), loop.time()
        except _AWAY:
            if loop.time() - heard_s > PATIENCE_S:
                raise
    return rejudge


async def _applied(client: GraderClient, rejudge: rejudge_pb2.Rejudge, *, json: bool, apply: bool) -> rejudge_pb2.Rejudge:
    """Applied where that was asked for, or is answered on a terminal."""
    if rejudge.state != READY:
        return rejudge
    if not apply and not json and sys.stdin.isatty() and sys.stdout.isatty():
        await _print(client, rejudge, json=False)
        apply = (await ask("apply it? [y/N] ")).strip().lower() in ("y", "yes")
    return await client.apply_rejudge(rejudge.name) if apply else rejudge


async def _print(client: GraderClient, rejudge: rejudge_pb2.Rejudge, *, json: bool) -> Exit:
    if json:
        print_json(rejudge)
    else:
        kind = report_pb2.SCORE_KIND_UNSPECIFIED
        if rejudge.competition and rejudge.changes:
            kind = (await client.get_competition(rejudge.competition)).score_kind
        for part in render(rejudge, kind):
            stdout_console().print(part, soft_wrap=isinstance(part, Text))
    if rejudge.state == RUNNING and rejudge.failed_count:
        text = f"{rejudge.failed_count} could not be run: the grader failed; the same command that made it runs them again"
        print_note(text, "bold red")
        return Exit.GRADER_FAILED
    return Exit.DONE


def render(rejudge: rejudge_pb2.Rejudge, kind: report_pb2.ScoreKind) -> Iterator[RenderableType]:
    """The parts of what is printed, top to bottom."""
    yield plain(f"{one_line(rejudge.name)}: {_state(rejudge)}", "bold")
    yield plain(one_line(rejudge.cause))
    counts = f"{rejudge.submission_count} submissions: {rejudge.refolded_count} judged by their facts, {rejudge.rerun_count} by runs"
    yield plain(counts + (f"; {rejudge.pending_count} not decided yet" if rejudge.pending_count else ""))
    if rejudge.changes:
        yield Text()
        yield _table(rejudge, kind)
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


def _table(rejudge: rejudge_pb2.Rejudge, kind: report_pb2.ScoreKind) -> Table:
    table = Table("rank", "was", "user", "submission", "before", "after", box=None, pad_edge=False)
    for change in sorted(rejudge.changes, key=lambda entry: (entry.rank_after or 2**31, entry.rank_before or 2**31)):
        ranks = [str(rank) if rank else "-" for rank in (change.rank_after, change.rank_before)]
        names = [plain(one_line(text)) for text in (change.user, change.submission)]
        table.add_row(*ranks, *names, *(plain(_judgement(judgement, kind)) for judgement in (change.before, change.after)))
    return table


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


rejudge_app = GraderTyper(
    no_args_is_help=True, help="Judge submissions again, look at what changes, then apply or discard it. For administrators."
)

Rejudge = Annotated[str, typer.Argument(metavar="NAME", help="rejudges/ID, or just ID.")]
Again = Annotated[
    str,
    typer.Option(
        metavar="TEXT", help="Create a new one, not the one of the same earlier command. Any text, such as a date.", show_default=False
    ),
]
Apply = Annotated[bool, typer.Option("--apply", help="Apply it when everything is decided. Default: show it only, and ask on a terminal.")]
_DEVICE_HELP = f"What to run on: auto (as each was submitted), {devices.FORMS}."


@rejudge_app.command("create")
def create_command(
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
) -> None:
    """Judge again by the problems as the server has them now, by stored facts where those suffice, and show what would change.

    Nothing that others see changes before it is applied. The same command again goes on with the same rejudge, and runs again what the
    grader failed at. Ctrl-C stops the waiting only.
    """
    order = RejudgeOptions(
        cause=cause,
        problem=problem,
        competition=competition,
        submissions=tuple(submission or ()),
        top_count=top,
        run=run_all,
        device_kind="" if device == AUTO else device,
        fresh_sizes=fresh_sizes,
        sizes_of=sizes_of,
        again=again,
    )
    run(create(_target(server, state_dir, json=json), order, json=json, wait=not no_wait, apply=apply))


@rejudge_app.command("show")
def show_command(name: Rejudge, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Print a rejudge, and all that it changes."""
    run(show(_target(server, state_dir, json=json), name, json=json))


@rejudge_app.command("list")
def list_command(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """List rejudges, newest first."""
    run(list_(_target(server, state_dir, json=json), limit, json=json))


@rejudge_app.command("apply")
def apply_command(name: Rejudge, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Let the new judgements count. The old ones stay in each submission's history."""
    run(end(_target(server, state_dir, json=json), name, json=json, apply=True))


@rejudge_app.command("discard")
def discard_command(name: Rejudge, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Drop the new judgements, and cancel what still runs for them."""
    run(end(_target(server, state_dir, json=json), name, json=json, apply=False))


def final_command(
    competition: Annotated[str, typer.Argument(metavar="COMPETITION", help="competitions/ID, or just ID.")],
    top: Annotated[int, typer.Option(min=1, help="How many of each problem's board; entries that share the last rank are included.")],
    device: Annotated[str, typer.Option(metavar="DEVICE", callback=device_choice, help=f"What to run on: {devices.FORMS}.")],
    apply: Apply = False,
    again: Again = "",
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Run the best of a competition again, on one device with fresh secret inputs, and show the ranks before and after.

    Sizes of secret workloads that the competition draws from ranges are drawn anew, from a seed of this final's own; inputs always are.
    The same command goes on where it stopped, also after a restart of client or server.
    """
    if device == AUTO:
        raise typer.BadParameter(f"a final is run on one device; write {devices.FORMS}", param_hint="--device")
    order = RejudgeOptions(cause="", competition=competition, top_count=top, device_kind=device, again=again)
    run(final(_target(server, state_dir, json=json), order, json=json, apply=apply))


def _target(server: str | None, state_dir: Path | None, *, json: bool) -> Target:
    return Target(server=server, state_dir=state_dir, quiet=json and not sys.stderr.isatty())
