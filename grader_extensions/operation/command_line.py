"""Additions to `grader-cli` and `grader-server`."""

from __future__ import annotations

from collections.abc import Mapping

from grader.cli.options import HERE
from grader.extensions import AdminCommand, CliCommand, CommandLine

PACKAGE = "grader_extensions.operation"


class OperationCommands(CommandLine):
    """Commands of those who run a server."""

    def commands(self) -> Mapping[str, CliCommand]:
        """Return `grader-cli doctor`."""
        return {"doctor": CliCommand(f"{PACKAGE}.doctor_command:doctor", HERE)}

    def server_commands(self) -> Mapping[str, AdminCommand]:
        """Return `grader-server doctor`, `backup` and `check`."""
        return {
            "doctor": AdminCommand(module=f"{PACKAGE}.server_doctor", summary="whether a server with these options would start"),
            "backup": AdminCommand(module=f"{PACKAGE}.backup", summary="copy the ledger"),
            "check": AdminCommand(module=f"{PACKAGE}.check", summary="whether the ledger is whole"),
        }

    def admin_commands(self) -> Mapping[str, AdminCommand]:
        """Return `queue`, `lanes` and `keys import`."""
        lanes = "lanes and workers: what each does, which get no work for now, and which are looked at again"
        return {
            "queue": AdminCommand(module=f"{PACKAGE}.admin_queue", summary="the queue: who waits, who is next, and whether it is paused"),
            "lanes": AdminCommand(module=f"{PACKAGE}.admin_lanes", summary=lanes),
            "keys import": AdminCommand(module=f"{PACKAGE}.key_import", summary="API keys for all users of a file"),
        }
