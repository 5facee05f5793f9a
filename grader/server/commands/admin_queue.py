"""`grader-server admin queue list|pause|resume|first`: who waits, and who is next, while a server runs or without one."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial

from grader.api.resource_names import SUBMISSIONS, resource_id
from grader.config import Settings
from grader.ledger import Ledger
from grader.ledger.queue import QueueEntry
from grader.server.server_state import EVERY_LANE, Cordons
from grader.server.settings import add_json_option, add_ledger_options, print_json, print_line, print_table, run_command, usage_error

PROGRAM = "grader-server admin queue"
HEADINGS = ("next", "submission", "user", "mode", "device", "competition", "since", "at")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code: 0, 2 where they are wrong, 3 where the ledger fails."""
    options = parser().parse_args(arguments)
    return run_command(PROGRAM, options, partial(_run, options))


def _run(options: argparse.Namespace, settings: Settings) -> int:
    cordons = Cordons(settings.cordons_path)
    if options.action == "pause":
        cordons.add(EVERY_LANE)
        print_line(f"paused: what runs ends, and what comes waits. Go on with: {PROGRAM} resume")
    elif options.action == "resume" and not cordons.remove(EVERY_LANE):
        return usage_error(PROGRAM, "the queue of this server is not paused; with several servers, name its --state-dir")
    elif options.action == "resume":
        print_line("the queue goes on")
    else:
        asyncio.run(_in_ledger(settings, options))
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    where = argparse.ArgumentParser(add_help=False)
    add_ledger_options(where)
    command_parser = argparse.ArgumentParser(prog=PROGRAM, description="Shows the queue, stops it, and changes its order.")
    actions = command_parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_ = actions.add_parser("list", parents=[where], help="what runs, and what waits in the order in which it is taken up")
    add_json_option(list_)
    text = "let this server end what it has and begin nothing more; submissions are taken and wait, also after a restart"
    actions.add_parser("pause", parents=[where], help=text)
    actions.add_parser("resume", parents=[where], help="begin again")
    first = actions.add_parser("first", parents=[where], help="take this one up before all others that wait")
    first.add_argument("submission", metavar="ID", help="the whole id of a submission that waits")
    return command_parser


async def _in_ledger(settings: Settings, options: argparse.Namespace) -> None:
    async with Ledger.open(settings.ledger) as ledger:
        if options.action == "first":
            submission_id = resource_id(SUBMISSIONS, options.submission)
            await ledger.take_first(submission_id)
            print_line(f"{submission_id} is taken up next")
            return
        entries, now = await ledger.queue_entries(), ledger.now()
    cordons = Cordons(settings.cordons_path)
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
        return
    if paused:
        print_line(f"paused: `{PROGRAM} resume` lets it go on")
    if entries:
        print_table(HEADINGS, *_rows(entries, now))
    else:
        print_line("nothing waits, and nothing runs")


def _rows(entries: Sequence[QueueEntry], now: datetime) -> Iterator[tuple[str, ...]]:
    place = 0
    for entry in entries:
        place += not entry.worker_id
        minutes, seconds = divmod(int(max((now - entry.since).total_seconds(), 0.0)), 60)
        since = f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
        texts = (
            entry.submission_id,
            entry.user or "-",
            entry.mode,
            entry.device_kind or "any",
            entry.competition_id or "-",
            since,
            entry.worker_id,
        )
        yield ("runs" if entry.worker_id else str(place), *texts)
