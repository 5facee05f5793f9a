"""Commands that this package adds to `grader-cli`."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from grader.cli.options import ADMINISTRATORS, EXIT_CODES, GRADE, PROBLEMS
from grader.cli.server_choice import GraderTyper
from grader.extensions import CommandLine
from grader_extensions.competitions.cli import competitions, organizers, rejudge
from grader_extensions.competitions.cli.export import export_command


class CompetitionCommands(CommandLine):
    """Commands of competitions, boards and rejudges."""

    def add_commands(self, app: typer.Typer, groups: Mapping[str, typer.Typer]) -> None:
        """Add the groups `competitions` and `rejudge`, and `leaderboard`, `withdraw` and `final`."""
        competitions_app = GraderTyper(no_args_is_help=True, help="Competitions: problems, a time window, and boards.")
        competitions_app.command("list")(competitions.list_command)
        competitions_app.command("show")(competitions.show_command)
        competitions_app.command("new")(organizers.new_command)
        competitions_app.command("check")(organizers.check_command)
        competitions_app.command("export")(export_command)
        competitions_app.command("ban", rich_help_panel=ADMINISTRATORS)(organizers.ban_command)
        competitions_app.command("actions", rich_help_panel=ADMINISTRATORS)(organizers.actions_command)
        competitions_app.command("reload", rich_help_panel=ADMINISTRATORS)(organizers.reload_command)
        app.command("withdraw", rich_help_panel=GRADE)(competitions.withdraw_command)
        app.add_typer(competitions_app, name="competitions", rich_help_panel=PROBLEMS)
        app.command("leaderboard", rich_help_panel=PROBLEMS)(competitions.leaderboard_command)
        app.add_typer(rejudge.rejudge_app, name="rejudge", rich_help_panel=ADMINISTRATORS)
        app.command("final", epilog=EXIT_CODES, rich_help_panel=ADMINISTRATORS)(rejudge.final_command)
