"""Which server a command uses: --server, GRADER_SERVER, the default server that `login` stored, or one of its own."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from grader.api import credentials
from grader.api.credentials import CredentialStore
from grader.cli.exits import Exit
from grader.cli.output import did_you_mean, print_note
from grader.cli.running import run
from grader.errors import SettingsInvalid
from grader.views.sanitize import one_line

F = TypeVar("F", bound=Callable[..., Any])

_NOT_A_CHOICE = re.compile(r"'(?P<word>.*)' is not one of (?P<choices>'.*')\.")
_LOCAL_ONLY = ("state_dir", "sandbox")  # parameters that mean nothing to a server that is named


class GraderTyper(typer.Typer):
    """Commands of the class below."""

    def command(self, *args: Any, **settings: Any) -> Callable[[F], F]:
        """As typer's; a coroutine function is run to its exit code."""
        register = super().command(*args, **{"cls": ServerCommand, **settings})

        def add(function: F) -> F:
            register(_run_to_end(function) if inspect.iscoroutinefunction(function) else function)
            return function

        return add


def _run_to_end(work: Callable[..., Coroutine[Any, Any, Exit]]) -> Callable[..., None]:
    @functools.wraps(work)
    def command(**parameters: Any) -> None:
        run(work(**parameters), json=parameters.get("json") is True)

    return command


class ServerCommand(TyperCommand):
    """A command. One that has the parameter `server` also gets --local, and its server is chosen here."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        for place in [place for place, parameter in enumerate(self.params) if parameter.name == "server"]:
            self.params.insert(place + 1, _local_option())

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and choose the server."""
        try:
            rest = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            if (match := _NOT_A_CHOICE.search(error.message)) is not None:
                error.message = match[0] + did_you_mean(match["word"], re.findall(r"'([^']*)'", match["choices"]))
            raise
        if "local" in ctx.params and not ctx.resilient_parsing:
            _choose(ctx, local=ctx.params["local"])
        ctx.params.pop("local", None)
        return rest


def _choose(ctx: Any, *, local: bool) -> None:
    explicit = [name for name in ("server", *_LOCAL_ONLY) if name in ctx.params and ctx.get_parameter_source(name).name == "COMMANDLINE"]
    if local and "server" in explicit:
        raise typer.BadParameter("--server is given too, and excludes it; leave one of them out", param_hint="--local")
    if local:
        ctx.params["server"] = None
    if local or ctx.params["server"] or explicit:
        return
    try:
        server = CredentialStore(credentials.directory()).default()
    except SettingsInvalid as error:
        raise typer.BadParameter(f"{error}; or choose with --server or --local", param_hint="--server") from None
    if server:
        ctx.params["server"] = server
        if sys.stderr.isatty():
            print_note(f"server: {one_line(server)} (the default, from `grader-cli login`; --local does without)", "dim")


@functools.cache
def _local_option() -> Any:
    app = typer.Typer(add_completion=False)

    @app.command()
    def _(
        local: Annotated[
            bool, typer.Option("--local", help="Use no server: not the default of `login`, nor GRADER_SERVER. The command runs its own.")
        ] = False,
    ) -> None:
        pass

    return next(param for param in typer.main.get_command(app).params if param.name == "local")
