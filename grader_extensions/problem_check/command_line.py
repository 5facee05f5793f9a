"""Additions to `grader-cli`."""

from __future__ import annotations

from collections.abc import Mapping

from grader.cli import extras
from grader.extensions import CliCommand, CommandLine, ProblemCheck


class ProblemCheckCommands(CommandLine):
    """`grader-cli problems check`, and the check of `problems import`."""

    def commands(self) -> Mapping[str, CliCommand]:
        """Return the command."""
        return {"problems check": CliCommand("grader_extensions.problem_check.commands:check_command")}

    def problem_check(self) -> ProblemCheck:
        """Return the check with mutants."""
        examine: ProblemCheck = extras.load("grader_extensions.problem_check.checks", "server", "judge").examine
        return examine
