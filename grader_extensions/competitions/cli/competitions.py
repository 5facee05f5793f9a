"""`grader-cli competitions ...` but `export`, `withdraw` and `leaderboard`: competitions, their boards, and what organisers do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api.client import GraderClient
from grader.api.resource_names import COMPETITIONS, PROBLEMS, SUBMISSIONS, full_name, resource_id
from grader.cli import extras
from grader.cli.exits import Exit, UsageError
from grader.cli.options import Json, Name, Server, StateDir
from grader.cli.output import plain, print_json, print_line, print_message, print_parts, text_table
from grader.cli.saved_files import STDOUT, write_text
from grader.cli.session import ServerRequirement, Target, connect
from grader.cli.submissions import whole_name
from grader.v1 import competition_pb2, grader_service_pb2, report_pb2
from grader.views import formatting
from grader.views.sanitize import one_line
from grader_extensions.competitions.calls import CompetitionCalls
from grader_extensions.export_file import csv_text

if TYPE_CHECKING:
    from grader_extensions.competitions.cli import files
else:
    files = extras.CommandModule("grader_extensions.competitions.cli.files", "server")

CompetitionName = Annotated[str, typer.Argument(metavar="NAME", help="competitions/ID, or just ID.")]
BOARD_PAGE_SIZE = 1000  # of a whole board
_CSV_COLUMNS = ("rank", "user", "score", "score_low", "score_high", "submission", "create_time", "problem_count", "flags")
_VISIBILITIES = {
    competition_pb2.VISIBILITY_PRIVATE: "only you and the organisers see your sources and reports",
    competition_pb2.VISIBILITY_AFTER_END: "once it has ended, everybody sees all sources and reports",
}


async def list_command(server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """List the competitions and their states."""
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.READ) as client:
        competitions = (await CompetitionCalls(client).list_competitions(page_size=1000)).competitions
    rows = list[tuple[str, ...]]()
    for entry in competitions:
        name, times = resource_id(COMPETITIONS, entry.name), (formatting.utc(entry.start_time), formatting.utc(entry.end_time))
        rows.append((name, entry.title, formatting.words(entry, "state"), *times, str(len(entry.problems))))
    table = text_table(("competition", "title", "state", "start (UTC)", "end (UTC)", "problems"), rows)
    empty = "no competitions here; name a server that holds some with --server HOST:PORT"
    print_message(grader_service_pb2.ListCompetitionsResponse(competitions=competitions), [table] if rows else empty, json=json)
    return Exit.DONE


async def show_command(name: CompetitionName, server: Server = None, state_dir: StateDir = None, json: Json = False) -> Exit:
    """Print a competition: its problems, times, limits and score."""
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.READ) as client:
        competition = await CompetitionCalls(client).get_competition(full_name(COMPETITIONS, name))
    print_message(competition, render(competition), json=json)
    return Exit.DONE


async def withdraw_command(
    name: Name,
    reason: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Why, in one line. Everybody who sees the submission sees it. Needed for another user's submission.",
            show_default=False,
        ),
    ] = "",
    undo: Annotated[bool, typer.Option("--undo", help="Put it back on the boards: for administrators.")] = False,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """Take a submission off the boards of its competition: your own until the end, as an administrator any at any time.

    It is still shown to those who saw it, marked as withdrawn, and still counts against your quota.
    """
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.WRITE) as client:
        full = await whole_name(client, name)
        calls = CompetitionCalls(client)
        submission = await (calls.restore(full, reason=reason) if undo else calls.withdraw(full, reason=reason))
    print_message(submission, f"{submission.name}: {formatting.withdrawal(submission) or 'counts on the boards'}", json=json)
    return Exit.DONE


def render(competition: competition_pb2.Competition) -> Iterator[RenderableType]:
    """All that a participant has to know."""
    competition_id = one_line(resource_id(COMPETITIONS, competition.name))
    yield plain(f"{competition_id}: {one_line(competition.title)} ({formatting.words(competition, 'state')})", "bold")
    if competition.statement:
        yield plain(f"\n{competition.statement.strip()}")
    yield Text()
    terms = Table.grid(padding=(0, 2))
    for label, value in _terms(competition):
        terms.add_row(label, plain(one_line(value)))
    yield terms
    yield Text()
    problem_ids = [resource_id(PROBLEMS, name) for name in competition.problems]
    rows = [(problem_id, str(competition.secret_workload_counts.get(problem_id, 0))) for problem_id in problem_ids]
    yield text_table(("problem", "secret workloads"), rows)
    yield plain(f"\nthen: grader-cli submit FILE --competition {competition_id} --problem PROBLEM --server HOST:PORT")


def _terms(competition: competition_pb2.Competition) -> Iterator[tuple[str, str]]:
    yield "open", f"from {_time(competition.start_time)} until before {_time(competition.end_time)}"
    if competition.HasField("freeze_time"):
        yield "board", f"stands still from {_time(competition.freeze_time)} until the end"
    yield "devices", ", ".join(competition.device_kinds)
    yield "counts", f"mode {formatting.words(competition, 'mode')}, {competition.process_count} processes each"
    timed = competition.score_kind == report_pb2.SCORE_KIND_TIME
    yield "score", "time, smaller is better" if timed else f"speedup over {competition.baseline}, larger is better"
    first = ", the earlier one is listed first" if competition.tie_rule == competition_pb2.TIE_RULE_EARLIEST else ""
    yield "ties", f"entries whose intervals overlap share a rank{first}"
    limits = ((competition.hourly_limit, "in an hour"), (competition.daily_limit, "in a day"))
    words = " and ".join(f"{limit} {period}" for limit, period in limits if limit)
    yield "limits", f"at most {words} each" if words else "none but the server's"
    yield "shown", _VISIBILITIES.get(competition.visibility, "not known to this grader-cli")


def _time(time: Timestamp) -> str:
    return f"{formatting.utc(time)} UTC"


# -- leaderboard ---------------------------------------------------------------------------------------------------------


async def leaderboard_command(
    competition: Annotated[str, typer.Argument(metavar="COMPETITION", help="competitions/ID, or just ID.")],
    problem: Annotated[str, typer.Option(help="The board of this problem. Default: the board over all problems.", show_default=False)] = "",
    device: Annotated[
        str, typer.Option(help="The device's model name, or a part of it. Default: the first with entries.", show_default=False)
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="All entries; else the first 50.")] = False,
    csv: Annotated[
        str, typer.Option("--csv", metavar="FILE", help="Write all entries there as CSV, or to stdout with '-'.", show_default=False)
    ] = "",
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """Print a competition's board: the best of each user with a 95 % interval. Overlapping intervals share a rank (shown as 1=)."""
    if json and csv == STDOUT:
        raise UsageError("--json and --csv - both write to stdout; take one of them, or give --csv a file")
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.READ) as client:
        board = await read_board(client, competition, problem=problem, device=device, everything=everything or bool(csv))
    if csv:
        write_text(csv, to_csv(board))
    if json:
        print_json(board)
    elif not csv:
        print_parts(render_board(board))
    return Exit.DONE


