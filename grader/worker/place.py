"""`grader-worker place`: has Ray run workers on its nodes, lists and removes them.  Runs next to Ray's head."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import Any

from grader.errors import SettingsInvalid
from grader.worker import ray_placement
from grader.worker.ray_placement import LaneCount

MISUSED = 2


def main(arguments: Sequence[str]) -> int:
    """Do what the words say; the exit code."""
    words = parser().parse_args(arguments)
    try:
        with redirect_stdout(sys.stderr):  # Ray prints to it what becomes of nodes
            found = _done(words)
    except SettingsInvalid as error:
        sys.stderr.write(f"grader-worker place: {error}\n")
        return MISUSED
    _show(found, as_json=words.json)
    return MISUSED if any(facts.get("removed") is False for facts in found.values()) else 0


def _done(words: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What became of each lane."""
    if words.list:
        return ray_placement.listed(words.ray)
    if words.remove:
        removed = ray_placement.remove(words.ray, words.remove)
        return {name: {"removed": name in removed} for name in words.remove}
    if not words.lanes or not words.join:
        raise SettingsInvalid("lanes", "name the lanes and the server, such as --lanes H200=4 --join SERVER:50552")
    own = ["--join", words.join, *(["--certificate", words.certificate] if words.certificate else []), *words.options]
    lanes = [LaneCount.parsed(one) for one in words.lanes]
    return {name: {"placed": True} for name in ray_placement.place(words.ray, lanes, shlex.split(words.prefix), own)}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="grader-worker place",
        description="Has Ray run one worker for each lane and start it again where a node is lost. To place again changes nothing.",
        epilog="Ray is an extra: pip install '.[ray]' in a clone. The server needs no Ray. docs/operation.md says what to close first.",
    )
    add: Any = made.add_argument
    add("--ray", metavar="ADDRESS", default="auto", help="the cluster, as ray.init takes it (auto: the one on this host)")
    text = "a type of GPU as Ray's label has it, or emulated: H200=4 emulated=2"
    add("--lanes", metavar="KIND=COUNT", nargs="+", default=[], help=text)
    add("--join", metavar="ADDRESS", help="the server's --fleet-listen, as the nodes reach it")
    add("--certificate", metavar="FILE", help="the worker's file, at the same path on every node")
    add("--prefix", metavar="WORDS", default="", help="before the worker's command: 'sudo -n -u grader', so that it is not Ray's user")
    add("--list", action="store_true", help="show the lanes that are placed")
    add("--remove", metavar="NAME", nargs="+", default=[], help="drain these lanes, and end them")
    add("--json", action="store_true", help="print JSON")
    add("options", nargs="*", metavar="-- OPTIONS", help="of grader-worker, for every worker")
    return made


def _show(found: dict[str, dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(found) + "\n")
        return
    for name, facts in found.items():
        shown = ", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in facts.items()) or "waits for a node"
        sys.stdout.write(f"{name}  {shown}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
