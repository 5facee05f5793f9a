"""Additions to `grader-cli`."""

from __future__ import annotations

from collections.abc import Mapping

from grader.cli.options import EXIT_CODES, GRADE
from grader.extensions import CliCommand, CommandLine


class SweepCommand(CommandLine):
    """`grader-cli sweep`."""

    def commands(self) -> Mapping[str, CliCommand]:
        """Return it."""
        return {"sweep": CliCommand("grader_extensions.modes.sweep_command:sweep_command", GRADE, EXIT_CODES)}
