"""`grader.grade` and what is next to it: imports, results, rewards and failures, without a server."""

import math
import pickle
import subprocess
import sys

import pytest

import grader
from grader.python.results import Result
from grader.v1 import report_pb2, submission_pb2


def graded(verdict="ACCEPTED", low=None, **fields):
    speedups = [] if low is None else [report_pb2.Speedup(baseline="eager", ratio=low * 1.1, ratio_low=low, ratio_high=low * 1.2)]
    report = report_pb2.Report(verdict=f"VERDICT_{verdict}", reason=verdict, speedups=speedups, **fields)
    state = submission_pb2.SUBMISSION_STATE_SUCCEEDED
    return Result(submission_pb2.Submission(name="submissions/0123456789abcdef", state=state, report=report))


def test_import_is_light():
    """The control: the function itself needs the client."""
    program = "import sys, grader; print(*sys.modules); grader.grade; print('grpc' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300)
    modules, uses_grpc = ended.stdout.splitlines()
    assert not {"grpc", "torch", "numpy", "sqlalchemy", "pydantic", "rich"} & {*modules.split()} and uses_grpc == "True"


@pytest.mark.parametrize("verdict", sorted({*report_pb2.Verdict.DESCRIPTOR.values_by_name} - {"VERDICT_ACCEPTED"}))
def test_no_other_verdict_earns_anything(verdict):
    """Whatever times it claims. The control is that of an accepted one."""
    assert graded(verdict.removeprefix("VERDICT_"), low=100.0).reward() == 0.0 < graded(low=100.0).reward()


@pytest.mark.parametrize(
    ("low", "reward"), [(None, 0.3), (0.0, 0.3), (1.0, 0.3), (math.nan, 0.3), (math.inf, 0.3), (math.sqrt(8), 0.65), (8.0, 1.0), (1e9, 1.0)]
)
def test_the_reward_is_bounded_and_grows_with_the_lower_end(low, reward):
    assert graded(low=low).reward() == pytest.approx(reward)
    assert graded(low=low).reward(right=1.0) == 1.0


@pytest.mark.parametrize("wrong", [{"right": 1.5}, {"right": math.nan}, {"full_speedup": 1.0}])
def test_parameters_that_bound_nothing_are_refused(wrong):
    with pytest.raises(ValueError, match="full_speedup above 1"):
        graded().reward(**wrong)


def test_html_shows_the_report_and_escapes_what_the_kernel_wrote():
    html = graded("RUNTIME_ERROR", output="<script>alert(1)</script>", summary="It ended by <b>signal</b> 11.")._repr_html_()
    assert "RUNTIME_ERROR" in html and "signal" in html and "<script" not in html and "<b>" not in html


def test_a_failure_survives_a_process_boundary():
    """As that of a pool's worker does."""
    copy = pickle.loads(pickle.dumps(grader.KernelInvalid("it is empty", "INVALID_SUBMISSION")))
    assert isinstance(copy, grader.KernelInvalid) and (str(copy), copy.reason) == ("it is empty", "INVALID_SUBMISSION")


@pytest.mark.slow
def test_a_caller_is_checked_by_mypy(tmp_path):
    """With --strict, a right call passes; a wrong option and a wrong kernel do not."""
    right = 'import grader\nreward: float = grader.grade({"kernel.py": "x"}, "sum", mode="test").reward()\n'
    (tmp_path / "caller.py").write_text(right + 'grader.grade("a", "b", mod="test")\ngrader.grade(1, "b")\n')
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "caller.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert [line.split(":")[1] for line in ended.stdout.splitlines() if ": error:" in line] == ["3", "4"], ended.stdout
