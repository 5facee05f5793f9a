"""`grader-server admin queue list|pause|resume|first`: who waits, and who is next, while a server runs or without one."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from grader.api.resource_names import SUBMISSIONS, resource_id
from grader.config import Settings
from grader.errors import CallRefused, GraderError
from grader.ledger import Ledger
from grader.ledger.queue import QueueEntry
from grader.server.commands.text_table import aligned
from grader.server.server_state import EVERY_LANE, Cordons
from grader.server.settings import add_ledger_options, ledger_settings, print_line, usage_error

PROGRAM = "grader-server admin queue"
FAILED = 3
HEADINGS = ("next", "submission", "user", "mode", "device", "competition", "since", "at")


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code: 0, 2 where they are wrong, 3 where the ledger fails."""
    options = parser().parse_args(arguments)
    settings = ledger_settings(options)
    if settings is None:
        return 2
    try:
        if options.action in ("pause", "resume"):
            cordons = Cordons(settings.cordons_path)
            if options.action == "pause":
                cordons.add(EVERY_LANE)
                print_line("paused: what runs ends, and what comes waits. Go on with: grader-server admin queue resume")
            elif cordons.remove(EVERY_LANE):
                print_line("the queue goes on")
            else:
                return usage_error(PROGRAM, "the queue of this server is not paused; with several servers, name its --state-dir")
            return 0
        return asyncio.run(_in_ledger(settings, options))
    except CallRefused as error:
        return usage_error(PROGRAM, str(error))
    except (GraderError, OSError, ValueError, SQLAlchemyError) as error:
        usage_error(PROGRAM, str(error))
        return FAILED


def parser() -> argparse.ArgumentParser:
    """The command line."""
    where = argparse.ArgumentParser(add_help=False)
    add_ledger_options(where)
    command_parser = argparse.ArgumentParser(prog=PROGRAM, description="Shows the queue, stops it, and changes its order.")
    actions = command_parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    list_ = actions.add_parser("list", parents=[where], help="what runs, and what waits in the order in which it is taken up")
    list_.add_argument("--json", action="store_true", help="print JSON, and nothing else, on stdout")
    text = "let this server end what it has and begin nothing more; submissions are taken and wait, also after a restart"
    actions.add_parser("pause", parents=[where], help=text)
    actions.add_parser("resume", parents=[where], help="begin again")
    first = actions.add_parser("first", parents=[where], help="take this one up before all others that wait")
    first.add_argument("submission", metavar="ID", help="the whole id of a submission that waits")
    return command_parser


async def _in_ledger(settings: Settings, options: argparse.Namespace) -> int:
    async with Ledger.open(settings.ledger) as ledger:
        if options.action == "first":
            submission_id = resource_id(SUBMISSIONS, options.submission)
            await ledger.take_first(submission_id)
            print_line(f"{submission_id} is taken up next")
            return 0
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
        print_line(json.dumps({"paused": paused, "submissions": submissions}, indent=2))
        return 0
    if paused:
        print_line("paused: `grader-server admin queue resume` lets it go on")
    print_line(_table(entries, now) if entries else "nothing waits, and nothing runs")
    return 0


def _table(entries: Sequence[QueueEntry], now: datetime) -> str:
    rows, place = [HEADINGS], 0
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
        rows.append(("runs" if entry.worker_id else str(place), *texts))
    return aligned(rows)
