"""A wrong output has a phrase of where it is wrong only where every wrong element is in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from grader.verdict import wrong_patterns
from grader.verdict.wrong_patterns import likely_cause
from sandbox.protocol import wire
from sandbox.protocol.wire import PatternKind, Symptom
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.explain import WrongCounts, comparable, find_pattern, first_wrong
    from sandbox.judge.tolerance import FLOAT4

TOLERANCE = wire.Tolerance(atol=1e-5, rtol=1e-5)
WRONG = 99.0
Damage = Callable[[Any], object]


def right(*shape: int) -> torch.Tensor:
    """A reference without zeros."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(1)) + 1


def trial_of(reference: torch.Tensor, damage: Damage, *, unwritten: bool = False, **fields: Any) -> wire.Trial:
    """A failed trial with the pattern of a damaged copy. damage: writes WRONG into what it is given, in place."""
    output = reference.clone()
    damage(output)
    missing = output == WRONG if unwritten else torch.zeros_like(output, dtype=torch.bool)
    counts = WrongCounts.of(output, reference, missing, TOLERANCE)
    pattern = None if counts is None else find_pattern("c", counts)
    return wire.Trial(
        workload_id="n", phase=wire.TrialPhase.VERIFY, index=0, outcome=wire.TrialOutcome.MISMATCHED, wrong_pattern=pattern, **fields
    )


def describe(trial: wire.Trial) -> str:
    return "" if trial.wrong_pattern is None else wrong_patterns.describe(trial.wrong_pattern)


def at(*index: Any) -> Damage:
    """Damage at an index."""

    def damage(output: torch.Tensor) -> None:
        output[index] = WRONG

    return damage


def combined(*damages: Damage) -> Damage:
    def damage(output: torch.Tensor) -> None:
        for part in damages:
            part(output)

    return damage


def by_chance(share: float) -> Damage:
    """Damage at random places, the same in every run."""

    def damage(output: torch.Tensor) -> None:
        chance = torch.rand(output.shape, generator=torch.Generator().manual_seed(2))
        output[chance < share] = WRONG

    return damage


def above_the_diagonal(output: torch.Tensor) -> None:
    output[torch.ones_like(output).triu(1).bool()] = WRONG


def below_the_diagonal(output: torch.Tensor) -> None:
    output[torch.ones_like(output).tril(-1).bool()] = WRONG


def in_memory(begin: int | None, end: int | None, step: int = 1) -> Damage:
    def damage(output: torch.Tensor) -> None:
        output.view(-1)[begin:end:step] = WRONG

    return damage


def on_the_diagonal(output: torch.Tensor) -> None:
    output.diagonal(dim1=-2, dim2=-1).fill_(WRONG)


def a_cluster(output: torch.Tensor) -> None:
    by_chance(0.1)(output[:100, :100])


def a_checkerboard(output: torch.Tensor) -> None:
    row, column = (torch.arange(size) for size in output.shape)
    output[(row[:, None] + column) % 2 == 0] = WRONG


# -- what counts as wrong ----------------------------------------------------------------------------------------------------------------


def test_a_right_output_and_a_single_element_have_no_pattern() -> None:
    """As where the error budget alone is exceeded."""
    assert trial_of(right(64, 64), lambda output: output).wrong_pattern is None
    assert trial_of(right(1), at(0)).wrong_pattern is None


def test_what_is_unwritten_goes_before_what_is_wrong() -> None:
    """The verdict is about it. The control is the same output, all of it written."""
    output = right(64, 64)
    output[3], output[-1] = WRONG, WRONG
    missing = torch.zeros(64, 64, dtype=torch.bool)
    missing[-1] = True
    counts = [WrongCounts.of(output, right(64, 64), mask, TOLERANCE) for mask in (missing, torch.zeros_like(missing))]
    patterns = [find_pattern("c", entry) for entry in counts if entry is not None]
    assert patterns[0] is not None and patterns[0].unwritten and patterns[0].count == 64 and patterns[1] is None


def test_a_pattern_agrees_with_the_rule_of_the_comparison() -> None:
    """Equal infinities and NaN in both are right; one alone is wrong, and so is a finite number for an infinity."""
    reference = right(8, 8)
    reference[0, 0], reference[0, 1], reference[0, 2] = torch.inf, torch.nan, torch.inf
    output = reference.clone()
    output[0, 2], output[1, 0] = 5.0, torch.nan
    counts = WrongCounts.of(output, reference, torch.zeros(8, 8, dtype=torch.bool), TOLERANCE)
    assert counts is not None and counts.mask.nonzero().tolist() == [[0, 2], [1, 0]]


