"""A subject chooses which turns count, by its own null runs: what such a choice may gain, simulated."""

import random
from collections.abc import Sequence

import pytest

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge.timing.overhead import _counting, selection_allowance
    from sandbox.judge.timing.stopping import speedup

GRADINGS, TURNS, MOST_TURNS = 2_000, 24, 60
STILL, SLOW = [300_000] * 8, [350_000] * 8
WIDTH = 0.002  # of the bias that the device's clock has at least


def grading(seed: int, scatter: float, turns: int = TURNS) -> tuple[list[float], list[float]]:
    """Equal kernels' times in the turns of one grading, subject and baseline."""
    noise = random.Random(seed)
    return [100_000 * noise.lognormvariate(0, scatter) for _ in range(turns)], [100_000.0] * turns


def wins(subject_ns: Sequence[float], baseline_ns: Sequence[float], kept: Sequence[int], selection: float) -> bool:
    pairs = ([values[turn] for turn in kept] for values in (subject_ns, baseline_ns))
    (found,) = speedup("eager", *pairs, bias_share=WIDTH, selection=selection)
    return found.ratio_low > 1.01


def win_share(scatter: float, count: int, *, protected: bool, turns: int = TURNS, gradings: int = GRADINGS) -> float:
    """How often the subject wins that spoils its null runs in all but its best turns."""
    won = 0
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
@pytest.mark.parametrize("count", range(9, 24, 3))
def test_a_subject_that_spoils_its_bad_turns_does_not_win_against_itself(scatter: float, count: int) -> None:
    """With 9, 12 or 15 of 24 turns all count; with more, the lower bound is held to what the choice is worth."""
    assert win_share(scatter, count, protected=True) <= 0.001


@pytest.mark.parametrize("scatter", [0.013, 0.04])
@pytest.mark.parametrize("count", [6, 9, 10, 11])
def test_of_the_first_twelve_its_best_do_not_win_either(scatter: float, count: int) -> None:
    """With 6 all count; with nine and more the first look may be the last."""
    assert win_share(scatter, count, protected=True, turns=12) <= 0.003


def test_nine_of_twelve_would_win_without_the_allowance() -> None:
    """The control."""
    assert win_share(0.04, 9, protected=False, turns=12) > 0.01


@pytest.mark.parametrize(("scatter", "share"), [(0.013, 0.01), (0.04, 0.3)])
def test_with_nine_turns_of_its_choice_it_would(scatter: float, share: float) -> None:
    """The control: three quarters of the 12 turns planned, however many were taken."""
    assert win_share(scatter, 9, protected=False) > share


def test_eighteen_turns_of_its_choice_would_win_without_the_allowance() -> None:
    """The control of the allowance."""
    assert win_share(0.04, 18, protected=False) > 0.01


@pytest.mark.parametrize("scatter", [0.013, 0.04])
@pytest.mark.parametrize("count", [9, 30, 45, 54])
def test_of_sixty_turns_its_best_do_not_win_either(scatter: float, count: int) -> None:
    """With 9 or 30 of 60 all count; with three quarters and more, the lower bound is held to what the choice is worth."""
    assert win_share(scatter, count, protected=True, turns=MOST_TURNS, gradings=1_000) <= 0.001


@pytest.mark.parametrize(("scatter", "share"), [(0.013, 0.5), (0.04, 0.9)])
def test_nine_of_sixty_would_win(scatter: float, share: float) -> None:
    """The control: three quarters of the first look's turns, however many were taken."""
    assert win_share(scatter, 9, protected=False, turns=MOST_TURNS, gradings=300) > share
