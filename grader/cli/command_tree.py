"""The commands of `grader-cli`, each built when it is used or when help lists it: its module may take a tenth of a second to import."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from grader.cli.exits import Exit
from grader.cli.output import did_you_mean, print_note
from grader.cli.server_choice import GraderTyper
from grader.extensions import COMMANDS, PACKAGE, CliCommand, CliGroup
from sandbox.protocol.entry_points import entry_points

Table = Mapping[str, CliCommand | CliGroup]


def group(table: Table, **settings: Any) -> GraderTyper:
    """Return a group of the commands in a table, by their words."""
    return GraderTyper(cls=type("CommandGroup", (CommandGroup,), {"table": table}), no_args_is_help=True, **settings)


class CommandGroup(TyperGroup):
    """A group of commands. It says where more of them come from, where no package has added any."""

    table: Table

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Commands(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name."""
        command = super().get_command(ctx, cmd_name)
        if command is None and not ctx.resilient_parsing and not entry_points(COMMANDS):
            package = f"The package {PACKAGE} adds commands, and is not installed here: pip install ./grader_extensions in a clone."
            ctx.fail(f"No such command {cmd_name!r}.{did_you_mean(cmd_name, self.commands)} {package}")
        return command


class Commands(Mapping[str, Any]):
    """Commands and groups by the first of their words."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __iter__(self) -> Iterator[str]:
        return (words for words in self._table if " " not in words)

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __getitem__(self, name: str) -> Any:
        entry = self._table[name]
        if isinstance(entry, CliGroup):
            below = {words.removeprefix(f"{name} "): command for words, command in self._table.items() if words.startswith(f"{name} ")}
            built = typer.main.get_group(group(below, name=name, help=entry.help))
            built.rich_help_panel = entry.panel
            return built
        module, _, function = entry.function.partition(":")
        app = GraderTyper(add_completion=False)
        try:
            app.command(name, epilog=entry.epilog, rich_help_panel=entry.panel)(getattr(import_module(module), function))
        except ImportError as error:
            print_note(f"the command {name!r} can't be imported ({error}); install its package again, or uninstall it", "yellow")
            raise KeyError(name) from error
        except KeyboardInterrupt:  # typer would end with the code of another verdict
            sys.exit(Exit.INTERRUPTED)
        return typer.main.get_command(app)
