"""Servers, judges, boxes and workers are killed while users submit: nothing is lost, nothing is judged twice."""

import json

import pytest

from tools.service import (
    chaos,
    stub_server,  # noqa: F401  # it is started by name
)
from tools.service.host_faults import FaultOutcome

ARGUMENTS = ["--submissions", "96", "--users", "8", "--kill-every", "0.8", "--kill-most", "8", "--over", "6", "--seed", "7", "--json"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_acknowledged_submission_has_one_verdict(kind, request, capsys):
    """One server on SQLite, two on PostgreSQL."""
    more = ["--database", request.getfixturevalue("postgres").database()] if kind == "postgres" else []
    assert_nothing_is_lost(more, capsys)


def assert_nothing_is_lost(more, capsys):
    """Kill, with more options of the tool, and look at what it prints."""
    code = chaos.main([*ARGUMENTS, *more])
    printed = capsys.readouterr()
    outcome = json.loads(printed.out)
    assert code == 0, printed.err[-2000:]
    assert outcome["acknowledged"] == sum(outcome["verdicts"].values()) == 96
    assert sum(outcome["killed"].values()) >= 2, "a try in which nothing died shows nothing"


@pytest.mark.slow
def test_boxes_that_wait_are_killed_and_nothing_is_lost(capsys):
    """They alone, one after the other, while jobs take those that are left. A job whose box is killed is graded again."""
    code = chaos.main([*ARGUMENTS, "--kill", "pool", "--kill-most", "30", "--kill-every", "0.2"])
    printed = capsys.readouterr()
    outcome = json.loads(printed.out)
    assert code == 0, printed.err[-2000:]
    assert outcome["acknowledged"] == sum(outcome["verdicts"].values()) == 96 and outcome["killed"]["pool"] >= 2


@pytest.mark.parametrize(
    "seen",
    [
        {"without_verdict": ["submissions/a"]},
        {"judged_twice": ["submissions/a"]},
        {"out_of_order": ["submissions/a"]},
        {"left_behind": ["python -m tools.service.stub_judge"]},
        {"unacknowledged": 1},
    ],
    ids=lambda seen: next(iter(seen)),
)
def test_what_must_not_be_is_a_fault(seen):
    """The search does find."""
    assert chaos.Outcome().faults() == [] and len(chaos.Outcome(**seen).faults()) == 1


def test_several_servers_need_a_database(capsys):
    """SQLite is for one."""
    assert chaos.main(["--servers", "2"]) == 2 and "--database" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["descriptors", "ledger"])
def test_a_host_that_fails_fails_nothing(fault, capsys):
    """What was acknowledged is graded, and readiness said what was wrong."""
    code = chaos.main(["--fault", fault, "--json"])
    printed = capsys.readouterr()
    outcome = json.loads(printed.out)
    assert code == 0, printed.err[-2000:]
    assert outcome["states"] == {"SUBMISSION_STATE_SUCCEEDED": len(outcome["acknowledged"])}
    assert ("removed or replaced" in outcome["unready"]) == (fault == "ledger")


@pytest.mark.parametrize(
    "seen",
    [
        {"states": {"SUBMISSION_STATE_SUCCEEDED": 1, "SUBMISSION_STATE_FAILED": 1}},
        {"states": {"SUBMISSION_STATE_SUCCEEDED": 1}},
        {"unready": ""},
        {"errors": ["submissions/a: there is no submission 'a'"]},
    ],
    ids=["failed", "vanished", "ready all the time", "an error"],
)
def test_what_a_failing_host_must_not_do_is_a_fault(seen):
    """The control of the above."""
    well = {"fault": "disk", "acknowledged": ["a", "b"], "unready": "full", "states": {"SUBMISSION_STATE_SUCCEEDED": 2}}
    assert FaultOutcome(**well).faults() == [] and len(FaultOutcome(**{**well, **seen}).faults()) == 1