def test_a_dtype_of_two_numbers_a_byte_has_a_pattern_and_elements() -> None:
    """Its last axis is twice as long, and nothing is computed in it."""
    if FLOAT4 is None:
        pytest.skip("this torch has no float4")
    reference, output = (torch.full((8, 8), byte, dtype=torch.uint8) for byte in (0x22, 0x22))
    output[7] = 0x23
    triple = comparable(output.view(FLOAT4), reference.view(FLOAT4), torch.zeros(8, 8, dtype=torch.bool))
    counts = WrongCounts.of(*triple, TOLERANCE)
    assert counts is not None and (counts.shape, counts.count) == ((8, 16), 8)
    assert first_wrong("c", *triple, TOLERANCE)[0].index == (7, 0)


# -- phrases -----------------------------------------------------------------------------------------------------------------------------

PHRASES: list[tuple[tuple[int, ...], Damage, str, str]] = [
    # shape, damage, where the wrong elements are, a word of the likely cause; "" where none may be said
    ((300, 300), above_the_diagonal, "are those above the diagonal.", "mask"),
    ((64, 64), below_the_diagonal, "are those below the diagonal.", "mask"),
    ((3, 48, 48), above_the_diagonal, "are those above the diagonal.", "mask"),
    ((64, 64), on_the_diagonal, "are those on the diagonal.", "off by one"),
    ((3, 250, 250), on_the_diagonal, "are those on the diagonal.", "off by one"),
    ((100, 200), at(slice(96, None)), "in the last 4 of 100 rows, from row 96 on, the last multiple of 32.", "partial tile"),
    ((100, 200), at(..., slice(192, None)), "in the last 8 of 200 columns, from column 192 on, the last multiple of 64.", "partial tile"),
    ((128, 200), at(slice(100, None)), "in the last 28 of 128 rows, from row 100 on.", ""),
    ((97, 200), at(96), "in the last row (96, the last multiple of 32).", ""),
    ((1000,), at(slice(992, None)), "in the last 8 of 1000 elements, from element 992 on, the last multiple of 32.", "partial tile"),
    (
        (100, 200),
        combined(at(slice(96, None)), at(..., slice(192, None))),
        "in the last 4 of 100 rows, from row 96 on, the last multiple of 32 or in the last 8 of 200 columns, from column 192 on, the last "
        "multiple of 64.",
        "partial tile",
    ),
    ((100, 201), in_memory(20096 - 256, None), "in the last 260 of 20100 elements in memory order, from element 19840 on.", ""),
    (
        (100, 201),
        in_memory(19968, None),
        "the last 132 of 20100 elements in memory order, from element 19968 on, the last multiple of",
        "t",
    ),
    ((40, 40), combined(at(0), at(-1), at(..., 0), at(..., -1)), "in the first or last row or in the first or last column.", "padding"),
    ((1000,), combined(at(slice(0, 2)), at(slice(-2, None))), "in the first or last 2 elements.", "padding"),
    ((64, 128), at(..., slice(3, None, 4)), "in every 4th column, from column 3 on.", "4 neighbouring elements"),
    ((64, 320), at(..., slice(31, None, 32)), "in every 32nd column, from column 31 on.", "lane of each warp"),
    ((64, 300), at(..., slice(0, None, 5)), "in every 5th column, from column 0 on.", ""),
    ((64, 128), at(slice(1, None, 2)), "in every 2nd row, from row 1 on.", ""),
    ((64, 129), in_memory(2, None, 4), "in every 4th element, from element 2 on.", "4 neighbouring elements"),
    ((4, 32, 32), at(2), "in batch 2 of 4.", ""),
    ((4, 32, 32), at(slice(1, None)), "in the last 3 of 4 batches, from batch 1 on.", "offset"),
    ((2, 4, 32, 32), at(slice(None), 2), "in index 2 of 4 (axis 1).", ""),
    ((4, 32, 32), at(2, slice(16, 20)), "in batch 2 of 4 and in rows 16 to 19 of 32.", ""),
]


@pytest.mark.parametrize(("shape", "damage", "phrase", "cause"), PHRASES)
def test_a_pattern_is_said_in_words(shape: tuple[int, ...], damage: Damage, phrase: str, cause: str) -> None:
    trial = trial_of(right(*shape), damage)
    assert phrase in describe(trial)
    assert cause in likely_cause(trial) if cause else likely_cause(trial) == ""


