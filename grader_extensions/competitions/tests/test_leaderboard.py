"""Ranks that are shared, their order, and what a board over several problems makes of a missing entry."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from grader.model import Ranking, Score, ScoreKind
from grader_extensions.competitions.leaderboard import Board, Entry, Standing, board, counted_before, ranked
from grader_extensions.competitions.model import Competition, TieRule
from sandbox.protocol import wire

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
COMPETITION = Competition(
    competition_id="spring",
    title="Spring",
    problem_ids=("a", "b"),
    start_time=START,
    end_time=START + timedelta(days=7),
    freeze_time=START + timedelta(days=6),
)
ONE_PROBLEM = replace(COMPETITION, problem_ids=("a",))
TIMES = replace(COMPETITION, ranking=Ranking(score_kind=ScoreKind.TIME))


def score(value: float, half: float = 0.01) -> Score:
    return Score(value=value, low=value * (1 - half), high=value * (1 + half))


def standing(user: str, value: float, *, problem: str = "a", minute: int = 0, half: float = 0.01, **fields: object) -> Standing:
    example = Standing(
        submission_id=f"{user}-{problem}-{minute}",
        user=user,
        problem_id=problem,
        device="NVIDIA H200",
        clock=wire.Clock.DEVICE_EVENTS,
        score=score(value, half),
        create_time=START + timedelta(minutes=minute),
    )
    return replace(example, **fields)  # type: ignore[arg-type]


def places(of: Board) -> list[tuple[int, str]]:
    return [(row.rank, row.user) for row in of.entries]


def entry(user: str, low: float, value: float, high: float, minute: int = 0) -> Entry:
    return Entry(user=user, score=Score(value=value, low=low, high=high), create_time=START + timedelta(minutes=minute))


def test_an_entry_has_how_many_submissions_of_its_user_count() -> None:
    """On this device, of this board's problems, before the freeze, by the present rule; on the overall board over all problems."""
    excluded = [standing("x", 1.0, device="NVIDIA A100"), standing("x", 1.0, minute=9), standing("x", 1.0, rule="an earlier one")]
    standings = [*excluded, standing("x", 2.0), standing("x", 3.0, minute=1), standing("x", 1.5, problem="b", minute=2), standing("y", 1.0)]
    ruled = replace(COMPETITION, rules={"a": "", "b": ""})
    before = START + timedelta(minutes=5)
    for problem_id, counts in (("a", {"x": 2, "y": 1}), ("b", {"x": 1}), ("", {"x": 3, "y": 1})):
        shown = board(ruled, standings, problem_id=problem_id, device="NVIDIA H200", before=before)
        assert {row.user: row.submission_count for row in shown.entries} == counts
    assert sum(row.submission_count for row in board(ruled, standings, device="NVIDIA H200").entries) == 5


def test_the_best_is_first_and_a_gap_is_a_rank() -> None:
    standings = [standing("slow", 1.0), standing("fast", 3.0), standing("middle", 2.0)]
    assert places(board(COMPETITION, standings, problem_id="a")) == [(1, "fast"), (2, "middle"), (3, "slow")]
    assert places(board(TIMES, standings, problem_id="a")) == [(1, "slow"), (2, "middle"), (3, "fast")]


SPEEDUP, TIME = ScoreKind.SPEEDUP, ScoreKind.TIME


