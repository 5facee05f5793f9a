"""A subject chooses which turns count, by its own null runs: what such a choice may gain, simulated."""

import random
from collections.abc import Sequence

import pytest

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge.timing.overhead import _counting, selection_allowance
    from sandbox.judge.timing.stopping import speedup

STILL, SLOW = [300_000] * 8, [350_000] * 8
WIDTH = 0.002  # of the bias that the device's clock has at least


def grading(seed: int, scatter: float, turns: int) -> tuple[list[float], list[float]]:
    """Equal kernels' times in the turns of one grading, subject and baseline."""
    noise = random.Random(seed)
    return [100_000 * noise.lognormvariate(0, scatter) for _ in range(turns)], [100_000.0] * turns


def wins(subject_ns: Sequence[float], baseline_ns: Sequence[float], kept: Sequence[int], selection: float) -> bool:
    pairs = ([values[turn] for turn in kept] for values in (subject_ns, baseline_ns))
    (found,) = speedup("eager", *pairs, bias_share=WIDTH, selection=selection)
    return found.ratio_low > 1.01


def win_share(scatter: float, count: int, *, protected: bool, turns: int) -> float:
    """How often the subject wins that spoils its null runs in all but its best turns."""
    won, gradings = 0, 2_000 if turns < 60 else 1_000
    for seed in range(gradings):
        subject_ns, baseline_ns = grading(seed, scatter, turns)
        best = set(sorted(range(turns), key=subject_ns.__getitem__)[:count])
        kept: list[int] = sorted(best)
        selection = 0.0
        if protected:
            own = [STILL if turn in best else SLOW for turn in range(turns)]
            kept = _counting(own, [STILL] * turns, 300_000.0) or list(range(turns))
            selection = selection_allowance(subject_ns, baseline_ns, kept)
        won += wins(subject_ns, baseline_ns, kept, selection)
    return won / gradings


@pytest.mark.parametrize("scatter", [0.013, 0.04])
@pytest.mark.parametrize(
    ("turns", "count", "share"),
    [
        *((12, count, 0.003) for count in (6, 9, 10, 11)),  # with 6 all count; with nine and more the first look may be the last
        *((24, count, 0.001) for count in range(9, 24, 3)),  # with 9, 12 or 15 all count
        *((60, count, 0.001) for count in (9, 30, 45, 54)),  # with 9 or 30 all count
    ],
)
def test_a_subject_that_spoils_its_bad_turns_does_not_win_against_itself(scatter: float, turns: int, count: int, share: float) -> None:
    """Where not all turns count, the lower bound is held to what the choice is worth."""
    assert win_share(scatter, count, protected=True, turns=turns) <= share


@pytest.mark.parametrize(
    ("scatter", "turns", "count", "share"),
    [
        (0.04, 12, 9, 0.01),
        (0.013, 24, 9, 0.01),  # three quarters of the 12 turns planned, however many were taken
        (0.04, 24, 9, 0.3),
        (0.04, 24, 18, 0.01),
        (0.013, 60, 9, 0.5),
        (0.04, 60, 9, 0.9),
    ],
)
def test_without_the_allowance_it_would_win(scatter: float, turns: int, count: int, share: float) -> None:
    """The control."""
    assert win_share(scatter, count, protected=False, turns=turns) > share
