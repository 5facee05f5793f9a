"""`grader-server admin queue`: who waits, who is next, and whether it is paused."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import sqlalchemy as sa

from grader.api.resource_names import SUBMISSIONS, resource_id
from grader.config import Settings
from grader.ledger import Ledger, records, transactions
from grader.ledger.queue import in_order
from grader.ledger.tables import submissions
from grader.model import SubmissionState
from grader.server.admin import PROGRAM, action_adder, in_ledger
from grader.server.server_state import EVERY_LANE, Cordons
from grader.server.settings import add_json_option, add_ledger_options, print_json, print_line, print_table, run_command, usage_error

QUEUE = f"{PROGRAM} queue"
QUEUE_HEADINGS = ("next", "submission", "user", "mode", "device", "competition", "since", "at")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code, as those of `grader-server admin`."""
    options = parser().parse_args(arguments)
    return run_command(QUEUE, options, partial(options.work, options))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command_parser = argparse.ArgumentParser(prog=QUEUE, description="Shows the queue, stops it, and changes its order.")
    where, as_json = (argparse.ArgumentParser(add_help=False) for _ in range(2))
    add_ledger_options(where)
    add_json_option(as_json)
    add = action_adder(command_parser)
    add("list", partial(in_ledger, _list_queue), "what runs, and what waits in the order in which it is taken up", where, as_json)
    text = "let this server end what it has and begin nothing more; submissions are taken and wait, also after a restart"
    add("pause", _pause, text, where)
    add("resume", _resume, "begin again", where)
    first = add("first", partial(in_ledger, _take_first), "take this one up before all others that wait", where)
    first.add_argument("submission", metavar="ID", help="the whole id of a submission that waits")
    return command_parser


def _pause(options: argparse.Namespace, settings: Settings) -> int:
    Cordons(settings.state_dir).add(EVERY_LANE)
    print_line(f"paused: what runs ends, and what comes waits. Go on with: {QUEUE} resume")
    return 0


def _resume(options: argparse.Namespace, settings: Settings) -> int:
    if not Cordons(settings.state_dir).remove(EVERY_LANE):
        return usage_error(QUEUE, "the queue of this server is not paused; with several servers, name its --state-dir")
    print_line("the queue goes on")
    return 0


async def _take_first(ledger: Ledger, options: argparse.Namespace) -> int:
    submission_id = resource_id(SUBMISSIONS, options.submission)
    await ledger.database.write(lambda connection: take_first(connection, submission_id))
    print_line(f"{submission_id} is taken up next")
    return 0


async def _list_queue(ledger: Ledger, options: argparse.Namespace) -> int:
    listed, now = await ledger.database.read(entries), ledger.now()
    cordons = Cordons(options.settings.state_dir)
    cordons.look()
    paused = EVERY_LANE in cordons.names
    if options.json:
        data = [
            {
                "submission": entry.submission_id,
                "state": entry.state,
                "user": entry.user,
                "mode": entry.mode,
                "device": entry.device_kind,
                "competition": entry.competition_id,
                "since": entry.since.isoformat(),
                "worker": entry.worker_id,
            }
            for entry in listed
        ]
        print_json({"paused": paused, "submissions": data})
        return 0
    if paused:
        print_line(f"paused: `{QUEUE} resume` lets it go on")
    if listed:
        print_table(QUEUE_HEADINGS, *_queue_rows(listed, now))
    else:
        print_line("nothing waits, and nothing runs")
    return 0


def _queue_rows(listed: Sequence[QueueEntry], now: datetime) -> Iterator[tuple[str, ...]]:
    place = 0
    for entry in listed:
        place += not entry.worker_id
        minutes, seconds = divmod(int(max((now - entry.since).total_seconds(), 0.0)), 60)
        since = f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
        fields = entry.user or "-", entry.mode, entry.device_kind or "any", entry.competition_id or "-"
        yield "runs" if entry.worker_id else str(place), entry.submission_id, *fields, since, entry.worker_id


FIRST_PRIORITY = -1  # sooner than every other one of `grader/ledger/queue.py`


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A submission that runs or waits, as an administrator sees it. since: when it was taken up, or made; worker_id: "" where it waits;
    user: "" of what a rejudge asked for."""

    submission_id: str
    state: SubmissionState
    user: str
    mode: str
    device_kind: str
    competition_id: str
    since: datetime
    worker_id: str


def entries(connection: sa.Connection) -> list[QueueEntry]:
    """Return what runs, longest first, and what waits, in order."""
    names = ("submission_id", "state", "user_name", "mode", "device_kind", "competition_id", "create_time", "start_time", "worker_id")
    columns = [submissions.c[name] for name in (*names, "rejudge_id")]
    running = sa.select(*columns).where(submissions.c.state == SubmissionState.RUNNING).order_by(submissions.c.start_time)
    return [
        records.read(
            QueueEntry,
            row._mapping,
            state=SubmissionState(row.state),
            user="" if row.rejudge_id else row.user_name,
            since=row.start_time if row.state == SubmissionState.RUNNING else row.create_time,
            worker_id=row.worker_id if row.state == SubmissionState.RUNNING else "",
        )
        for row in [*connection.execute(running), *connection.execute(in_order(*columns))]
    ]


def take_first(connection: sa.Connection, submission_id: str) -> None:
    """Put a submission that waits before all others. SubmissionNotFound; ValueError where it runs or has ended."""
    here = sa.and_(submissions.c.submission_id == submission_id, submissions.c.state == SubmissionState.QUEUED)
    if not connection.execute(sa.update(submissions).where(here).values(priority=FIRST_PRIORITY)).rowcount:
        state = transactions.get(connection, submission_id).state
        raise ValueError(f"submission {submission_id!r} is {state.upper()}; only one that waits can be taken up next")
