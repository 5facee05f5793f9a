"""`grader-worker` whose kernels are stubs: the stream, the fleet and the pipeline are the real ones.

python -m tools.service.stub_worker MILLISECONDS OPTIONS OF grader-worker...
"""

from __future__ import annotations

import sys

from grader.worker.main import NOT_SETTINGS, parser
from grader.worker.serve import run
from tools.service.stub_server import processes


def main() -> int:
    """Work."""
    wait_ms, *words = sys.argv[1:]
    given = vars(parser().parse_args(words))
    settings = {name: value for name, value in given.items() if value is not None and name not in NOT_SETTINGS}
    return run(given["join"], given["certificate"], settings, processes(float(wait_ms) / 1000))


if __name__ == "__main__":
    sys.exit(main())
