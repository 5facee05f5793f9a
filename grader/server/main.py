"""`grader-server`: reads settings, serves until told to stop."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from typing import Any

from grader import devices


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve. 0 after a drain, 2 where the settings or the problems are wrong, 3 where we fail."""
    given = {name: value for name, value in vars(parser().parse_args(arguments)).items() if value is not None}
    # Only now: what serves takes most of a second to import, and --help does not need it.
    serve = import_module("grader.server.serve")
    return int(serve.run(given))


def parser() -> argparse.ArgumentParser:
    """The command line. What is left out is left to `grader.config.Settings`, which checks the rest too."""
    made = argparse.ArgumentParser(
        prog="grader-server", description="Grades GPU kernels that are sent to it over gRPC. Stop it with SIGTERM: it drains first."
    )
    add: Any = made.add_argument
    add("--version", action="version", version=f"%(prog)s {_version()}")
    add("--listen", metavar="ADDRESS", help="HOST:PORT or unix:/PATH (127.0.0.1:50551)")
    add("--state-dir", metavar="DIR", help="where the ledger is; one server at a time ($GRADER_STATE_DIR, or the user's state directory)")
    add(
        "--cache-dir",
        metavar="DIR",
        help="where built artifacts are kept; servers may share it ($GRADER_CACHE_DIR, or in the state directory)",
    )
    add("--cache-bytes", type=int, metavar="N", help="how much of them is kept; 0: nothing, every kernel is built (2 GiB)")
    add("--problems", metavar="DIR", nargs="+", help="directories of problems, or directories that hold such directories")
    add("--sandbox", choices=("auto", "docker", "bubblewrap", "process"), help="what keeps kernels in (auto: the strongest that works)")
    add("--box-root", metavar="ROOT", help="what boxes see as their system: host, or image:NAME (host)")
    add("--device", metavar="DEVICE", help=f"what kernels are run on: auto (the GPUs, if there are any), {devices.FORMS} (auto)")
    add("--lanes", type=int, metavar="N", help="emulated devices used at once, beside one lane for each GPU (1)")
    add("--builders", type=int, metavar="N", help="builds done at once (2)")
    add("--queue-limit", type=int, metavar="N", help="submissions that may wait before more are refused (1000)")
    add("--drain-s", type=float, metavar="S", help="how long running submissions may go on after SIGTERM (60)")
    add("--log-format", choices=("console", "json"), help="how to log, to standard error (console)")
    return made


def _version() -> str:
    try:
        return metadata.version("grader")
    except metadata.PackageNotFoundError:
        return "unknown"


if __name__ == "__main__":
    sys.exit(main())
