"""Servers, judges, boxes and workers are killed while users submit: nothing is lost, nothing is judged twice."""

import json

import pytest

from tools.service import (
    chaos,
    stub_server,  # noqa: F401  # it is started by name
)
from tools.service.host_faults import FaultOutcome

ARGUMENTS = ["--submissions", "96", "--users", "8", "--kill-every", "0.8", "--kill-most", "8", "--over", "6", "--seed", "7"]


def outcome_of(capsys, *options):
    """Kill with these options of the tool, and return what it prints."""
    code = chaos.main([*options, "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err[-2000:]
    return json.loads(printed.out)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "pool"])
def test_every_acknowledged_submission_has_one_verdict(kind, request, capsys):
    """A server on SQLite, two on PostgreSQL; alone, boxes that wait, while jobs take the rest: a job whose box is killed is graded
    again."""
    arguments = {"sqlite": [], "pool": ["--kill", "pool", "--kill-most", "30", "--kill-every", "0.2"]}.get(kind)
    assert_nothing_is_lost(["--database", request.getfixturevalue("postgres").database()] if arguments is None else arguments, capsys)


def assert_nothing_is_lost(arguments, capsys):
    outcome = outcome_of(capsys, *ARGUMENTS, *arguments)
    assert outcome["acknowledged"] == sum(outcome["verdicts"].values()) == 96
    killed = outcome["killed"]["pool"] if "pool" in arguments else sum(outcome["killed"].values())
    assert killed >= 2, "a try in which nothing died shows nothing"


@pytest.mark.parametrize("name", ["without_verdict", "judged_twice", "out_of_order", "left_behind", "unacknowledged"])
def test_what_must_not_be_is_a_fault(name):
    """The search does find."""
    counts = {name: 1 if name == "unacknowledged" else ["submissions/a"]}
    assert chaos.Outcome().faults() == [] and len(chaos.Outcome(**counts).faults()) == 1


def test_several_servers_need_a_database(capsys):
    """SQLite is for one."""
    assert chaos.main(["--servers", "2"]) == 2 and "--database" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["descriptors", "ledger"])
def test_a_host_that_fails_fails_nothing(fault, capsys):
    """Acknowledged submissions are graded, and readiness said what was wrong."""
    outcome = outcome_of(capsys, "--fault", fault)
    assert outcome["states"] == {"SUBMISSION_STATE_SUCCEEDED": len(outcome["acknowledged"])}
    assert ("removed or replaced" in outcome["unready"]) == (fault == "ledger")


@pytest.mark.parametrize(
    "counts",
    [
        {"states": {"SUBMISSION_STATE_SUCCEEDED": 1, "SUBMISSION_STATE_FAILED": 1}},
        {"states": {"SUBMISSION_STATE_SUCCEEDED": 1}},
        {"unready": ""},
        {"errors": ["submissions/a: there is no submission 'a'"]},
    ],
    ids=["failed", "vanished", "ready all the time", "an error"],
)
def test_what_a_failing_host_must_not_do_is_a_fault(counts):
    """The control of the above."""
    well = {"fault": "disk", "acknowledged": ["a", "b"], "unready": "full", "states": {"SUBMISSION_STATE_SUCCEEDED": 2}}
    assert FaultOutcome(**well).faults() == [] and len(FaultOutcome(**{**well, **counts}).faults()) == 1