async def read_board(client: GraderClient, name: str, *, problem: str, device: str = "", everything: bool) -> competition_pb2.Leaderboard:
    """Read the first page, or all of it. device: a part of the name is enough."""
    competition, problem, size = full_name(COMPETITIONS, name), full_name(PROBLEMS, problem), BOARD_PAGE_SIZE if everything else 0
    calls = CompetitionCalls(client)
    board = await calls.get_leaderboard(competition, problem=problem, device=device, page_size=size)
    if device and device not in board.devices:
        device = _matching_device(device, list(board.devices))
        board = await calls.get_leaderboard(competition, problem=problem, device=device, page_size=size)
    while everything and board.next_page_token:
        token = board.next_page_token
        page = await calls.get_leaderboard(competition, problem=problem, device=device, page_size=size, page_token=token)
        board.entries.extend(page.entries)
        board.next_page_token = page.next_page_token
    return board


def _matching_device(part: str, devices: list[str]) -> str:
    """The only device whose name has this part."""
    matches = [device for device in devices if part.lower() in device.lower()]
    if len(matches) == 1:
        return matches[0]
    if not devices:
        raise UsageError(f"no entries on a device {part!r}, nor on any other yet")
    fault = "several devices have" if matches else "no entries on a device with"
    raise UsageError(f"{fault} {part!r} in the name; take one of: {', '.join(devices)}")