@pytest.mark.parametrize(
    ("shape", "damage", "phrase", "cause"),
    [
        ((64, 64), at(...), "", "launch"),
        ((100, 200), at(slice(96, None)), "in the last 4 of 100 rows", "whole tiles or vectors only"),
        ((64, 64), at(slice(1, None)), "The unwritten elements of 'c' are in the last 63 of 64 rows, from row 1 on.", "ends too early"),
        ((97, 200), at(96), "in the last row (96", "one too small"),
        ((223, 781), in_memory(-3, None), "the last 3 of 174163 elements in memory order, from element 174160 on, the last mul", "vectors"),
        ((1000,), at(999), "in the last element", "one too small"),
        ((40, 40), combined(at(0), at(-1), at(..., 0), at(..., -1)), "first or last row", "skips elements"),
        ((64, 64), above_the_diagonal, "are those above the diagonal.", "zeros too"),
        ((4, 32, 32), at(2), "in batch 2 of 4.", ""),
    ],
)
def test_what_was_not_written_has_other_causes(shape: tuple[int, ...], damage: Damage, phrase: str, cause: str) -> None:
    """A grid that is too small writes nothing; a bound that is wrong writes something else."""
    trial = trial_of(right(*shape), damage, unwritten=True)
    assert phrase in describe(trial)
    assert cause in likely_cause(trial) if cause else likely_cause(trial) == ""


@pytest.mark.parametrize(
    ("shape", "damage"),
    [
        ((300, 300), a_cluster),
        ((64, 64), by_chance(0.3)),
        ((64, 64), a_checkerboard),
        ((512, 512), a_checkerboard),
        ((64, 64), combined(at(3, 5), at(60, 2), at(17, 40))),  # too few
        ((300, 300), combined(above_the_diagonal, at(200, 3))),
        ((64, 64), combined(on_the_diagonal, at(60, 3))),
        ((100, 200), combined(at(slice(96, None)), at(3, 5))),
        ((64, 128), combined(at(..., slice(3, None, 4)), at(..., 1))),
        ((4, 32, 32), combined(at(2), at(0, 3, 5))),
        ((40, 40), combined(at(0), at(-1), at(..., 0), at(..., -1), at(20, 20))),
        ((64, 129), combined(in_memory(2, None, 4), at(0, 1))),
        ((100, 200), combined(at(slice(96, None)), at(..., slice(192, None)), at(3, 5))),
    ],
)
def test_one_element_outside_of_a_pattern_is_enough_to_say_nothing(shape: tuple[int, ...], damage: Damage) -> None:
    """The control of each phrase: it must not be said of what it does not cover."""
    trial = trial_of(right(*shape), damage)
    assert trial.wrong_pattern is None
    assert describe(trial) == "" and likely_cause(trial) == ""


def test_zeros_of_the_reference_are_no_pattern_of_the_kernel() -> None:
    """Zeros for a triangular result are right above the diagonal. The control is the same answer for a result without zeros there."""
    reference = right(64, 64)
    zeros = trial_of(reference.tril(), lambda output: output.zero_())
    assert describe(zeros) == likely_cause(zeros) == ""
    masked = trial_of(reference, lambda output: output.tril_())
    assert "above the diagonal" in describe(masked)


@pytest.mark.parametrize("share", [0.95, 0.7])
def test_a_result_with_zeros_is_no_pattern_where_few_others_are_right(share: float) -> None:
    """A race in a triangular product leaves some elements of the triangle right. The control is the same damage without the zeros."""

    def damage(output: torch.Tensor) -> None:
        by_chance(share)(output)
        output.tril_()

    reference = right(256, 256)
    assert describe(trial_of(reference.tril(), damage)) == ""
    if share > 0.9:
        with_zeros = combined(damage, lambda output: output.add_(reference.triu(1)))
        assert "below the diagonal" in describe(trial_of(reference, with_zeros))


def test_a_better_cause_is_not_contradicted() -> None:
    """A symptom or a CUDA error says more than a place."""
    reference = right(100, 200)
    assert likely_cause(trial_of(reference, at(slice(96, None))))
    for better in ({"symptom": Symptom.FLOAT16}, {"cuda_error": "cudaErrorInvalidValue: invalid argument"}):
        trial = trial_of(reference, at(slice(96, None)), **better)
        assert likely_cause(trial) == "" and "last 4 of 100 rows" in describe(trial)


def test_of_the_tiles_of_older_reports_nothing_is_said() -> None:
    """A competition folds stored facts again."""
    tiles = wire.IndexRange(axis=0, size=64, first=0, last=63, step=16, width=16)
    for kind in (PatternKind.DIAGONAL, PatternKind.REGION):
        pattern = wire.WrongPattern(output="c", shape=(64, 64), kind=kind, count=64, ranges=(tiles,))
        trial = replace(trial_of(right(64, 64), at(0)), wrong_pattern=pattern)
        assert describe(trial) == likely_cause(trial) == ""


def test_every_kind_of_pattern_is_tested_here() -> None:
    """A new one needs a phrase, and a case above."""
    patterns = [trial_of(right(*shape), damage).wrong_pattern for shape, damage, _, _ in PHRASES]
    kinds = {pattern.kind for pattern in patterns if pattern}
    assert kinds | {PatternKind.NONZERO, PatternKind.SCATTERED, PatternKind.EVERYTHING} == set(PatternKind)
