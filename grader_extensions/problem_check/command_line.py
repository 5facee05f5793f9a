"""Additions to `grader-cli`."""

from __future__ import annotations

from collections.abc import Mapping

from grader.extensions import CliCommand, CommandLine


class ProblemCheckCommands(CommandLine):
    """`grader-cli problems check` and `import`."""

    def commands(self) -> Mapping[str, CliCommand]:
        """Return the commands."""
        return {
            "problems import": CliCommand("grader_extensions.problem_check.commands:import_command"),
            "problems check": CliCommand("grader_extensions.problem_check.commands:check_command"),
        }
