"""Commands of organisers: `competitions check` and `new` before, `ban`, `actions` and `reload` while a competition runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from grader.api.resource_names import COMPETITIONS, full_name
from grader.cli import extras
from grader.cli.exits import Exit
from grader.cli.options import Json, Server, StateDir
from grader.cli.output import print_line, print_message, text_table
from grader.cli.session import ServerRequirement, Target, connect
from grader.v1 import competition_pb2, grader_service_pb2
from grader.views import formatting
from grader.views.sanitize import one_line
from grader_extensions.competitions.cli.competitions import CompetitionName

if TYPE_CHECKING:
    from grader_extensions.competitions.cli import files
else:
    files = extras.CommandModule("grader_extensions.competitions.cli.files", "server")

ProblemDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--problems",
        metavar="DIR",
        help="A directory of problems, as of the server. May be repeated. Default: kernels_examples of a source tree. "
        "Imported problems are known too.",
        show_default=False,
    ),
]
ImportedIn = Annotated[
    Path | None,
    typer.Option(
        "--state-dir", metavar="DIR", help="Where problems were imported. [default: $GRADER_STATE_DIR, or the user's state directory]"
    ),
]


async def check_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A competition.toml, or its directory.")],
    problems: ProblemDirs = None,
    state_dir: ImportedIn = None,
) -> Exit:
    """Check a competition's file, and print every mistake with its line, its key and what to write.

    Exit code: 0 if a server takes it, 1 if not.
    """
    return files.check(file, problems or (), state_dir)


async def new_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The competition's name, and the directory that is made for it.")],
    problem: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="A problem of it. May be repeated. Default: the first.", show_default=False)
    ] = None,
    problems: ProblemDirs = None,
    state_dir: ImportedIn = None,
) -> Exit:
    """Write NAME/competition.toml: a competition of two days from tomorrow, with a comment on each key and a random seed."""
    return files.new(name, problem or (), problems or (), state_dir)


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
    async with connect(Target(server=server, state_dir=state_dir), ServerRequirement.GRADE if user else ServerRequirement.READ) as client:
        if not user:
            bans = await client.list_bans(competition)
            rows = [
                (ban.user, str(ban.submission_count), formatting.utc(ban.create_time), ban.administrator or "-", ban.reason)
                for ban in bans.bans
            ]
            table = text_table(("user", "submissions", "since (UTC)", "by", "reason"), rows)
            print_message(bans, [table] if rows else "no user is banned from it", json=json)
        elif lift:
            lifted = await client.lift_ban(competition, user, reason=reason)
            print_line(f"{user} may take part in {competition} again" if lifted else f"{user} is not banned from {competition}")
        else:
            ban = await client.ban_user(competition, user, reason=reason)
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
        actions = (await client.list_competition_actions(full_name(COMPETITIONS, name), page_size=limit)).actions
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
    async with connect(Target(server=server), ServerRequirement.GRADE) as client:
        answer = await client.reload_competitions()
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
