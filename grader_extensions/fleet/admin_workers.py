"""`grader-server admin workers`: which hosts may join the fleet of this state directory, and their certificates."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from grader.config import Settings, state_directory
from grader.server.settings import print_line, usage_error
from grader_extensions.fleet.fleet_port import NODE, VALID, FleetCertificates, fleet_path
from grader_extensions.operation.admin_lanes import state_dir_option

PROGRAM = "grader-server admin workers"


def main(arguments: Sequence[str]) -> int:
    """Run the command; return the exit code."""
    words = parser().parse_args(arguments)
    certificates = FleetCertificates(fleet_path(Settings(state_dir=words.state_dir or state_directory())))
    if words.word == "list":
        print_line("\n".join(certificates.nodes()) or "no worker may join; add one with `grader-server admin workers add NODE`")
        return 0
    if NODE.fullmatch(words.node) is None:
        return usage_error(PROGRAM, f"{words.node!r} can't be a node's name: lower case letters, digits, '.' and '-', at most 63")
    if words.word == "remove":
        if not certificates.remove(words.node):
            return usage_error(PROGRAM, f"there is no worker {words.node!r}; `grader-server admin workers list` shows those that there are")
        print_line(f"{words.node} is let in no more; a running server ends its stream within half a minute")
        return 0
    out = words.out or Path(f"{words.node}.pem")
    try:
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        return usage_error(PROGRAM, f"can't write {out}: {error.strerror}; name another file with --out")
    with os.fdopen(descriptor, "wb") as file:
        file.write(certificates.issue(words.node))
    print_line(f"{out}: key and certificate of the worker {words.node}, good for {VALID.days} days. Move it to that host, and run there:")
    print_line(f"  grader-worker --join ADDRESS --certificate {out.name}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    command_parser = argparse.ArgumentParser(
        prog=PROGRAM, parents=[state_dir_option()], description="Which hosts may join this server's fleet."
    )
    where = state_dir_option(again=True)
    words = command_parser.add_subparsers(dest="word", required=True)
    add = words.add_parser("add", parents=[where], help="write a certificate for a host; an earlier one of it is not good any more")
    add.add_argument("node", metavar="NODE", help="the host's name in reports and metrics, such as gpu-1")
    add.add_argument("--out", type=Path, metavar="FILE", help="where to write it (NODE.pem)")
    remove = words.add_parser("remove", parents=[where], help="revoke a host's certificate")
    remove.add_argument("node", metavar="NODE")
    words.add_parser("list", parents=[where], help="list the hosts that may join")
    return command_parser