def render_board(board: competition_pb2.Leaderboard) -> Iterator[RenderableType]:
    """The parts of a board, top to bottom."""
    problem = one_line(resource_id(PROBLEMS, board.problem)) if board.problem else "all problems"
    device = f", on {one_line(board.device)}" if board.device else ""
    yield plain(f"{one_line(resource_id(COMPETITIONS, board.competition))}: {problem}{device}", "bold")
    if board.score_kind == report_pb2.SCORE_KIND_TIME:
        score, overall = "certified time, geometric mean; less is better", "only who has an entry in every problem is here"
    else:
        score = f"times faster than {one_line(board.baseline)}, geometric mean"
        overall = "a problem without an entry, or with one below 1x, counts as 1x"
    yield plain(score if board.problem else f"{score}; {overall}")
    if board.rule:
        yield plain(f"right is: {one_line(board.rule, most_chars=400)}")
    if board.other_rule_count:
        yield plain(f"{board.other_rule_count} left out: judged by another rule; 'grader-cli rejudge' judges them by this one", "yellow")
    if board.HasField("freeze_time"):
        frozen = formatting.utc(board.freeze_time)
        yield plain(f"frozen: what was handed in since {frozen} UTC shows when the competition has ended", "yellow")
    if board.entries and not board.official:
        yield plain(formatting.PRACTICE, "yellow")
    if not board.entries:
        yield plain("\nno entries yet" + ("" if board.problem else "; --problem shows the board of one problem"))
        return
    yield Text()
    yield _board_table(board)
    if board.entry_count > len(board.entries):
        yield plain(f"and {board.entry_count - len(board.entries)} more; --all shows them")
    if further := [device for device in board.devices if device != board.device]:
        yield plain(f"also on: {one_line(', '.join(further))}; choose with --device")


def _board_table(board: competition_pb2.Leaderboard) -> Table:
    shared = Counter(entry.rank for entry in board.entries)
    rows = [
        (
            Text(f"{entry.rank}{'=' if shared[entry.rank] > 1 else ' '}"),
            entry.user or "-",
            formatting.score(entry.score, entry.score_low, entry.score_high, board.score_kind),
            resource_id(SUBMISSIONS, entry.submission) if board.problem else str(entry.problem_count),
            formatting.utc(entry.create_time),
        )
        for entry in board.entries
    ]
    headings = ("rank", "user", "score", "submission" if board.problem else "problems", "handed in (UTC)")
    return text_table(headings, rows, right=("rank",))


def to_csv(board: competition_pb2.Leaderboard) -> str:
    """The entries with a line of headings; numbers in full, times in UTC."""
    rows = list[tuple[object, ...]]()
    for entry in board.entries:
        figures = (repr(figure) for figure in (entry.score, entry.score_low, entry.score_high))
        submission_id, time = resource_id(SUBMISSIONS, entry.submission), entry.create_time.ToJsonString()
        rows.append((entry.rank, entry.user, *figures, submission_id, time, entry.problem_count, " ".join(entry.flags)))
    return csv_text(_CSV_COLUMNS, *rows)


# -- organisers: `check` before, `ban`, `actions` and `reload` while a competition runs ------------------------------------


async def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A competition.toml, or its directory.")],
    problems: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A directory of problems, as of the server. May be repeated. Default: kernels_examples of a source tree. "
            "Imported problems are known too.",
            show_default=False,
        ),
    ] = None,
    state_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where problems were imported. [default: $GRADER_STATE_DIR, or the user's state directory]"),
    ] = None,
) -> Exit:
    """Check a competition's file, and print every mistake with its line, its key and what to write.

    Exit code: 0 if a server takes it, 1 if not.
    """
    return files.check(file, problems or (), state_dir)


