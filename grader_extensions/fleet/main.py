"""`grader-worker`: joins a server's fleet, and grades on this host what it is given until SIGTERM."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from grader.server.main import add_grading_options, add_process_options

PLACE = "place"
NOT_SETTINGS = ("join", "certificate", "name", "until_stdin_closes")


def main(arguments: Sequence[str] | None = None) -> int:
    """Work. 0 after a drain, 2 where the settings are wrong or the server refuses this worker, 3 where we fail."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [PLACE]:
        return int(import_module("grader_extensions.fleet.ray_placement").main(words[1:]))
    options = vars(parser().parse_args(words))
    if find_spec("sqlalchemy") is None:
        sys.stderr.write(
            "grader-worker needs packages that are not installed: pip install '.[server,judge]' ./grader_extensions in a clone\n"
        )
        return 2
    return start(options)


def start(words: Mapping[str, Any], **seams: Any) -> int:
    """Work with these options. seams: for `grader_extensions.fleet.serve.run`."""
    serve, config = import_module("grader_extensions.fleet.serve"), import_module("grader.config")  # slow, and not needed for --help
    settings = {name: value for name, value in words.items() if value is not None and name not in NOT_SETTINGS}
    settings.setdefault("state_dir", config.state_directory() / "-".join(filter(None, ("worker", words["name"]))))
    joining = serve.JoinOptions(address=words["join"], **{name: words[name] for name in NOT_SETTINGS[1:]})
    return int(serve.run(joining, settings, **seams))


def parser() -> argparse.ArgumentParser:
    """The command line. What is left out is left to `grader.config.Settings`, which checks the rest too."""
    command = argparse.ArgumentParser(
        prog="grader-worker",
        description="Joins a server that runs with --fleet remote, and grades on this host what it is given. Stop it with "
        "SIGTERM: it drains first.",
        epilog="The server's host makes the certificate: grader-server admin workers add NODE. No key of the server's is needed here. "
        "Also: grader-worker place --help, which has Ray run workers.",
    )
    add: Any = command.add_argument
    add("--join", metavar="ADDRESS", required=True, help="the server's --fleet-listen: HOST:PORT, or unix:/PATH on one host")
    add("--certificate", metavar="FILE", type=Path, help="this host's key and certificate; not needed on a unix socket")
    add("--name", metavar="NAME", default="", help="of several workers on this host, which: such as gpu-0 (the only one)")
    add("--until-stdin-closes", action="store_true", help="drain and stop when standard input ends, for a program that supervises this one")
    add("--state-dir", metavar="DIR", help="this worker's own directory; one worker at a time ('worker' in the user's state directory)")
    add("--cache-dir", metavar="DIR", help="where built artifacts are kept (in the state directory)")
    add_grading_options(command)
    add_process_options(command)
    return command


if __name__ == "__main__":
    sys.exit(main())
