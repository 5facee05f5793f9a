"""`grader-server` with the fake grade, for tests that signal or kill a whole process: fake_server.py COUNTED OPTIONS..."""

import sys
from pathlib import Path

from grader.server.main import parser
from grader.server.running import run
from tests import fakes

if __name__ == "__main__":
    options = {name: value for name, value in vars(parser().parse_args(sys.argv[2:])).items() if value is not None}
    sys.exit(run(options, fakes.wiring(fakes.FakeGrade(Path(sys.argv[1])), capacity=2)))
