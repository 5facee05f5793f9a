"""The GPU tests' kernels say what they should, and fit the gate as it is today; no GPU is needed to know that."""

from __future__ import annotations

import re

import pytest

from grader.model import Verdict
from tests.gpu.kernels.files import HERE, NO_GAIN, Kernel, all_in, gate_layout
from tests.harness.grading import load_problem
from tests.harness.kernel_words import words_of

ALL = [kernel for directory in ("attacks", "honest", "faults") for kernel in all_in(directory)]
LAYOUT = set(re.findall(r"#define (\w+)", gate_layout()))


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.name)
def test_a_kernel_is_whole_and_fits_the_gate(kernel: Kernel) -> None:
    """Every header of ours is in its text, every field of the gate that it names is there, and so is its problem."""
    text = kernel.source(load_problem(kernel.problem).spec.trial_count)
    assert '#include "' not in text
    assert set(re.findall(r"\b(?:GATE|OPERATION)_[A-Z_]+\b", text)) <= LAYOUT
    assert {expected.split()[0] for expected in kernel.expect} <= {verdict.value for verdict in Verdict}


@pytest.mark.parametrize("kernel", all_in("attacks"), ids=lambda kernel: kernel.name)
def test_an_attack_may_not_be_accepted_with_a_gain(kernel: Kernel) -> None:
    """The attack names a class of the catalogue, the honest kernel that it is derived from, and no plain ACCEPTED."""
    assert kernel.ids
    assert kernel.original is not None
    assert kernel.original.exists()
    assert all(expected == NO_GAIN or not expected.startswith("ACCEPTED") for expected in kernel.expect)


@pytest.mark.parametrize("kernel", all_in("honest"), ids=lambda kernel: kernel.name)
def test_an_honest_kernel_is_some_attacks_twin(kernel: Kernel) -> None:
    """An honest kernel must be accepted, whatever it looks like."""
    assert kernel.expect == ("ACCEPTED",)
    assert (HERE / "attacks" / f"{words_of(kernel.path)['twin of']}.cu").exists()
