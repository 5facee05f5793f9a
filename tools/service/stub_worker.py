"""`grader-worker` whose kernels are stubs: the stream, the fleet and the pipeline are the real ones.

python -m tools.service.stub_worker MILLISECONDS OPTIONS OF grader-worker...
"""

from __future__ import annotations

import sys

from grader.worker.main import parser, start
from tools.service.stub_server import processes


def main() -> int:
    """Work."""
    wait_ms, *words = sys.argv[1:]
    return start(vars(parser().parse_args(words)), wiring=processes(float(wait_ms) / 1000))


if __name__ == "__main__":
    sys.exit(main())
