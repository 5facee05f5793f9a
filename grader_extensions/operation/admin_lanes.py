"""`grader-server admin lanes`: lanes and workers that get no work for now, and what each lane does."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from grader.config import Settings
from grader.server.admin import PROGRAM, action_adder
from grader.server.server_state import NAME, Cordons, running_lanes
from grader.server.settings import add_json_option, print_json, print_line, print_table, run_command, usage_error

LANES = f"{PROGRAM} lanes"


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code, as those of `grader-server admin`."""
    options = parser().parse_args(arguments)
    return run_command(LANES, options, partial(options.work, options))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command_parser = argparse.ArgumentParser(
        prog=LANES,
        description="Shows lanes, and takes lanes and workers out of service. A running server follows within seconds. What is cordoned "
        "stays so after restarts.",
        epilog="A NAME is a lane as `list` and /metrics show it (cuda:0, or gpu-1/cuda:0 at a worker), or a worker (gpu-1).",
        parents=[state_dir_option()],
    )
    state_dir, as_json = state_dir_option(again=True), argparse.ArgumentParser(add_help=False)
    add_json_option(as_json)
    add = action_adder(command_parser)
    cordon = add("cordon", _cordon, "let it end what it has, and give it nothing more", state_dir)
    cordon.add_argument("name", metavar="NAME", help="a lane or a worker")
    add("uncordon", _uncordon, "give it work again", state_dir).add_argument("name", metavar="NAME")
    add("list", _list_lanes, "list every lane of the running server with its state, and what is cordoned", state_dir, as_json)
    return command_parser


def _cordon(options: argparse.Namespace, settings: Settings) -> int:
    name = options.name
    if NAME.fullmatch(name) is None:
        return usage_error(LANES, f"{name!r} can't be the name of a lane or a worker; `{LANES} list` shows names, such as gpu-1/cuda:0")
    Cordons(settings.state_dir).add(name)
    print_line(f"{name} ends what it has and gets nothing more. Undo it with: {LANES} uncordon {name}")
    lanes = running_lanes(settings.state_dir)
    if lanes is not None and not any(f"{lane.name}/".startswith(f"{name}/") for lane in lanes):
        print_line(f"No lane has this name now, and no worker with a lane. It holds for one that joins later; {LANES} list shows names")
    return 0


def _uncordon(options: argparse.Namespace, settings: Settings) -> int:
    if not Cordons(settings.state_dir).remove(options.name):
        return usage_error(LANES, f"{options.name} is not cordoned; `{LANES} list` shows what is")
    print_line(f"{options.name} gets work again")
    return 0


def _list_lanes(options: argparse.Namespace, settings: Settings) -> int:
    lanes, cordons = running_lanes(settings.state_dir), Cordons(settings.state_dir)
    cordons.look()
    cordoned = sorted(cordons.names)
    if options.json:
        states = [{"name": lane.name, "state": lane.state.value} for lane in lanes or ()]
        print_json({"running": lanes is not None, "lanes": states, "cordoned": cordoned})
        return 0
    if lanes:
        print_table(("lane", "state"), *((lane.name, lane.state.value) for lane in lanes))
    else:
        print_line(f"no server runs on {settings.state_dir}" if lanes is None else "the server has no lanes now")
    print_line(f"cordoned: {', '.join(cordoned)}" if cordoned else "nothing is cordoned")
    return 0


def state_dir_option(*, again: bool = False) -> argparse.ArgumentParser:
    """Make a parent parser for a command that needs no ledger.

    again: of a word of that command, so that the option may stand before or behind the word.
    """
    parent = argparse.ArgumentParser(add_help=False)
    text = "as the server's ($GRADER_STATE_DIR, or the user's state directory)"
    parent.add_argument("--state-dir", type=Path, metavar="DIR", default=argparse.SUPPRESS if again else None, help=text)
    return parent
