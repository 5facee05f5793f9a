"""The check tells what is weak in a problem that accepts an attack of `tests/exploits`. The attack's own problem is admitted."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from grader.formats import native
from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION
from tests.exploits import test_controls_meaning as meaning
from tests.exploits import test_controls_numerics as numerics
from tests.exploits.attack_files import attack
from tests.harness.kernel_words import problem_at

if AFTER_COLLECTION:
    from grader_extensions.problem_check.judge.check import admit
    from grader_extensions.problem_check.judge.examination import working_bytes

pytestmark = pytest.mark.slow

SMALL_BYTES = 50_000_000
# By which of its findings admission refuses such a problem. The others are tasks in their own right, that ask for less.
REFUSED_BY = {
    "zeros_under_atol": "zeros",
    "zeros_for_a_mean": "zeros",
    "skips_affine": "input gamma",
    "skips_relu": "idle relu",
    "copies_the_sorted": "idle sort",
}
CHECK_OF = {"whole_tiles_only": "sizes"}
# The check that refuses the earlier problem.
REFUSED_EARLIER_BY = {
    "flash_without_maximum": "no maximum",
    "softmax_mostly_zeros": "small values",
    "wide_softmax_mostly_zeros": "below atol",
    "softmax_of_the_tail": "normal tail",
    "layer_norm_one_pass": "one pass",
    "square_first_1024_columns": "columns",
}


def findings(path: Path) -> list[wire.Finding]:
    """Return the findings of admission."""
    facts = admit(problem_at(path).spec, EmulatedDevice(), 60.0, time.process_time)
    return [fact for fact in facts if isinstance(fact, wire.Finding)]


def of_outcome(reported: list[wire.Finding], outcome: wire.FindingOutcome) -> set[str]:
    """The checks that ended so."""
    return {finding.check for finding in reported if finding.outcome is outcome}


def whole_findings(path: Path) -> dict[str, wire.FindingOutcome]:
    """Return admission's findings about a problem as a whole, at the workloads that are small."""
    spec = native.load(path).spec
    small = tuple(workload for workload in spec.workloads if working_bytes(spec, workload) < SMALL_BYTES or workload.device_kind == "cuda")
    # By the time that this process computes: on a busy machine a check would stop before its end.
    facts = admit(replace(spec, workloads=small), EmulatedDevice(), 15.0, time.process_time)
    return {fact.check: fact.outcome for fact in facts if fact.workload_id == "" and fact.outcome is not wire.FindingOutcome.PASSED}


@pytest.mark.parametrize("name", meaning.WEAKENED)
def test_what_admission_says_of_the_weaker_problem(name, tmp_path):
    """A degenerate one is refused for that, where the attack's own problem is admitted."""
    before = findings(attack(name).problem)
    assert of_outcome(before, wire.FindingOutcome.FAILED) == set()
    after = findings(meaning.weakened(name, tmp_path).problem)
    if name in REFUSED_BY:
        assert REFUSED_BY[name] in of_outcome(after, wire.FindingOutcome.FAILED)
    if name in CHECK_OF:
        assert CHECK_OF[name] in of_outcome(after, wire.FindingOutcome.WARNING) - of_outcome(before, wire.FindingOutcome.WARNING)


@pytest.mark.parametrize("name", numerics.WEAKENED)
def test_admission_finds_the_earlier_problem(name, tmp_path):
    """Admission refuses it, or warns where only the emulated device's sizes are too small. The present one has no such finding."""
    check = REFUSED_EARLIER_BY[name]
    outcome = wire.FindingOutcome.WARNING if check == "columns" else wire.FindingOutcome.FAILED
    assert whole_findings(numerics.weakened(name, tmp_path).problem).get(check) is outcome
    assert check not in whole_findings(attack(name).problem)
