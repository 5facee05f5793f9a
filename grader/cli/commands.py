"""`grader-cli`: its commands, by their words. Each is built when it is used or when help lists it: its module may take a tenth of a
second to import."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module, metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from grader import extensions
from grader.cli.exits import Exit
from grader.cli.options import EXAMPLES, EXIT_CODES, GRADE, LIST_EXAMPLES, RESULTS, SERVERS, SUBMIT_EXAMPLES, examples
from grader.cli.output import did_you_mean, print_note
from grader.cli.server_choice import GraderTyper
from grader.extensions import PACKAGE, CliCommand, CliGroup
from sandbox.protocol.entry_points import entry_points

Table = Mapping[str, CliCommand | CliGroup]
OWN: Table = {
    "submit": CliCommand("grader.cli.submit:submit_command", GRADE, f"{SUBMIT_EXAMPLES}\n\n{EXIT_CODES}"),
    "watch": CliCommand("grader.cli.submit:watch_command", GRADE, EXIT_CODES),
    "cancel": CliCommand("grader.cli.submissions:cancel_command", GRADE),
    "list": CliCommand("grader.cli.submissions:list_command", RESULTS, LIST_EXAMPLES),
    "show": CliCommand("grader.cli.submissions:show_command", RESULTS),
    "login": CliCommand("grader.cli.login:login", SERVERS),
    "logout": CliCommand("grader.cli.login:logout", SERVERS),
    "whoami": CliCommand("grader.cli.login:whoami", SERVERS),
}


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
        if command is None and not ctx.resilient_parsing and not entry_points(extensions.COMMANDS):
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
        except Exception as error:  # whatever a package's module raises: the other commands work
            print_note(f"the command {name!r} can't be imported ({error}); install its package again, or uninstall it", "yellow")
            raise KeyError(name) from error
        except KeyboardInterrupt:  # typer would end with the code of another verdict
            sys.exit(Exit.INTERRUPTED)
        return typer.main.get_command(app)


def commands() -> Table:
    """Return the commands of grader, and those of installed packages."""
    table = dict(OWN)
    for line in extensions.command_lines(lambda error: print_note(str(error), "yellow")):
        for words, command in line.commands().items():
            if table.setdefault(words, command) != command:
                package = type(line).__module__.partition(".")[0]
                print_note(f"the command {words!r} of {package!r} is left out: there is one already; uninstall one package", "yellow")
    return table


def epilog(table: Table) -> str:
    """Return examples of the commands in a table, exit codes, and where more commands come from."""
    remedy = "" if entry_points(extensions.COMMANDS) else f"\n\nFor more commands {extensions.HOW_TO_INSTALL}."
    return f"{examples(*(pair for pair in EXAMPLES if pair[0].split()[1] in table))}\n\n{EXIT_CODES}{remedy}"


COMMANDS = commands()
app = group(
    COMMANDS,
    name="grader-cli",
    help="Grades GPU kernels: is it right, and how much faster than PyTorch is it?",
    epilog=epilog(COMMANDS),
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
