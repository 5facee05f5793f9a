"""`grader-cli rejudge ...` and `grader-cli final`: the commands and their options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from grader import devices
from grader.cli import rejudge as rejudge_command
from grader.cli.options import Json, Server, StateDir, device_choice
from grader.cli.rejudge import RejudgeOptions
from grader.cli.running import run
from grader.cli.session import Target
from grader.isolations import AUTO

rejudge_app = typer.Typer(
    no_args_is_help=True, help="Judge submissions again, look at what changes, then apply or discard it. For administrators."
)

Rejudge = Annotated[str, typer.Argument(metavar="NAME", help="rejudges/ID, or just ID.")]
Again = Annotated[
    str,
    typer.Option(metavar="TEXT", help="Make another one than the same command made before. Any text, such as a date.", show_default=False),
]
Apply = Annotated[bool, typer.Option("--apply", help="Apply it as soon as all is decided. Default: look first; asks on a terminal.")]
_DEVICE_HELP = f"What to run on: auto (what each was handed in for), {devices.FORMS}."


@rejudge_app.command("create")
def create(
    cause: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the history.")],
    problem: Annotated[str, typer.Option(help="Only submissions to this problem.", show_default=False)] = "",
    competition: Annotated[str, typer.Option(help="Only submissions to this competition.", show_default=False)] = "",
    submission: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only this one; may be given several times.")] = None,
    top: Annotated[int, typer.Option(min=0, help="Only the best so many of each problem's board; needs --competition. 0: all.")] = 0,
    run_all: Annotated[bool, typer.Option("--run", help="Run all again, also what stored facts decide.")] = False,
    device: Annotated[str, typer.Option(metavar="DEVICE", callback=device_choice, help=_DEVICE_HELP)] = AUTO,
    fresh_sizes: Annotated[bool, typer.Option("--fresh-sizes", help="Draw the competition's secret sizes anew, as a final does.")] = False,
    sizes_of: Annotated[str, typer.Option(metavar="NAME", help="Take the secret sizes that this rejudge drew.", show_default=False)] = "",
    apply: Apply = False,
    again: Again = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Return when the server has it; needs --server.")] = False,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Judge again by the problems as the server has them now, by stored facts where those suffice, and show what would change.

    Nothing that others see changes before it is applied. The same command again goes on with the same rejudge, and runs again what the
    grader failed at. Ctrl-C stops the waiting only.
    """
    order = RejudgeOptions(
        cause=cause,
        problem=problem,
        competition=competition,
        submissions=tuple(submission or ()),
        top_count=top,
        run=run_all,
        device_kind="" if device == AUTO else device,
        fresh_sizes=fresh_sizes,
        sizes_of=sizes_of,
        again=again,
    )
    run(rejudge_command.create(_target(server, state_dir, json=json), order, json=json, wait=not no_wait, apply=apply))


@rejudge_app.command("show")
def show(name: Rejudge, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Print a rejudge, and all that it changes."""
    run(rejudge_command.show(_target(server, state_dir, json=json), name, json=json))


@rejudge_app.command("list")
def list_(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 20,
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """List rejudges, newest first."""
    run(rejudge_command.list_(_target(server, state_dir, json=json), limit, json=json))


@rejudge_app.command("apply")
def apply_(name: Rejudge, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Let the new judgements count. The old ones stay in each submission's history."""
    run(rejudge_command.end(_target(server, state_dir, json=json), name, json=json, apply=True))


@rejudge_app.command("discard")
def discard(name: Rejudge, server: Server = None, state_dir: StateDir = None, json: Json = False) -> None:
    """Drop the new judgements, and cancel what still runs for them."""
    run(rejudge_command.end(_target(server, state_dir, json=json), name, json=json, apply=False))


def final(
    competition: Annotated[str, typer.Argument(metavar="COMPETITION", help="competitions/ID, or just ID.")],
    top: Annotated[int, typer.Option(min=1, help="How many of each problem's board; who shares the last rank is in.")],
    device: Annotated[str, typer.Option(metavar="DEVICE", callback=device_choice, help=f"What to run on: {devices.FORMS}.")],
    apply: Apply = False,
    again: Again = "",
    server: Server = None,
    state_dir: StateDir = None,
    json: Json = False,
) -> None:
    """Run the best of a competition again, on one device with fresh secret inputs, and show the ranks before and after.

    Sizes of secret workloads that the competition draws from ranges are drawn anew, from a seed of this final's own; inputs always are.
    The same command goes on where it stopped, whatever of client and server was restarted.
    """
    if device == AUTO:
        raise typer.BadParameter(f"a final is run on one device; write {devices.FORMS}", param_hint="--device")
    order = RejudgeOptions(cause="", competition=competition, top_count=top, device_kind=device, again=again)
    run(rejudge_command.final(_target(server, state_dir, json=json), order, json=json, apply=apply))


def _target(server: str | None, state_dir: Path | None, *, json: bool) -> Target:
    return Target(server=server, state_dir=state_dir, quiet=json and not sys.stderr.isatty())
