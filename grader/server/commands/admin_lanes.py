"""`grader-server admin lanes`: takes a GPU, or a whole worker, out of service and back, while the server runs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from grader.config import Settings, state_directory
from grader.server.cordons import NAME, Cordons
from grader.server.settings_given import misused, say

PROGRAM = "grader-server admin lanes"


def main(arguments: Sequence[str]) -> int:
    """Do what the words say; the exit code."""
    words = parser().parse_args(arguments)
    cordons = Cordons(Settings(state_dir=words.state_dir or state_directory()).cordons_path)
    if words.word == "list":
        cordons.look()
        say("\n".join(sorted(cordons.names)) or "nothing is cordoned")
        return 0
    if NAME.fullmatch(words.name) is None:
        return misused(
            PROGRAM, f"{words.name!r} can't be the name of a lane or a worker; names are as /metrics shows them, such as gpu-1/cuda:0"
        )
    try:
        if words.word == "cordon":
            cordons.add(words.name)
            say(f"{words.name} ends what it has and gets nothing more. Undo it with: grader-server admin lanes uncordon {words.name}")
            return 0
        if not cordons.remove(words.name):
            return misused(PROGRAM, f"{words.name} is not cordoned; `grader-server admin lanes list` shows what is")
    except (OSError, ValueError) as error:
        return misused(PROGRAM, f"the list of what is cordoned can't be used: {error}")
    say(f"{words.name} gets work again")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Takes lanes and workers out of service. A running server follows within seconds, and the list outlives restarts.",
        epilog="A NAME is a lane as /metrics shows it (cuda:0, or gpu-1/cuda:0 at a worker), or a worker (gpu-1).",
    )
    made.add_argument("--state-dir", type=Path, metavar="DIR", help="the server's ($GRADER_STATE_DIR, or the user's state directory)")
    words = made.add_subparsers(dest="word", required=True)
    cordon = words.add_parser("cordon", help="let it end what it has, and give it nothing more")
    cordon.add_argument("name", metavar="NAME", help="a lane or a worker")
    uncordon = words.add_parser("uncordon", help="give it work again")
    uncordon.add_argument("name", metavar="NAME")
    words.add_parser("list", help="list what is cordoned")
    return made
