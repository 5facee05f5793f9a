"""The words of `grader-cli rejudge` and `final`, and which commands mean the same rejudge."""

import io

import pytest
from rich.console import Console
from typer.testing import CliRunner

from grader.cli.main import app
from grader.v1 import rejudge_pb2, report_pb2
from grader_extensions.competitions.cli.rejudge import render, request_id

ORDER = {"cause": "a bug", "competition": "competitions/spring", "top_count": 3, "device_kind": "emulated", "fresh_sizes": True}


def run(*words):
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize(
    "other", [{"cause": "another"}, {"competition": "competitions/fall"}, {"top_count": 4}, {"device_kind": "cuda"}, {"fresh_sizes": False}]
)
def test_only_the_same_order_has_the_same_request_id(other):
    """So that the command goes on with what it began, and nobody gets somebody else's final."""
    order = rejudge_pb2.Rejudge(**ORDER)
    assert request_id(order) == request_id(rejudge_pb2.Rejudge(**ORDER)) != request_id(rejudge_pb2.Rejudge(**ORDER | other))
    assert request_id(order) != request_id(order, "2")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("final", "spring", "--top", "3", "--device", "auto"), "one device"),
        (("final", "spring", "--top", "0", "--device", "emulated"), "--top"),
        (("final", "spring", "--device", "emulated"), "--top"),
        (("rejudge", "create", "--problem", "sum"), "--cause"),
        (("rejudge", "create", "--cause", "x", "--device", "toaster"), "toaster"),
        (("rejudge", "create", "--cause", "x", "--problem", "sum", "--no-wait"), "--server"),
        (("rejudge", "create", "--cause", "x", "--no-wait", "--apply", "--server", "127.0.0.1:1"), "--apply"),
    ],
)
def test_misuse_is_told_before_anything_is_asked(words, told):
    found = run(*words)
    assert found.exit_code == 2 and told in found.output


def test_a_change_is_a_line_with_both_ranks_and_both_judgements():
    """Nothing of it can move the terminal's cursor or mean markup."""
    before = rejudge_pb2.Judgement(verdict="VERDICT_ACCEPTED", score=2.0, score_low=1.9, score_high=2.1)
    after = rejudge_pb2.Judgement(verdict="VERDICT_WRONG_ANSWER", reason="MISMATCH", rejudge="rejudges/r")
    change = rejudge_pb2.RejudgeChange(submission="submissions/s", user="[red]\x1b[2J", before=before, after=after, rank_before=1)
    rejudge = rejudge_pb2.Rejudge(
        name="rejudges/r", cause="why\x1b", state="REJUDGE_STATE_READY", submission_count=1, rerun_count=1, changes=[change]
    )
    console = Console(width=200, record=True, markup=False, emoji=False, highlight=False, file=io.StringIO())
    for part in render(rejudge, report_pb2.SCORE_KIND_SPEEDUP):
        console.print(part)
    out = console.export_text()
    line = next(one for one in out.splitlines() if "submissions/s" in one)
    assert line.split()[:2] == ["-", "1"] and "ACCEPTED 2x (1.9..2.1)" in line and "WRONG_ANSWER MISMATCH" in line and "[red]" in line
    assert "\x1b" not in out and "grader-cli rejudge apply rejudges/r" in out
