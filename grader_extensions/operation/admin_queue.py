"""`grader-server admin queue`: who waits, who is next, and whether it is paused."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from grader.api.resource_names import SUBMISSIONS, resource_id
from grader.config import Settings
from grader.ledger import Ledger
from grader.server.admin import PROGRAM, action_adder, in_ledger
from grader.server.server_state import EVERY_LANE, Cordons
from grader.server.settings import add_json_option, add_ledger_options, print_json, print_line, print_table, run_command, usage_error
from grader_extensions.operation import administered_queue

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
    await ledger.database.write(lambda connection: administered_queue.take_first(connection, submission_id))
    print_line(f"{submission_id} is taken up next")
    return 0


async def _list_queue(ledger: Ledger, options: argparse.Namespace) -> int:
    entries, now = await ledger.database.read(administered_queue.entries), ledger.now()
    cordons = Cordons(options.settings.state_dir)
    cordons.look()
    paused = EVERY_LANE in cordons.names
    if options.json:
        submissions = [
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
            for entry in entries
        ]
        print_json({"paused": paused, "submissions": submissions})
        return 0
    if paused:
        print_line(f"paused: `{QUEUE} resume` lets it go on")
    if entries:
        print_table(QUEUE_HEADINGS, *_queue_rows(entries, now))
    else:
        print_line("nothing waits, and nothing runs")
    return 0


def _queue_rows(entries: Sequence[administered_queue.QueueEntry], now: datetime) -> Iterator[tuple[str, ...]]:
    place = 0
    for entry in entries:
        place += not entry.worker_id
        minutes, seconds = divmod(int(max((now - entry.since).total_seconds(), 0.0)), 60)
        since = f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
        fields = entry.user or "-", entry.mode, entry.device_kind or "any", entry.competition_id or "-"
        yield "runs" if entry.worker_id else str(place), entry.submission_id, *fields, since, entry.worker_id
