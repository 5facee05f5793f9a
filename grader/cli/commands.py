"""`grader-cli`: its commands, by their words."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from grader import extensions
from grader.cli import command_tree
from grader.cli.options import (
    EXAMPLES,
    EXIT_CODES,
    GRADE,
    HERE,
    LIST_EXAMPLES,
    PROBLEMS,
    RESULTS,
    SERVERS,
    SUBMIT_EXAMPLES,
)
from grader.cli.output import print_note
from grader.extensions import CliCommand, CliGroup

COMMANDS: dict[str, CliCommand | CliGroup] = {
    "init": CliCommand("grader.cli.starter:init_command", GRADE),
    "submit": CliCommand("grader.cli.submit:submit_command", GRADE, f"{SUBMIT_EXAMPLES}\n\n{EXIT_CODES}"),
    "watch": CliCommand("grader.cli.submit:watch_command", GRADE, EXIT_CODES),
    "cancel": CliCommand("grader.cli.submissions:cancel_command", GRADE),
    "list": CliCommand("grader.cli.submissions:list_command", RESULTS, LIST_EXAMPLES),
    "show": CliCommand("grader.cli.submissions:show_command", RESULTS),
    "problems": CliGroup("Problems that kernels can be submitted to.", PROBLEMS),
    "problems list": CliCommand("grader.cli.problems:list_command"),
    "problems show": CliCommand("grader.cli.starter:show_command"),
    "problems import": CliCommand("grader.cli.import_options:import_command"),
    "login": CliCommand("grader.cli.login:login", SERVERS),
    "logout": CliCommand("grader.cli.login:logout", SERVERS),
    "whoami": CliCommand("grader.cli.login:whoami", SERVERS),
    "doctor": CliCommand("grader.cli.this_machine:doctor", HERE),
    "demo": CliCommand("grader.cli.this_machine:demo", HERE, EXIT_CODES),
}

for line in extensions.command_lines(lambda error: print_note(str(error), "yellow")):
    COMMANDS = {**COMMANDS, **line.commands(), **COMMANDS}

app = command_tree.group(
    COMMANDS,
    name="grader-cli",
    help="Grades GPU kernels: is it right, and how much faster than PyTorch is it?",
    epilog=f"{EXAMPLES}\n\n{EXIT_CODES}",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"grader-cli {metadata.version('kernel-grader')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    pass
