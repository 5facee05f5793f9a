"""What `python -m tests.findings` takes for closed."""

import pytest

from grader.model import Report, Verdict
from tests import findings
from tests.harness.grading import Graded


def graded(verdict=Verdict.ACCEPTED, output="", flags=()):
    return Graded(report=Report(verdict=verdict, reason="", summary="", output=output, flags=flags))


@pytest.mark.parametrize(
    ("closed", "one_that_is", "one_that_is_not"),
    [
        (findings.refused, graded(Verdict.WRONG_ANSWER), graded()),
        (findings.accepted, graded(), graded(Verdict.WRONG_ANSWER)),
        (findings.withheld, graded(output="left by the process before: 20000"), graded(output="20000 1 4099")),
        (findings.withheld, graded(), graded(Verdict.RUNTIME_ERROR)),
        (findings.flagged("BASELINE_SLOWED"), graded(flags=("BASELINE_SLOWED",)), graded()),
        (findings.grown_little, "rss before 121 MiB\n10 streams open; rss 130 MiB", "rss before 121 MiB\nheld: rss 1407 MiB"),
        (findings.grown_little, "rss 121\n... rss 122", "Traceback: no server"),
    ],
)
def test_a_finding_is_closed(closed, one_that_is, one_that_is_not):
    assert closed(one_that_is)
    assert not closed(one_that_is_not)


def test_nothing_of_another_users_is_found():
    lines = [f"bob {call} -> NOT_FOUND no such submission" for call in ("get", "get nonexistent", "get full", "cancel", "watch")]
    assert findings.nobody_elses("\n".join(lines))
    assert not findings.nobody_elses("\n".join([*lines[:4], "bob watch -> SubmissionEvent ..."]))
    assert not findings.nobody_elses("\n".join(lines[:4]))


def test_each_wrong_computation_fails_somewhere():
    names = [*[f"row_softmax zeroed below {one}" for one in range(6)], "row_softmax no max", "layer_norm one-pass", "flash no max"]
    lines = [f"{name} {{'7x1': (4, 4, [0.0]), '128x256': (0, 4, [1.2])}}" for name in names]
    assert findings.each_rejected("\n".join(lines))
    assert not findings.each_rejected("\n".join([*lines[1:], lines[0].replace("(0, 4,", "(4, 4,")]))
    assert not findings.each_rejected("\n".join(lines[1:]))


def test_a_missing_source_is_named(tmp_path, capsys):
    assert findings.main([str(tmp_path)]) == 2
    assert "leak/ranked_tells_itself.cu" in capsys.readouterr().err
