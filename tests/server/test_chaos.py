"""Servers, judges and boxes are killed while users hand in: nothing is lost, nothing is judged twice.  `tools/service/chaos.py`, small."""

import json

import pytest

from tools.service import chaos

ARGUMENTS = ["--submissions", "96", "--users", "8", "--kill-every", "0.8", "--kill-most", "8", "--over", "6", "--seed", "7", "--json"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres", "workers"])
def test_every_acknowledged_submission_has_one_verdict(kind, request, capsys):
    """One server on SQLite, two on PostgreSQL, one to which workers come."""
    more = ["--database", request.getfixturevalue("postgres").database()] if kind == "postgres" else []
    code = chaos.main([*ARGUMENTS, *more, *(["--workers", "2"] if kind == "workers" else [])])
    told = capsys.readouterr()
    outcome = json.loads(told.out)
    assert code == 0, told.err[-2000:]
    assert outcome["acknowledged"] == sum(outcome["verdicts"].values()) == 96
    assert sum(outcome["killed"].values()) >= 2, "a try in which nothing died shows nothing"


@pytest.mark.parametrize(
    "seen",
    [
        {"without_verdict": ["submissions/a"]},
        {"judged_twice": ["submissions/a"]},
        {"out_of_order": ["submissions/a"]},
        {"nobody_asked_for": 1},
    ],
    ids=lambda seen: next(iter(seen)),
)
def test_what_must_not_be_is_a_fault(seen):
    """The search does find."""
    assert chaos.Outcome().faults() == [] and len(chaos.Outcome(**seen).faults()) == 1


def test_several_servers_need_a_database(capsys):
    """SQLite is for one."""
    assert chaos.main(["--servers", "2"]) == 2 and "--database" in capsys.readouterr().err
