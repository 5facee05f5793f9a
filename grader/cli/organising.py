"""`grader-cli withdraw`, and what organisers do while a competition runs: `competitions ban`, `unban`, `bans`, `actions`
and `reload`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from rich.table import Table

from grader.api.resource_names import COMPETITIONS, full_name, resource_id
from grader.cli.exits import Exit
from grader.cli.jsonout import print_json
from grader.cli.options import Json, Name, Server, StateDir
from grader.cli.progress import stdout_console
from grader.cli.running import run
from grader.cli.session import Need, Target, connect
from grader.cli.short_ids import whole_name
from grader.cli.text import one_line, plain
from grader.v1 import competition_pb2, grader_service_pb2
from grader.views import formatting

CompetitionName = Annotated[str, typer.Argument(metavar="NAME", help="competitions/ID, or just ID.")]
UserName = Annotated[str, typer.Argument(metavar="USER", help="The user, with all keys of theirs.")]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why, in one line of at most 400 characters.", show_default=False)]


def withdraw_command(
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
) -> None:
    """Take a submission off the boards of its competition: your own until the end, as an administrator any at any time.

    It is still shown to those who saw it, marked as withdrawn, and still counts against your quota.
    """

    async def work() -> Exit:
        async with connect(Target(server=server, state_dir=state_dir), Need.GRADE) as client:
            whole = await whole_name(client, name)
            found = await (client.restore(whole, reason=reason) if undo else client.withdraw(whole, reason=reason))
        if json:
            print_json(found)
        else:
            _say(f"{found.name}: {formatting.withdrawal(found) or 'counts on the boards'}")
        return Exit.DONE

    run(work())


def ban_command(
    name: CompetitionName,
    user: UserName,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, in one line of at most 400 characters. The user reads it.")],
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Ban a user from a competition: submissions are refused, and those that are there leave the boards. For administrators."""

    async def work() -> Exit:
        async with connect(Target(server=server, state_dir=state_dir), Need.GRADE) as client:
            made = await client.ban_user(_competition(name), user, reason=reason)
        if json:
            print_json(made)
        elif made.submission_count:
            _say(f"{made.user} is banned from {made.competition}; submissions there, which are on no board now: {made.submission_count}")
        else:
            _say(f"{made.user} is banned from {made.competition}, and has submitted nothing there; check the name with: grader-cli list")
        return Exit.DONE

    run(work())


def unban_command(name: CompetitionName, user: UserName, reason: Reason = "", server: Server = None, state_dir: StateDir = None) -> None:
    """Lift a ban: the user's submissions are taken again, and are back on the boards. For administrators."""

    async def work() -> Exit:
        async with connect(Target(server=server, state_dir=state_dir), Need.GRADE) as client:
            lifted = await client.lift_ban(_competition(name), user, reason=reason)
        _say(f"{user} may take part in {_competition(name)} again" if lifted else f"{user} is not banned from {_competition(name)}")
        return Exit.DONE

    run(work())


def bans_command(name: CompetitionName, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """List who is banned from a competition. For administrators."""

    async def work() -> Exit:
        async with connect(Target(server=server, state_dir=state_dir), Need.READ) as client:
            answer = await client.list_bans(_competition(name))
        if json:
            print_json(answer)
        elif answer.bans:
            rows = (
                (one.user, str(one.submission_count), _time(one.create_time), one.administrator or "-", one.reason) for one in answer.bans
            )
            stdout_console().print(_table(("user", "submissions", "since (UTC)", "by", "reason"), list(rows)))
        else:
            print("no user is banned from it")
        return Exit.DONE

    run(work())


def actions_command(
    name: CompetitionName,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 50,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """List what was withdrawn, banned and reloaded in a competition, by whom and why. For administrators."""

    async def work() -> Exit:
        async with connect(Target(server=server, state_dir=state_dir), Need.READ) as client:
            answer = await client.list_competition_actions(_competition(name), page_size=limit)
        if json:
            print_json(grader_service_pb2.ListCompetitionActionsResponse(actions=answer.actions))
        elif answer.actions:
            rows = (
                (_time(one.create_time), one.action.replace("_", " "), one.subject, one.user or "-", one.reason) for one in answer.actions
            )
            stdout_console().print(_table(("time (UTC)", "action", "what", "by", "reason"), list(rows)))
        else:
            print("nothing was done there yet")
        return Exit.DONE

    run(work())


def reload_command(server: Server = None, json: Json = False) -> None:
    """Have a server read the files of its competitions again, without a restart, and print what has changed. For administrators.

    All files are taken or none. After the start of a competition its problems, secrets and scoring stay as they are.
    """

    async def work() -> Exit:
        async with connect(Target(server=server), Need.GRADE) as client:
            answer = await client.reload_competitions()
        if json:
            print_json(answer)
        else:
            _say("\n".join(changed(answer.changes)))
        return Exit.DONE

    run(work())


def changed(changes: Sequence[competition_pb2.CompetitionChange]) -> list[str]:
    """What differs, in lines."""
    lines = []
    for one in changes:
        kind = formatting.name_of(competition_pb2.CompetitionChangeKind, one.kind, "COMPETITION_CHANGE_KIND_").lower()
        lines.append(f"{one_line(one.competition)}: {kind}")
        lines += [f"  {one_line(key.key)}: {_difference(key)}" for key in one.keys]
    return lines or ["nothing has changed"]


def _difference(key: competition_pb2.CompetitionKeyChange) -> str:
    return f"{one_line(key.before)} -> {one_line(key.after)}" if key.before or key.after else "changed"


def _competition(name: str) -> str:
    return full_name(COMPETITIONS, resource_id(COMPETITIONS, name))


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(*headings, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(plain(one_line(text)) for text in row))
    return table


def _say(text: str) -> None:
    stdout_console().print(plain(text), soft_wrap=True)


def _time(time: Timestamp) -> str:
    return time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S")
