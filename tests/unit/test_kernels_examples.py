"""The example problems say what they expect in line 1, and are whole.  That the verdicts are the ones expected is shown end to end."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest

from grader.formats import native
from grader.grading.pipeline import problem_for
from grader.model import Problem, Verdict
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import numpy as np
    import torch

    from sandbox.judge.tolerance import compare


EXAMPLES = Path(__file__).parents[2] / "kernels_examples"
PROBLEMS = sorted(path.parent.name for path in EXAMPLES.glob("*/problem.toml"))
KERNELS = sorted(EXAMPLES.glob("*/*.cu"))

# What the trials, the load and the build can end with; a verdict alone may be expected too.
REASONS = {
    Verdict.WRONG_ANSWER: {"UNWRITTEN_OUTPUT", "MISMATCH", "NON_FINITE", "WRONG_SHAPE", "WRONG_DTYPE", "INPUT_MODIFIED", "OUT_OF_BOUNDS"},
    Verdict.RUNTIME_ERROR: {"ILLEGAL_ADDRESS", "RAISED"},
    Verdict.COMPILE_ERROR: {"REJECTED", "UNSUPPORTED", "ENTRY_NOT_FOUND"},
}


def expectation(kernel: Path) -> tuple[Verdict, str | None]:
    first_line = kernel.read_text("utf-8").split("\n", 1)[0]
    match = re.fullmatch(r"// expect: ([A-Z_]+)(?: ([A-Z_]+))?", first_line)
    assert match, f"{kernel}: line 1 must be '// expect: VERDICT' or '// expect: VERDICT REASON', not {first_line!r}"
    return Verdict(match[1]), match[2]


def load(name: str) -> Problem:
    return native.load(EXAMPLES / name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_reference_takes_the_inputs_and_fixes_no_dtype(name):
    spec = load(name).spec
    functions = [node for node in ast.parse(spec.reference).body if isinstance(node, ast.FunctionDef)]
    reference = next(function for function in functions if function.name == "reference")
    assert [argument.arg for argument in reference.args.args] == [tensor.name for tensor in spec.inputs]
    assert not re.search(r"dtype|float|half|\.to\(", spec.reference)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_hides_odd_sizes(name):
    """Among the hidden workloads is one of a single column, and one that neither 2 nor 32 divides."""
    workloads = load(name).spec.workloads
    last_axes = [list(workload.axes.values())[-1] for workload in workloads if workload.hidden]
    assert 1 in last_axes
    assert any(size % 2 == 1 and size > 32 for size in last_axes)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("device_kind", ["emulated", "cuda"])
def test_either_device_has_public_and_hidden_sizes_of_its_own(name, device_kind):
    """The emulated device has none that a GPU is needed for, and a GPU at least one that its clock resolves."""
    workloads = problem_for(device_kind, load(name).spec).workloads
    assert any(workload.hidden for workload in workloads) and any(not workload.hidden for workload in workloads)
    assert all(workload.device_kind in ("", device_kind) for workload in workloads)
    assert all(workload.moved_bytes and workload.flops for workload in workloads)
    largest_bytes = max(workload.moved_bytes for workload in workloads)
    assert largest_bytes > 1e8 if device_kind == "cuda" else largest_bytes < 2e7  # an L2 cache has 5e7


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_error_budget_is_kept(name):
    """Half precision inside a float32 task is what the element-wise tolerance alone would let through."""
    spec = load(name).spec
    assert spec.tolerance.budget_factor is not None
    assert all(workload.tolerance is None or workload.tolerance.budget_factor is not None for workload in spec.workloads)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: f"{kernel.parent.name}/{kernel.stem}")
def test_a_kernel_says_its_verdict_and_its_lesson(kernel):
    verdict, reason = expectation(kernel)
    assert reason is None or reason in REASONS.get(verdict, set())
    assert re.fullmatch(r"// [A-Za-z].*\.", kernel.read_text("utf-8").split("\n")[1])


@pytest.mark.parametrize("workload_id", ["n256", "n1021", "n4096"])
@pytest.mark.parametrize(("scale", "offset"), [(2.0, 0.0), (2.0, 0.25), (0.5, 0.25)])
def test_the_matmuls_tolerance_admits_a_sequential_sum_and_refuses_half(workload_id, scale, offset):
    """At every length of sum: the least exact honest order stays under a half of it, half precision's operands are over it."""
    spec = load("tril_matmul").spec
    workload = next(candidate for candidate in spec.workloads if candidate.workload_id == workload_id)
    tolerance, n = workload.tolerance or spec.tolerance, workload.axes["n"]
    values = np.random.default_rng(n)
    a, b = (scale * (values.standard_normal(shape, dtype=np.float32) + np.float32(offset)) for shape in ((16, n), (n, 128)))
    a, b = (torch.from_numpy(array.astype(np.float32)) for array in (a, b))
    in_order = torch.zeros((16, 128))
    for k in range(n):
        in_order += a[:, k : k + 1] * b[k : k + 1]
    reference, exact, written = a @ b, a.double() @ b.double(), torch.zeros((16, 128), dtype=torch.bool)
    half = (a.half().double() @ b.half().double()).float()
    comparison = compare(in_order, reference, exact, written, dataclasses.replace(tolerance, atol=tolerance.atol / 2))
    assert comparison.outcome is wire.TrialOutcome.PASSED and comparison.budget_ratio < 0.5
    refused = compare(half, reference, exact, written, tolerance)
    assert refused.mismatched_count > 0 and refused.budget_ratio > 2
