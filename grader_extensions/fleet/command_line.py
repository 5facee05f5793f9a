"""Additions to `grader-server admin`."""

from __future__ import annotations

from collections.abc import Mapping

from grader.extensions import AdminCommand, CommandLine


class FleetCommands(CommandLine):
    """`grader-server admin workers`."""

    def admin_commands(self) -> Mapping[str, AdminCommand]:
        """Return it."""
        summary = "workers of a fleet: which hosts may join, and their certificates"
        return {"workers": AdminCommand(module="grader_extensions.fleet.admin_workers", summary=summary)}
