"""`grader-server admin lanes`: shows lanes, and takes lanes and workers out of service and back."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from grader.config import Settings, state_directory
from grader.server.server_state import NAME, Cordons, running_server
from grader.server.settings import add_json_option, print_json, print_line, print_table, state_dir_option, usage_error

PROGRAM = "grader-server admin lanes"


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    words = parser().parse_args(arguments)
    settings = Settings(state_dir=words.state_dir or state_directory())
    cordons = Cordons(settings.cordons_path)
    if words.word == "list":
        cordons.look()
        _list(settings, sorted(cordons.names), as_json=words.json)
        return 0
    if NAME.fullmatch(words.name) is None:
        return usage_error(
            PROGRAM, f"{words.name!r} can't be the name of a lane or a worker; `{PROGRAM} list` shows names, such as gpu-1/cuda:0"
        )
    try:
        if words.word == "cordon":
            cordons.add(words.name)
            print_line(f"{words.name} ends what it has and gets nothing more. Undo it with: {PROGRAM} uncordon {words.name}")
            running = running_server(settings)
            if running is not None and not any(f"{lane.name}/".startswith(f"{words.name}/") for lane in running.lanes):
                print_line(
                    f"No lane has this name now, and no worker with a lane. It holds for one that joins later; {PROGRAM} list shows names"
                )
            return 0
        if not cordons.remove(words.name):
            return usage_error(PROGRAM, f"{words.name} is not cordoned; `{PROGRAM} list` shows what is")
    except (OSError, ValueError) as error:
        return usage_error(PROGRAM, f"the file in {settings.state_dir} can't be used: {error}")
    print_line(f"{words.name} gets work again")
    return 0


def _list(settings: Settings, cordoned: Sequence[str], *, as_json: bool) -> None:
    running = running_server(settings)
    lanes = running.lanes if running is not None else ()
    if as_json:
        listed = [{"name": lane.name, "state": lane.state.value} for lane in lanes]
        print_json({"running": running is not None, "lanes": listed, "cordoned": list(cordoned)})
        return
    if lanes:
        print_table(("lane", "state"), *((lane.name, lane.state.value) for lane in lanes))
    else:
        print_line(f"no server runs on {settings.state_dir}" if running is None else "the server has no lanes now")
    print_line(f"cordoned: {', '.join(cordoned)}" if cordoned else "nothing is cordoned")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command_parser = argparse.ArgumentParser(
        prog=PROGRAM,
        parents=[state_dir_option()],
        description="Shows lanes, and takes lanes and workers out of service. A running server follows within seconds. What is cordoned "
        "stays so after restarts.",
        epilog="A NAME is a lane as `list` and /metrics show it (cuda:0, or gpu-1/cuda:0 at a worker), or a worker (gpu-1).",
    )
    where = state_dir_option(again=True)
    words = command_parser.add_subparsers(dest="word", required=True)
    cordon = words.add_parser("cordon", parents=[where], help="let it end what it has, and give it nothing more")
    cordon.add_argument("name", metavar="NAME", help="a lane or a worker")
    uncordon = words.add_parser("uncordon", parents=[where], help="give it work again")
    uncordon.add_argument("name", metavar="NAME")
    list_ = words.add_parser("list", parents=[where], help="list every lane of the running server with its state, and what is cordoned")
    add_json_option(list_)
    return command_parser
