"""`grader-worker` whose kernels are stubs: the stream, the fleet and the pipeline are the real ones.

    python -m tools.service.stub_worker instant|processes MILLISECONDS OPTIONS OF grader-worker...
    python -m tools.service.stub_worker instant|processes MILLISECONDS COMMAND OF A WORKER...

instant: facts come from this process, of as many lanes as --lanes says. processes: see `stub_server.py`. It works instead of the worker
whose command it is given, as `grader-worker place --prefix` does. Without --state-dir it has a new one in TMPDIR.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from grader.config import Settings
from grader.worker.main import parser, start
from grader.worker.serve import JoinOptions
from tools.service.stub_server import instant, processes

WORKER = "grader.worker.main"


def main() -> int:
    """Work."""
    kind, wait_ms, *words = sys.argv[1:]
    given: dict[str, Any] = vars(parser().parse_args(words[words.index(WORKER) + 1 :] if WORKER in words else words))
    given["state_dir"] = given["state_dir"] or tempfile.mkdtemp(prefix="worker-")
    wait_s = float(wait_ms) / 1000
    wiring = processes(wait_s) if kind == "processes" else instant(wait_s, given["lanes"] or 1)
    return start(given, wiring=wiring, examine=_nothing)


async def _nothing(_settings: Settings, _joining: JoinOptions) -> None:
    """Stubs need no compiler."""


if __name__ == "__main__":
    sys.exit(main())
