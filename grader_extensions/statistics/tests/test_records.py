"""Rows of submissions as a server sends them, an honest one or not."""

import json
import math

import pytest

from grader.v1 import report_pb2, submission_pb2
from grader_extensions.statistics.export import whole_row
from grader_extensions.statistics.records import row


def submission(**report):
    return submission_pb2.Submission(
        name="submissions/1",
        problem="problems/p",
        state=submission_pb2.SUBMISSION_STATE_SUCCEEDED,
        report=report_pb2.Report(verdict=report_pb2.VERDICT_ACCEPTED, **report),
    )


def speedup(ratio, low, high, baseline="eager"):
    return report_pb2.Speedup(baseline=baseline, ratio=ratio, ratio_low=low, ratio_high=high)


@pytest.mark.parametrize(
    "figures", [(math.nan, 1, 2), (math.inf, 1, 2), (0, 0, 0), (-1, -2, -1), (2, 0, 3), (2, 1, math.inf), (2, 1, 40), (2, math.nan, 3)]
)
def test_a_speedup_that_is_none_is_not_counted(figures):
    """And its row can be written as JSON, which has no word for these numbers."""
    values = whole_row(submission(speedups=[speedup(*figures)]))
    assert values["speedup"] is values["speedup_low"] is values["baseline"] is None and values["accepted"]
    json.dumps(values, allow_nan=False)


def test_the_baseline_is_the_one_that_is_named_or_eager():
    graded = submission(speedups=[speedup(3, 2, 4, "compile"), speedup(2, 1.9, 2.1)])
    assert row(graded)["speedup"] == row(graded, "eager")["speedup"] == 2 and row(graded, "compile")["speedup"] == 3
    assert row(graded, "other")["speedup"] is None


def test_a_score_without_end_is_none():
    hostile = submission()
    hostile.score, hostile.score_low, hostile.score_high = 2.0, math.nan, math.inf
    assert row(hostile)["score"] is row(hostile)["score_high"] is None


def test_what_failed_on_the_emulated_device_before_a_gpu_had_no_device():
    """Else a run with --cascade would be of two devices, and without its wrong answers on either. One that passed is of its GPU."""
    outcomes = {}
    for name, device, kind in (("FAILED", "a CPU", "emulated"), ("PASSED", "H200", "cuda")):
        outcome = getattr(report_pb2, f"SCREENING_OUTCOME_{name}")
        environment = report_pb2.Environment(device=device, device_kind=kind)
        values = row(submission(screening=report_pb2.Screening(outcome=outcome), environment=environment))
        outcomes[name] = (values["device"], values["device_kind"])
    assert outcomes == {"FAILED": ("", "cuda"), "PASSED": ("H200", "cuda")}


def test_a_verdict_that_is_newer_than_this_client_is_one():
    values = row(submission_pb2.Submission(report=report_pb2.Report(verdict=99)))
    assert values["verdict"] == "UNKNOWN_99" and values["accepted"] is False
