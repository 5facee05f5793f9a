"""Changes that a competition's file may have after the start, and how they are told without a secret."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grader.errors import InvalidRequest
from grader.model import Ranking, ScoreKind
from grader.v1 import competition_pb2
from grader_extensions.competitions import organising_calls as competition_changes
from grader_extensions.competitions.actions import checked_reason
from grader_extensions.competitions.competition_file import CompetitionFile
from grader_extensions.competitions.model import Competition, TieRule, Visibility
from grader_extensions.competitions.organising_calls import FIXED, UNSHOWN, changes, check_fair
from grader_extensions.competitions.refusals import ReloadRefused
from sandbox.protocol import wire

START = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
END = START + 48 * HOUR
SECRET = wire.Workload(workload_id="secret-1", axes={"n": 70368}, hidden=True)
SPRING = Competition(
    competition_id="spring",
    title="Spring",
    problem_ids=("sum", "other"),
    start_time=START,
    end_time=END,
    device_kinds=("cuda",),
    secret_workloads={"sum": (SECRET,)},
    secret_seed="ab" * 16,
)
UNFAIR = {
    "start": {"start_time": START + HOUR},
    "problems": {"problem_ids": ("sum",)},
    "score": {"ranking": Ranking(score_kind=ScoreKind.TIME)},
    "baseline": {"ranking": Ranking(baseline="compile")},
    "processes": {"ranking": Ranking(process_count=5)},
    "tie_rule": {"tie_rule": TieRule.EARLIEST},
    "visibility": {"visibility": Visibility.AFTER_END},
    "secret": {"secret_workloads": {"sum": (replace(SECRET, axes={"n": 7}),)}},
    "secret_seed": {"secret_seed": "cd" * 16},
}
FAIR = {
    "title": {"title": "Spring sprint"},
    "color": {"color": "#0b5cad"},
    "logo": {"logo": Path("logo.png")},
    "statement": {"statement": "Add vectors."},
    "end": {"end_time": END + HOUR},
    "freeze": {"freeze_time": END - HOUR},
    "hourly_limit": {"hourly_limit": 3},
    "devices": {"device_kinds": ("cuda", "emulated")},
}


def of(*competitions):
    return {competition.competition_id: competition for competition in competitions}


def refusal(before, after, now):
    with pytest.raises(ReloadRefused) as caught:
        check_fair(of(before), of(*([after] if after else [])), now)
    return str(caught.value)


@pytest.mark.parametrize("key", UNFAIR)
def test_what_competitors_rely_on_stays_from_the_start_on(key):
    """The refusal names the key. Before the start it is the organiser's: the control."""
    changed = replace(SPRING, **UNFAIR[key])
    for now in (START, END + HOUR):
        text = refusal(SPRING, changed, now)
        assert f"'{key}' can't change any more" in text and "70368" not in text and "abab" not in text and "cdcd" not in text
    check_fair(of(SPRING), of(changed), START - HOUR)


@pytest.mark.parametrize("key", FAIR)
def test_the_rest_may_change_and_is_shown(key):
    changed = replace(SPRING, **FAIR[key])
    check_fair(of(SPRING), of(changed), START + HOUR)
    (change,) = changes(of(SPRING), of(changed))
    assert change.kind == competition_pb2.COMPETITION_CHANGE_KIND_CHANGED and [entry.key for entry in change.keys] == [key]
    assert bool(change.keys[0].before or change.keys[0].after) is (key != "statement")
    assert competition_changes._recorded(change).startswith(f"changed; {key}: ")


def test_an_end_moves_to_a_time_to_come():
    """Earlier too, as long as nothing that was handed in leaves the board."""
    now = START + 10 * HOUR
    check_fair(of(SPRING), of(replace(SPRING, end_time=now + HOUR)), now)
    for time in (now, now - HOUR):
        assert "'end' of competition 'spring' would be over by now" in refusal(SPRING, replace(SPRING, end_time=time), now)


@pytest.mark.parametrize(("visibility", "reopens"), [(Visibility.PRIVATE, True), (Visibility.AFTER_END, False)])
def test_an_ended_competition_is_reopened_only_where_nobody_has_seen_the_sources(visibility, reopens):
    before = replace(SPRING, visibility=visibility)
    after = replace(before, end_time=END + 3 * HOUR)
    if reopens:
        check_fair(of(before), of(after), END + HOUR)
    else:
        assert "everybody has seen all sources" in refusal(before, after, END + HOUR)
        check_fair(of(before), of(after), END - HOUR)  # the control: it still runs


def test_the_file_of_a_running_competition_stays():
    """Before its start and after its end it may go; a new one may come."""
    assert "is gone; put it back" in refusal(SPRING, None, START)
    check_fair(of(SPRING), {}, START - HOUR)
    check_fair(of(SPRING), {}, END)
    assert [(change.competition, change.kind) for change in changes(of(SPRING), of(replace(SPRING, competition_id="autumn")))] == [
        ("competitions/autumn", competition_pb2.COMPETITION_CHANGE_KIND_ADDED),
        ("competitions/spring", competition_pb2.COMPETITION_CHANGE_KIND_REMOVED),
    ]


def test_every_key_of_the_file_is_compared():
    """A new key would else change without a word, after the start too."""
    compared = set(competition_changes._values(SPRING))
    assert compared == set(CompetitionFile.model_fields) - {"name"} and set(FIXED) | set(UNSHOWN) <= compared


@pytest.mark.parametrize("reason", ["x" * 401, "two\nlines", "\x1b[2J", "right \u202e to left", "\0"])
def test_a_reason_is_one_printable_line(reason):
    with pytest.raises(InvalidRequest, match="reason"):
        checked_reason(reason, required=False)
