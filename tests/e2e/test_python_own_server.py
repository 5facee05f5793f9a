"""`grader.grade` with the server that a process starts for itself: verdicts, and what is left when the process or the server ends."""

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import ROOT
from tests.e2e.test_cli_alone import beside, descendants
from tests.requirements import skip_without_extensions

pytestmark = pytest.mark.slow  # each starts a server and a judge of its own

TIMEOUT_S = 480.0
GONE_S = 300.0
RIGHT, ENDLESS = "def solve(a, b):\n    return a + b\n", "def solve(a, b):\n    while True:\n        pass\n"
BEGIN = f"""
import json, os, threading, time
import grader
from grader.python.background import background

RIGHT, ENDLESS = {RIGHT!r}, {ENDLESS!r}
own = background()._own

def when_running(action):
    def wait():
        while not (own._ready and own._ready.done()):
            time.sleep(0.1)
        with grader.SyncGraderClient(own.client.address) as client:
            while not client.list_submissions(states=["SUBMISSION_STATE_RUNNING"]).submissions:
                time.sleep(0.1)
        action()
    threading.Thread(target=wait, daemon=True).start()
"""

VERDICTS = """
import torch

def plus(a, b):
    return torch.add(a, b)

def unwritten(a, b):
    return torch.empty_like(a)

def refused(kernel, problem):
    try:
        return grader.grade(kernel, problem).verdict
    except grader.Unscored as error:
        return type(error).__name__

if __name__ == "__main__":
    example = [torch.zeros(64, 3), torch.zeros(64, 3)]
    problem = grader.Problem.from_function(plus, example, more_inputs=[[torch.zeros(5, 3), torch.zeros(5, 3)]])
    ends = "import os\\nos._exit(0)\\n"
    verdicts = [refused(kernel, problem) for kernel in (plus, unwritten, {"kernel.py": ends}, {"kernel.py": RIGHT}, len)]
    print(json.dumps([*verdicts, refused({"kernel.py": RIGHT}, "beside/problem"), refused({"kernel.py": RIGHT}, "no_such")]))
"""
NOTEBOOK = """
import linecache

names = {"__name__": "__main__"}
for number, cell in enumerate(CELLS):
    linecache.cache[f"<cell {number}>"] = (len(cell), None, cell.splitlines(keepends=True), f"<cell {number}>")
    exec(compile(cell, f"<cell {number}>", "exec"), names)
print(json.dumps([names["rewards"], names["wrong"]._repr_html_()]))
"""
KILLED = """
when_running(lambda: own._process.kill())
try:
    print(grader.grade(ENDLESS, "beside/problem"))
except grader.Unscored as error:
    print(json.dumps([type(error).__name__, error.reason]), flush=True)
if os.fork() == 0:
    try:
        grader.grade(RIGHT, "beside/problem")
    except grader.Unscored as error:
        print(json.dumps(error.reason), flush=True)
    os._exit(0)
os.wait()
print(json.dumps(grader.grade(RIGHT, "beside/problem").verdict))
"""


@pytest.fixture
def start(environment, tmp_path):
    """Begin a program of Python that calls grader, next to a small problem of vector addition."""
    (tmp_path / "beside" / "problem").mkdir(parents=True)
    workload = '[[workloads]]\nid = "n1024"\naxes = { n = 1024 }\n'
    beside(tmp_path / "beside" / "problem", "small_add", workloads=(workload,), trial_s=600.0)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    @contextmanager
    def run(program):
        script = tmp_path / f"script{len(list(tmp_path.glob('script*')))}.py"
        script.write_text(BEGIN + program)
        with subprocess.Popen([sys.executable, str(script)], cwd=tmp_path, env=environment, **pipes) as process:
            try:
                yield process
            finally:
                process.kill()

    return run


def printed(process):
    """Wait for its end, and return what it printed, as JSON."""
    out, err = process.communicate(timeout=TIMEOUT_S)
    skip_without_extensions(err)
    assert process.returncode == 0, out + err
    return [json.loads(line) for line in out.splitlines()]


def test_verdicts_of_functions_and_texts(start):
    """Of a function with a reference that is one, of kernels that are wrong and hostile, and of a problem's directory."""
    with start(VERDICTS) as process:
        ((right, wrong, hostile, text, builtin, directory, missing),) = printed(process)
    assert (right, text, directory) == ("ACCEPTED", "ACCEPTED", "ACCEPTED")
    assert wrong == "WRONG_ANSWER" and hostile not in ("ACCEPTED", "Unscored") and (builtin, missing) == ("KernelInvalid", "CallInvalid")


def test_the_notebook_runs(start):
    """Its cells in their order, as a notebook runs them: the source of each is what the functions in it are found in."""
    cells = json.loads((ROOT / "examples/notebook/first_kernel.ipynb").read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    with start(f"CELLS = {texts!r}\n{NOTEBOOK}") as process:
        ((rewards, html),) = printed(process)
    assert rewards == [0.3, 0.0, 0.3] and "UNWRITTEN_OUTPUT" in html


def test_a_server_that_is_killed_gives_no_result_and_the_next_call_has_another(start):
    """And a fork is told so, instead of waiting for a thread that it does not have."""
    with start(KILLED) as process:
        failure, forked, verdict = printed(process)
    assert (failure, forked, verdict) == (["Unscored", "SERVER_UNREACHABLE"], "FORKED", "ACCEPTED")


def test_two_processes_take_turns(start):
    """Both have the same state directory; the first still lives, and has nothing to grade, when the second begins."""
    program = 'print(json.dumps(grader.grade(RIGHT, "beside/problem").verdict), flush=True)\n'
    with start(program + "input()\n") as first:
        assert first.stdout.readline() == '"ACCEPTED"\n'
        with start(program) as second:
            assert printed(second) == ["ACCEPTED"]
        first.stdin.write("\n")
        assert printed(first) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_process_that_ends_in_the_middle(start, cli, number):
    """By Ctrl-C, or without any chance to clean up; not even the submission, which the next server would grade."""
    program = 'when_running(lambda: print("running", flush=True))\ngrader.grade(ENDLESS, "beside/problem")\n'
    with start(program) as process:
        if process.stdout.readline() != "running\n":
            printed(process)  # says why
        watched = [os.pidfd_open(pid) for pid in descendants(process.pid)]
        assert len(watched) >= 2  # the server, and a judge
        process.send_signal(number)
        assert all(select.select([descriptor], [], [], GONE_S)[0] for descriptor in watched)
        for descriptor in watched:
            os.close(descriptor)
    (submission,) = cli("list", "--json").json["submissions"]
    assert submission["state"] == "SUBMISSION_STATE_CANCELLED"
