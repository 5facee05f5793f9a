"""Additions to `grader-cli`."""

from __future__ import annotations

from collections.abc import Mapping

from grader.cli.options import EXIT_CODES, GRADE, HERE, PROBLEMS
from grader.extensions import CliCommand, CliGroup, CommandLine


class AuthoringCommands(CommandLine):
    """`grader-cli init`, `mcp`, `demo`, and the group `problems`."""

    def commands(self) -> Mapping[str, CliCommand | CliGroup]:
        """Return them."""
        module = "grader_extensions.authoring.commands"
        return {
            "init": CliCommand(f"{module}:init_command", GRADE),
            "mcp": CliCommand("grader_extensions.agents.command:mcp_command", GRADE),
            "problems": CliGroup("Problems that kernels can be submitted to.", PROBLEMS),
            "problems list": CliCommand(f"{module}:list_command"),
            "problems show": CliCommand(f"{module}:show_command"),
            "problems new": CliCommand("grader_extensions.authoring.recipes:new_command"),
            "demo": CliCommand(f"{module}:demo", HERE, EXIT_CODES),
        }