@pytest.mark.parametrize(
    ("kind", "intervals", "ranks"),
    [
        (SPEEDUP, [(1.98, 2.0, 2.02), (1.97, 1.99, 2.01), (1.95, 1.97, 1.99), (1.49, 1.5, 1.51)], [1, 1, 1, 4]),
        # Each overlaps the next one: only those that overlap the group's best are in it, else everybody would be first.
        (SPEEDUP, [(value - 0.06, value, value + 0.06) for value in (2.0, 1.9, 1.8, 1.7, 1.6)], [1, 1, 3, 3, 5]),
        # A wide interval reaches up to the first, but one that is told from the first stands between.
        (SPEEDUP, [(1.98, 2.0, 2.02), (1.88, 1.9, 1.92), (1.0, 1.5, 3.0)], [1, 2, 2]),
        (SPEEDUP, [(1.9, 2.0, 2.1), (1.7, 1.8, 1.9)], [1, 1]),  # intervals that touch overlap
        (SPEEDUP, [(1.9, 2.0, 2.1), (1.7, 1.8, 1.8999999)], [1, 2]),
        (TIME, [(90, 100, 110), (109, 120, 131), (111, 121, 131)], [1, 1, 3]),  # the best is the smallest
    ],
)
def test_who_can_not_be_told_from_the_groups_best_shares_its_rank(
    kind: ScoreKind, intervals: list[tuple[float, ...]], ranks: list[int]
) -> None:
    entries = [entry(f"u{number}", *interval) for number, interval in enumerate(intervals)]
    assert [(row.rank, row.user) for row in ranked(entries, kind, TieRule.SHARE, Counter())] == [
        (rank, f"u{number}") for number, rank in enumerate(ranks)
    ]


@pytest.mark.parametrize(("rule", "expected"), [(TieRule.SHARE, ["x", "y", "z"]), (TieRule.EARLIEST, ["z", "x", "y"])])
def test_the_tie_rule_orders_a_group_and_nothing_else(rule: TieRule, expected: list[str]) -> None:
    """The ranks are the same; who was early in a lower group stays there."""
    standings = [standing("x", 2.0, minute=5), standing("y", 1.99, minute=9), standing("z", 1.98, minute=1), standing("early", 1.0)]
    shown = board(replace(ONE_PROBLEM, tie_rule=rule), standings)
    assert places(shown) == [*((1, user) for user in expected), (4, "early")]


def test_only_the_best_of_a_user_counts_and_of_equals_the_first() -> None:
    """A worse one that comes later takes nothing away, nor does the same once more."""
    standings = [standing("x", 2.0, minute=3), standing("x", 2.5, minute=8), standing("x", 2.5, minute=7), standing("x", 1.0, minute=9)]
    (best,) = board(ONE_PROBLEM, standings).entries
    assert best.submission_id == "x-a-7" and best.score.value == 2.5


def test_the_order_is_the_same_however_the_rows_come() -> None:
    """Equal scores and times are ordered by the submission's id, and not by the database."""
    rng = random.Random(7)
    standings = []
    for number in range(300):
        user, value, fields = f"u{rng.randrange(30)}", rng.choice((1.0, 1.5, 1.503, 2.0)), {"submission_id": f"s{number}"}
        standings.append(standing(user, value, problem=rng.choice("ab"), minute=rng.randrange(3), **fields))
    for problem_id in ("a", "b", ""):
        first = board(COMPETITION, standings, problem_id=problem_id)
        for _ in range(5):
            rng.shuffle(standings)
            assert board(COMPETITION, standings, problem_id=problem_id) == first


def test_each_device_has_a_board_and_real_ones_are_listed_first() -> None:
    """By name; the first is shown where none is asked for; what is not official is marked."""
    emulated = {"device": "emulated on 2 cores", "clock": wire.Clock.HOST}
    standings = [standing("x", 9.0, **emulated), standing("x", 2.0), standing("y", 1.0, device="NVIDIA H100")]  # type: ignore[arg-type]
    shown = board(ONE_PROBLEM, standings)
    assert shown.devices == ("NVIDIA H100", "NVIDIA H200", "emulated on 2 cores")
    assert (shown.device, shown.official, places(shown)) == ("NVIDIA H100", True, [(1, "y")])
    practice = board(ONE_PROBLEM, standings, device="emulated on 2 cores")
    assert (practice.official, places(practice)) == (False, [(1, "x")])


