"""Additions to `grader-cli`."""

from __future__ import annotations

from collections.abc import Mapping

from grader.cli.options import RESULTS
from grader.extensions import CliCommand, CommandLine


class StatisticsCommands(CommandLine):
    """`grader-cli summary` and `export`."""

    def commands(self) -> Mapping[str, CliCommand]:
        """Return them."""
        return {
            "summary": CliCommand("grader_extensions.statistics.summary:summary_command", RESULTS),
            "export": CliCommand("grader_extensions.statistics.export:export_command", RESULTS),
        }
