"""Commands that this package adds to `grader-cli`."""

from __future__ import annotations

from collections.abc import Mapping

from grader.cli.options import ADMINISTRATORS, EXIT_CODES, GRADE, PROBLEMS
from grader.extensions import CliCommand, CliGroup, CommandLine

HERE = "grader_extensions.competitions.cli"


class CompetitionCommands(CommandLine):
    """Commands of competitions, boards and rejudges."""

    def commands(self) -> Mapping[str, CliCommand | CliGroup]:
        """Return them."""
        rejudge = "Judge submissions again, look at what changes, then apply or discard it. For administrators."
        return {
            "withdraw": CliCommand(f"{HERE}.competitions:withdraw_command", GRADE),
            "competitions": CliGroup("Competitions: problems, a time window, and boards.", PROBLEMS),
            "competitions list": CliCommand(f"{HERE}.competitions:list_command"),
            "competitions show": CliCommand(f"{HERE}.competitions:show_command"),
            "competitions check": CliCommand(f"{HERE}.competitions:check_command"),
            "competitions export": CliCommand(f"{HERE}.export:export_command"),
            "competitions ban": CliCommand(f"{HERE}.competitions:ban_command", ADMINISTRATORS),
            "competitions actions": CliCommand(f"{HERE}.competitions:actions_command", ADMINISTRATORS),
            "competitions reload": CliCommand(f"{HERE}.competitions:reload_command", ADMINISTRATORS),
            "leaderboard": CliCommand(f"{HERE}.competitions:leaderboard_command", PROBLEMS),
            "rejudge": CliGroup(rejudge, ADMINISTRATORS),
            "rejudge create": CliCommand(f"{HERE}.rejudge:create_command"),
            "rejudge show": CliCommand(f"{HERE}.rejudge:show_command"),
            "rejudge apply": CliCommand(f"{HERE}.rejudge:apply_command"),
            "rejudge discard": CliCommand(f"{HERE}.rejudge:discard_command"),
            "final": CliCommand(f"{HERE}.rejudge:final_command", ADMINISTRATORS, EXIT_CODES),
        }