async def ban_command(
    name: CompetitionName,
    user: Annotated[str, typer.Argument(metavar="USER", help="The user, with all keys of theirs. Default: list who is banned.")] = "",
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why, in one line of at most 400 characters. The user reads it.", show_default=False)
    ] = "",
    lift: Annotated[bool, typer.Option("--lift", help="Lift the ban: submissions are taken again, and are back on the boards.")] = False,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """Ban a user from a competition: submissions are refused, and those that are there leave the boards. For administrators."""
    if not user and (lift or reason):
        raise typer.BadParameter("--lift and --reason are of a user; name one")
    if user and not lift and not reason:
        raise typer.BadParameter("a ban needs a reason; add --reason TEXT")
    competition = full_name(COMPETITIONS, name)
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.WRITE if user else ServerRequirement.READ) as client:
        if not user:
            bans = await CompetitionCalls(client).list_bans(competition)
            rows = [
                (ban.user, str(ban.submission_count), formatting.utc(ban.create_time), ban.administrator or "-", ban.reason)
                for ban in bans.bans
            ]
            table = text_table(("user", "submissions", "since (UTC)", "by", "reason"), rows)
            print_message(bans, [table] if rows else "no user is banned from it", json=json)
        elif lift:
            lifted = await CompetitionCalls(client).lift_ban(competition, user, reason=reason)
            print_line(f"{user} may take part in {competition} again" if lifted else f"{user} is not banned from {competition}")
        else:
            ban = await CompetitionCalls(client).ban_user(competition, user, reason=reason)
            scope = f"submissions there, which are on no board now: {ban.submission_count}"
            empty = "and has submitted nothing there; check the name with: grader-cli list"
            sentence = f"{ban.user} is banned from {ban.competition}"
            print_message(ban, f"{sentence}; {scope}" if ban.submission_count else f"{sentence}, {empty}", json=json)
    return Exit.DONE


async def actions_command(
    name: CompetitionName,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 50,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> Exit:
    """List what was withdrawn, banned and reloaded in a competition, by whom and why. For administrators."""
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.READ) as client:
        actions = (await CompetitionCalls(client).list_competition_actions(full_name(COMPETITIONS, name), page_size=limit)).actions
    rows = [
        (formatting.utc(action.create_time), action.action.replace("_", " "), action.subject, action.user or "-", action.reason)
        for action in actions
    ]
    table = text_table(("time (UTC)", "action", "what", "by", "reason"), rows)
    message = grader_service_pb2.ListCompetitionActionsResponse(actions=actions)
    print_message(message, [table] if rows else "nothing was done there yet", json=json)
    return Exit.DONE


async def reload_command(server: Server = None, json: Json = False) -> Exit:
    """Have a server read the files of its competitions again, without a restart, and print what has changed. For administrators.

    All files are taken or none. After the start of a competition its problems, secrets and scoring stay as they are.
    """
    async with connect(Target(server=server), ServerRequirement.WRITE) as client:
        answer = await CompetitionCalls(client).reload_competitions()
    print_message(answer, "\n".join(describe_changes(answer.changes)), json=json)
    return Exit.DONE


def describe_changes(changes: Sequence[competition_pb2.CompetitionChange]) -> list[str]:
    """Describe the changed competitions and keys, in lines; a secret key has no values."""
    lines = []
    for change in changes:
        kind = formatting.name_of(competition_pb2.CompetitionChangeKind, change.kind, "COMPETITION_CHANGE_KIND_").lower()
        lines.append(f"{one_line(change.competition)}: {kind}")
        for key in change.keys:
            values = f"{one_line(key.before)} -> {one_line(key.after)}" if key.before or key.after else "changed"
            lines.append(f"  {one_line(key.key)}: {values}")
    return lines or ["nothing has changed"]
