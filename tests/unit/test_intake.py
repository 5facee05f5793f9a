"""Every wrong field is named, and every answer says what to do."""

from dataclasses import replace

import pytest

from grader.errors import InvalidSubmission, NoSuchDevice, ProblemNotFound
from grader.intake import gate
from grader.model import SOURCE_LIMIT_BYTES, SourceFile
from grader.v1 import grader_service_pb2 as api
from sandbox.protocol import wire
from tests import fakes
from tests.requests import new_submission


def find_problem(problem_id):
    if problem_id != "sum":
        raise ProblemNotFound(problem_id, ("sum",))
    return fakes.problem()


def request(*sources, request_id="", **fields):
    files = [SourceFile(path=path, content=content) for path, content in sources or [("kernel.cu", fakes.SOURCE)]]
    submission = new_submission(fields.pop("problem_id", "sum"), files, mode=fields.pop("mode", wire.Mode.BENCHMARK))
    for name, value in fields.items():
        setattr(submission, name, value)
    return api.SubmitRequest(submission=submission, request_id=request_id)


def check(*sources, **fields):
    return gate.check_submission(request(*sources, **fields), find_problem, ("emulated",))


def violations(*sources, **fields):
    with pytest.raises(InvalidSubmission) as caught:
        check(*sources, **fields)
    return {violation.field: violation.description for violation in caught.value.violations}


@pytest.mark.parametrize(("policy", "mode", "cascade"), [(True, "TEST", True), (True, "PROFILE", False), (False, "TEST", False)])
def test_a_problem_asks_for_the_cascade(monkeypatch, policy, mode, cascade):
    """As it is when the submission comes: the ledger's copy of a problem is of its first."""
    problem = replace(fakes.problem(), cascade=policy)
    submitted = gate.check_submission(request(mode=wire.Mode[mode]), lambda _: problem, ("emulated",)).submission
    assert submitted.cascade is cascade


def test_a_right_submission_is_taken_as_it_is():
    accepted = check(device_kind="emulated", request_id="00000000-0000-4000-8000-000000000000")
    assert accepted.submission.sources == (SourceFile(path="kernel.cu", content=fakes.SOURCE),)
    assert (accepted.submission.language, accepted.submission.entry, accepted.submission.mode) == ("cuda", "", wire.Mode.BENCHMARK)
    assert accepted.problem == fakes.problem()


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("a/../b.cu", "write 'b.cu'"), ("../b.cu", "write 'b.cu'"), ("..", "write 'kernel.cu'"), ("./b.cu", "write 'b.cu'"),
        ("a//b.cu", "write 'a/b.cu'"), ("a/", "write 'a'"), ("/etc/passwd", "write 'etc/passwd'"), ("a\\b.cu", "write it with '/'"),
        ("a\nb.cu", "plain characters"), ("", "write a relative path"), ("a" * 300 + ".cu", "shorten it"),
    ],
)  # fmt: skip
def test_a_path_that_is_not_plain_is_refused_with_a_better_one(path, remedy):
    """No path leaves the directory that it is written into, in any spelling."""
    assert remedy in violations(("ok.cu", fakes.SOURCE), (path, "x"))["sources[1].path"]


def test_two_files_of_one_path_are_refused():
    assert "sources[0]" in violations(("k.cu", fakes.SOURCE), ("k.cu", "x"))["sources[1].path"]
    assert "lies in 'k.cu'" in violations(("k.cu", fakes.SOURCE), ("k.cu/h.cuh", "x"))["sources[1].path"]


def test_sources_over_a_mebibyte_are_refused():
    half = "ä" * (SOURCE_LIMIT_BYTES // 4)
    assert "1 MiB" in violations(("k.cu", fakes.SOURCE), ("a.cuh", half), ("b.cuh", half))["sources"]
    padding = " " * (SOURCE_LIMIT_BYTES - len(fakes.SOURCE))
    assert check(("k.cu", fakes.SOURCE + padding)).submission.sources[0].content.endswith(padding)


def test_nothing_to_build_is_refused():
    empty = api.SubmitRequest(submission=new_submission("sum", []))
    with pytest.raises(InvalidSubmission, match="at least one file"):
        gate.check_submission(empty, find_problem, ())
    assert "is empty" in violations(("k.cu", " \n"))["sources[0].content"]
    assert "NUL" in violations(("k.cu", fakes.SOURCE + "\0"))["sources[0].content"]


def test_all_that_is_wrong_is_told_at_once():
    errors = violations(("../k.cu", ""), entry="not a name", request_id="seven", mode=wire.Mode.TEST, language="fortran")
    assert set(errors) == {"sources[0].path", "sources[0].content", "entry", "request_id", "language"}


def test_an_unknown_problem_names_the_known_ones():
    with pytest.raises(ProblemNotFound, match="take one of: sum"):
        check(problem_id="som")
    assert "expected 'problems/<id>'" in violations(problem="sum")["problem"]


def test_an_unknown_mode_names_the_known_ones():
    invalid_request = request()
    invalid_request.submission.mode = 99
    with pytest.raises(InvalidSubmission, match="MODE_RANKED"):
        gate.check_submission(invalid_request, find_problem, ())


@pytest.mark.parametrize("choice", ["emulated", "cuda", "cuda:0", "cuda:h200", "cuda:NVIDIA H200"])
def test_a_device_is_chosen_by_kind_place_or_model(choice):
    """The device is stored as it was requested; the fleet knows which lane that is."""
    device_request = request()
    device_request.submission.device_kind = choice
    offered = ("emulated", "cuda", "cuda:0", "cuda:NVIDIA H200")
    assert gate.check_submission(device_request, find_problem, offered).submission.device_kind == choice
    with pytest.raises(NoSuchDevice, match="take one of: emulated, cuda, cuda:0, cuda:NVIDIA H200"):
        device_request.submission.device_kind = f"{choice}1"
        gate.check_submission(device_request, find_problem, offered)


def test_a_file_that_is_no_kernel_needs_a_language():
    assert "set one of: torch_extension, cuda" in violations(("kernel.txt", "x"))["language"]


def test_a_missing_entry_point_says_what_to_write():
    """Under `sources` where the problem named it, under `entry` where the submitter did."""
    assert 'extern "C" void solve' in violations(("k.cu", "__global__ void k() {}"))["sources"]
    assert "'solve' has no C linkage" in violations(("k.cu", "void solve(float* x) {}"))["sources"]
    assert "nothing is named 'go'" in violations(entry="go")["entry"]
