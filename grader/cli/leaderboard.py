"""`grader-cli leaderboard`: a board as a table, as CSV or as JSON."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api.client import GraderClient
from grader.api.resource_names import COMPETITIONS, PROBLEMS, SUBMISSIONS, full_name, resource_id
from grader.cli.exits import Exit, UsageError
from grader.cli.output import plain, print_json, stdout_console
from grader.cli.saved_files import STDOUT, write_text
from grader.cli.session import ServerRequirement, Target, connect
from grader.v1 import competition_pb2, report_pb2
from grader.views import device_differences, formatting
from grader.views.sanitize import one_line

PAGE_SIZE = 1000  # where all of it is wanted
_COLUMNS = ("rank", "user", "score", "score_low", "score_high", "submission", "create_time", "problem_count", "flags")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderboardOptions:
    """Which board, and how much of it. csv_path: a file, or "-"; then all of it is written."""

    competition: str
    problem: str = ""
    device: str = ""
    everything: bool = False
    csv_path: str = ""


async def leaderboard(target: Target, wanted: LeaderboardOptions, *, json: bool) -> Exit:
    """Print a board, or write it to a file."""
    if json and wanted.csv_path == STDOUT:
        raise UsageError("--json and --csv - both write to stdout; take one of them, or give --csv a file")
    async with connect(target, ServerRequirement.READ) as client:
        board = await read_board(client, wanted)
    if wanted.csv_path:
        write_text(wanted.csv_path, to_csv(board))
    if json:
        print_json(board)
    elif not wanted.csv_path:
        console = stdout_console()
        for part in render(board):
            console.print(part, soft_wrap=isinstance(part, Text))
    return Exit.DONE


def render(board: competition_pb2.Leaderboard) -> Iterator[RenderableType]:
    """The parts of what is printed, top to bottom."""
    competition = one_line(resource_id(COMPETITIONS, board.competition))
    problem = one_line(resource_id(PROBLEMS, board.problem)) if board.problem else "all problems"
    yield plain(f"{competition}: {problem}" + (f", on {one_line(board.device)}" if board.device else ""), "bold")
    yield plain(_compared(board))
    if board.rule:
        yield plain(f"right is: {one_line(board.rule, most_chars=400)}")
    if board.other_rule_count:
        yield plain(f"{board.other_rule_count} left out: judged by another rule; 'grader-cli rejudge' judges them by this one", "yellow")
    if board.HasField("freeze_time"):
        frozen = board.freeze_time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S")
        yield plain(f"frozen: what was handed in since {frozen} UTC shows when the competition has ended", "yellow")
    if board.entries and not board.official:
        yield plain(formatting.practice(board.device), "yellow")
    if unlike := device_differences.sentence(board.device_differences):
        yield plain(unlike, "yellow")
    if not board.entries:
        yield plain("\nno entries yet" + ("" if board.problem else "; --problem shows the board of one problem"))
        return
    yield Text()
    yield _table(board)
    left = board.entry_count - len(board.entries)
    if left > 0:
        yield plain(f"and {left} more; --all shows them")
    others = [one for one in board.devices if one != board.device]
    if others:
        yield plain(f"also on: {one_line(', '.join(others))}; choose with --device")


def to_csv(board: competition_pb2.Leaderboard) -> str:
    """The entries with a line of headings; numbers in full, times in UTC."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for one in board.entries:
        figures = (repr(figure) for figure in (one.score, one.score_low, one.score_high))
        submission = resource_id(SUBMISSIONS, one.submission)
        writer.writerow((one.rank, one.user, *figures, submission, one.create_time.ToJsonString(), one.problem_count, " ".join(one.flags)))
    return out.getvalue()


async def read_board(client: GraderClient, wanted: LeaderboardOptions) -> competition_pb2.Leaderboard:
    """The first page, or all of it."""
    competition = full_name("competitions", wanted.competition)
    problem = full_name("problems", wanted.problem) if wanted.problem else ""
    device = wanted.device
    everything = wanted.everything or bool(wanted.csv_path)
    size = PAGE_SIZE if everything else 0
    board = await client.get_leaderboard(competition, problem=problem, device=device, page_size=size)
    if device and device not in board.devices:
        device = _device(device, list(board.devices))
        board = await client.get_leaderboard(competition, problem=problem, device=device, page_size=size)
    while everything and board.next_page_token:
        more = await client.get_leaderboard(competition, problem=problem, device=device, page_size=size, page_token=board.next_page_token)
        board.entries.extend(more.entries)
        board.next_page_token = more.next_page_token
    return board


def _device(asked: str, known: list[str]) -> str:
    """The one device whose name has what was asked for in it."""
    found = [one for one in known if asked.lower() in one.lower()]
    if len(found) == 1:
        return found[0]
    if not known:
        raise UsageError(f"no entries on a device {asked!r}, nor on any other yet")
    raise UsageError(
        f"{'several devices have' if found else 'no entries on a device with'} {asked!r} in the name; take one of: {', '.join(known)}"
    )


def _compared(board: competition_pb2.Leaderboard) -> str:
    if board.score_kind == report_pb2.SCORE_KIND_TIME:
        sentence = "certified time, geometric mean; less is better"
        return sentence if board.problem else f"{sentence}; only who has an entry in every problem is here"
    sentence = f"times faster than {one_line(board.baseline)}, geometric mean"
    return sentence if board.problem else f"{sentence}; a problem without an entry, or with one below 1x, counts as 1x"


def _table(board: competition_pb2.Leaderboard) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("user")
    table.add_column("score")
    table.add_column("submission" if board.problem else "problems")
    table.add_column("handed in (UTC)")
    shared = Counter(one.rank for one in board.entries)
    for one in board.entries:
        table.add_row(
            f"{one.rank}{'=' if shared[one.rank] > 1 else ' '}",
            plain(one_line(one.user) or "-"),
            formatting.score(one.score, one.score_low, one.score_high, board.score_kind),
            plain(one_line(resource_id(SUBMISSIONS, one.submission))) if board.problem else str(one.problem_count),
            one.create_time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S"),
        )
    return table