def test_a_board_of_nothing_is_empty() -> None:
    assert board(COMPETITION, []).entries == () and board(COMPETITION, []).devices == ()
    shown = board(ONE_PROBLEM, [standing("x", 2.0)], device="other")
    assert shown.entries == () and not shown.official and shown.devices == ("NVIDIA H200",)


def test_overall_is_the_geometric_mean_over_all_problems() -> None:
    """Twice and eight times is four times; the interval's ends are combined likewise; the time is the last one's."""
    standings = [standing("x", 2.0, minute=3), standing("x", 8.0, problem="b", minute=1, flags=("THROTTLED",))]
    (best,) = board(COMPETITION, standings).entries
    assert best.score.value == pytest.approx(4.0) and best.score.high == pytest.approx(4.0 / 0.99, rel=1e-3)
    assert (best.submission_id, best.problem_count, best.flags) == ("", 2, ("THROTTLED",))
    assert best.create_time == START + timedelta(minutes=3)


def test_a_problem_without_an_entry_counts_as_the_baseline() -> None:
    """A user who hands nothing in has what PyTorch has: once. A slower one is not worse off for having tried."""
    standings = [standing(user, 4.0) for user in ("one", "both", "good")]
    standings += [standing("both", 0.5, problem="b"), standing("good", 1.5, problem="b")]
    entries = {row.user: row for row in board(COMPETITION, standings).entries}
    assert entries["one"].score.value == pytest.approx(2.0) and entries["one"].problem_count == 1
    assert entries["both"].score == entries["one"].score and entries["both"].rank == entries["one"].rank == 2
    assert entries["good"].score.value == pytest.approx(math.sqrt(6.0)) and entries["good"].rank == 1


def test_of_times_only_who_has_one_in_every_problem_is_on_the_overall_board() -> None:
    """No time is anybody's for nothing, so there is nothing to put in for a missing one."""
    standings = [standing("both", 4000.0), standing("both", 1000.0, problem="b"), standing("one", 1.0)]
    shown = board(TIMES, standings)
    assert places(shown) == [(1, "both")] and shown.entries[0].score.value == pytest.approx(2000.0)
    assert places(board(TIMES, standings, problem_id="a")) == [(1, "one"), (2, "both")]


def test_a_competition_of_one_problem_has_one_board() -> None:
    shown = board(ONE_PROBLEM, [standing("x", 0.5)])
    assert shown.problem_id == "a" and shown.entries[0].score.value == 0.5 and shown.entries[0].submission_id == "x-a-0"


def test_another_competitions_problem_does_not_count() -> None:
    assert board(ONE_PROBLEM, [standing("x", 2.0, problem="other")]).entries == ()


SECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("since_freeze", "admin", "frozen"),
    [
        (-SECOND, False, False),
        (timedelta(0), False, True),
        (timedelta(0), True, False),
        (timedelta(days=1) - SECOND, False, True),
        (timedelta(days=1), False, False),
    ],
)
def test_a_board_is_frozen_from_the_freeze_to_the_end(since_freeze: timedelta, admin: bool, frozen: bool) -> None:
    """To the microsecond; administrators always see all, and everybody does once it is over."""
    assert COMPETITION.freeze_time is not None
    before = counted_before(COMPETITION, COMPETITION.freeze_time + since_freeze, admin=admin)
    assert before == (COMPETITION.freeze_time if frozen else None)


def test_a_frozen_board_leaves_out_what_was_made_since_even_ones_own() -> None:
    day6 = 6 * 24 * 60
    standings = [standing("x", 2.0, minute=day6 - 1), standing("x", 9.0, minute=day6), standing("y", 1.0)]
    shown = board(ONE_PROBLEM, standings, before=ONE_PROBLEM.freeze_time)
    assert [row.score.value for row in shown.entries] == [2.0, 1.0]
    assert board(ONE_PROBLEM, standings).entries[0].score.value == 9.0
