"""Commands that this package adds to `grader-cli` and `grader-server`, by their words. Every command imports this module, which imports
little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from grader.cli.options import ADMINISTRATORS, EXIT_CODES, GRADE, HERE, PROBLEMS, RESULTS
from grader.errors import SettingsInvalid
from grader.extensions import AdminCommand, CliCommand, CliGroup, CommandLine
from grader.v1 import submission_pb2

if TYPE_CHECKING:
    from grader.config import Settings

AUTHORING = "grader_extensions.authoring.commands"
COMPETITIONS, REJUDGE = "grader_extensions.competitions.cli.competitions", "grader_extensions.competitions.cli.rejudge"
OPERATION, CHECKS = "grader_extensions.operation", "grader_extensions.problem_check.commands"
STATISTICS = "grader_extensions.statistics"

COMMANDS: Mapping[str, CliCommand | CliGroup] = {
    "init": CliCommand(f"{AUTHORING}:init_command", GRADE),
    "mcp": CliCommand("grader_extensions.agents.command:mcp_command", GRADE),
    "problems": CliGroup("Problems that kernels can be submitted to.", PROBLEMS),
    "problems list": CliCommand(f"{AUTHORING}:list_command"),
    "problems show": CliCommand(f"{AUTHORING}:show_command"),
    "problems new": CliCommand("grader_extensions.authoring.recipes:new_command"),
    "demo": CliCommand(f"{AUTHORING}:demo", HERE, EXIT_CODES),
    "withdraw": CliCommand(f"{COMPETITIONS}:withdraw_command", GRADE),
    "competitions": CliGroup("Competitions: problems, a time window, and boards.", PROBLEMS),
    "competitions list": CliCommand(f"{COMPETITIONS}:list_command"),
    "competitions show": CliCommand(f"{COMPETITIONS}:show_command"),
    "competitions check": CliCommand(f"{COMPETITIONS}:check_command"),
    "competitions export": CliCommand("grader_extensions.competitions.cli.export:export_command"),
    "competitions ban": CliCommand(f"{COMPETITIONS}:ban_command", ADMINISTRATORS),
    "competitions actions": CliCommand(f"{COMPETITIONS}:actions_command", ADMINISTRATORS),
    "competitions reload": CliCommand(f"{COMPETITIONS}:reload_command", ADMINISTRATORS),
    "leaderboard": CliCommand(f"{COMPETITIONS}:leaderboard_command", PROBLEMS),
    "rejudge": CliGroup("Judge submissions again, look at what changes, then apply or discard it. For administrators.", ADMINISTRATORS),
    "rejudge create": CliCommand(f"{REJUDGE}:create_command"),
    "rejudge show": CliCommand(f"{REJUDGE}:show_command"),
    "rejudge apply": CliCommand(f"{REJUDGE}:apply_command"),
    "rejudge discard": CliCommand(f"{REJUDGE}:discard_command"),
    "final": CliCommand(f"{REJUDGE}:final_command", ADMINISTRATORS, EXIT_CODES),
    "doctor": CliCommand(f"{OPERATION}.doctor_command:doctor", HERE),
    "problems import": CliCommand(f"{CHECKS}:import_command"),
    "problems check": CliCommand(f"{CHECKS}:check_command"),
    "summary": CliCommand(f"{STATISTICS}.summary:summary_command", RESULTS),
    "export": CliCommand(f"{STATISTICS}.export:export_command", RESULTS),
    "sweep": CliCommand("grader_extensions.modes.sweep_command:sweep_command", GRADE, EXIT_CODES),
}
SERVER_COMMANDS = {
    "doctor": AdminCommand(module=f"{OPERATION}.server_doctor", summary="whether a server with these options would start"),
    "backup": AdminCommand(module=f"{OPERATION}.backup", summary="copy the ledger"),
    "check": AdminCommand(module=f"{OPERATION}.check", summary="whether the ledger is whole"),
}
LANES_SUMMARY = "lanes and workers: what each does, which get no work for now, and which are looked at again"
WORKERS_SUMMARY = "workers of a fleet: which hosts may join, and their certificates"
ADMIN_COMMANDS = {
    "workers": AdminCommand(module="grader_extensions.fleet.admin_workers", summary=WORKERS_SUMMARY),
    "queue": AdminCommand(module=f"{OPERATION}.admin_queue", summary="the queue: who waits, who is next, and whether it is paused"),
    "lanes": AdminCommand(module=f"{OPERATION}.admin_lanes", summary=LANES_SUMMARY),
    "keys import": AdminCommand(module=f"{OPERATION}.key_import", summary="API keys for all users of a file"),
}


class ExtensionCommands(CommandLine):
    """All of them. HTML reports and the settings of an identity provider are read where they are needed: that takes a tenth of a second."""

    def commands(self) -> Mapping[str, CliCommand | CliGroup]:
        """Return those of `grader-cli`."""
        return COMMANDS

    def server_commands(self) -> Mapping[str, AdminCommand]:
        """Return those of `grader-server`."""
        return SERVER_COMMANDS

    def admin_commands(self) -> Mapping[str, AdminCommand]:
        """Return those of `grader-server admin`."""
        return ADMIN_COMMANDS

    def checkups(self, settings: Settings) -> Iterable[tuple[str, str, bool]]:
        """Look at the settings of the identity provider."""
        try:
            provider = import_module("grader_extensions.web.identities").identity_provider(settings)
        except SettingsInvalid as error:
            return [("sign-in", str(error), True)]
        if provider is None:
            return []
        return [("sign-in", f"with {provider.issuer}, which has to know the redirect URI {provider.redirect_uri}", False)]

    def report_files(self) -> Mapping[str, Callable[[submission_pb2.Submission], str]]:
        """Return what writes a report as an HTML file."""
        return {"html": lambda submission: str(import_module("grader_extensions.web.report.report_file").report_file(submission))}
