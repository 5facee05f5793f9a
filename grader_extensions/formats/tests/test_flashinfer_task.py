"""The judge's half of flashinfer: inputs of every kind, and each of the two rules, where they differ too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader_extensions.formats import flashinfer
from grader_extensions.formats.tests.tasks import KEY, MISMATCHED, OTHER_KEY, PASSED, outcomes
from grader_extensions.formats.tests.test_flashinfer import DEFINITION, FIXTURES, WORKLOAD, changed, safetensors, stored, write
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from grader_extensions.formats.flashinfer_reference import Rule
    from sandbox.judge.references import ReferenceFailed, Task, load_task
    from tests.unit.test_lane import judged


PROBLEMS = (FIXTURES / "scaled_rows", FIXTURES / "gather_blocks", *flashinfer.members(FIXTURES / "trace"))


def task_of(path: Path) -> Task:
    return load_task(flashinfer.load(path).spec, "cpu")


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: path.stem)
def test_the_right_answer_passes_and_a_wrong_one_does_not(path):
    task = task_of(path)
    for index in range(len(task.spec.workloads)):
        assert set(outcomes(task, workload=index)) == {PASSED}
        assert MISMATCHED in outcomes(task, lambda outputs: [tensor * 1.5 for tensor in outputs], workload=index)


@pytest.mark.parametrize("path", PROBLEMS, ids=lambda path: path.stem)
def test_the_same_key_gives_the_same_inputs_and_another_gives_others(path):
    task = task_of(path)
    first, again, different = (task.draw(task.spec.workloads[0], key) for key in (KEY, KEY, OTHER_KEY))
    assert all(torch.equal(tensor, repeat) for tensor, repeat in zip(first, again, strict=True))
    assert not all(torch.equal(tensor, redrawn) for tensor, redrawn in zip(first, different, strict=True))
    assert [tensor.dim() for tensor in first] == [len(of.shape) for of in task.spec.inputs]


def rule(kind: str, **changes: object) -> Rule:
    return Rule(**{"kind": kind, "atol": 1e-2, "rtol": 1e-2, "ratio": 1.0, "cap": None, "negative_inf": False, **changes})


def outcome_of(of: Rule, output: list[float], reference: list[float], unwritten: tuple[int, ...] = (), dtype=None) -> wire.TrialOutcome:
    dtype = dtype or torch.float32
    mask = torch.tensor([index in unwritten for index in range(len(output))])
    return of.compare(torch.tensor(output, dtype=dtype), torch.tensor(reference, dtype=dtype), mask).outcome


@pytest.mark.parametrize(
    ("output", "reference", "by_flashinfer", "by_sol"),
    [
        (100.9, 100.0, PASSED, PASSED),  # absolutely off, relatively not
        (100.0 + 1.005, 100.0, MISMATCHED, PASSED),  # relatively 1.005 %: within the sum of both
        (0.5, 0.4999, PASSED, PASSED),
        (0.009, 0.0, PASSED, PASSED),
        (0.011, 0.0, MISMATCHED, MISMATCHED),
        (102.0, 100.0, MISMATCHED, MISMATCHED),
    ],
)
def test_the_two_rules_forgive_differently(output, reference, by_flashinfer, by_sol):
    """A first element is off, atol = rtol = 1e-2; a second one is right."""
    assert outcome_of(rule("flashinfer"), [output, 1.0], [reference, 1.0]) is by_flashinfer
    assert outcome_of(rule("sol"), [output, 1.0], [reference, 1.0]) is by_sol


def test_absolutely_off_but_relatively_not_passes_by_flashinfer_and_fails_by_sol():
    """By SOL's cap: without one the sum of its two shares forgives all that FlashInfer's rule does."""
    assert outcome_of(rule("flashinfer"), [100.9], [100.0]) is PASSED
    assert outcome_of(rule("sol", cap=0.5), [100.9], [100.0]) is MISMATCHED
    for error in torch.linspace(0, 3, 301).tolist():
        if outcome_of(rule("flashinfer"), [100.0 + error], [100.0]) is PASSED:
            assert outcome_of(rule("sol"), [100.0 + error], [100.0]) is PASSED


def test_the_matched_ratio_forgives_so_many_and_no_more():
    """At 0.99 a single element of a hundred may be wrong, and not two; an unwritten one is never forgiven."""
    reference = [1.0] * 100
    for kind in ("flashinfer", "sol"):
        of = rule(kind, ratio=0.99)
        assert outcome_of(of, [*reference[:99], 2.0], reference) is PASSED
        assert outcome_of(of, [*reference[:98], 2.0, 2.0], reference) is MISMATCHED
        assert outcome_of(of, reference, reference, unwritten=(3,)) is wire.TrialOutcome.UNWRITTEN
        assert outcome_of(rule(kind), [*reference[:99], 2.0], reference) is MISMATCHED


def test_a_cap_holds_whatever_the_ratio():
    reference = [1.0] * 100
    assert outcome_of(rule("sol", ratio=0.99, cap=0.5), [*reference[:99], 2.0], reference) is MISMATCHED
    assert outcome_of(rule("sol", ratio=0.99, cap=1.5), [*reference[:99], 2.0], reference) is PASSED


def test_nothing_that_is_not_finite_is_right_but_minus_infinity_where_it_is_allowed():
    """And where the reference has it; where it is not allowed the reference is at fault, not the kernel."""
    minus = float("-inf")
    for kind in ("flashinfer", "sol"):
        assert outcome_of(rule(kind, ratio=0.5), [1.0, 1.0, float("nan")], [1.0, 1.0, 1.0]) is wire.TrialOutcome.NON_FINITE
        with pytest.raises(ReferenceFailed, match="not finite"):
            outcome_of(rule(kind), [1.0, minus], [1.0, minus])
    allowed = rule("sol", negative_inf=True)
    assert outcome_of(allowed, [1.0, minus], [1.0, minus]) is PASSED
    assert outcome_of(allowed, [minus, minus], [1.0, minus]) is wire.TrialOutcome.NON_FINITE
    assert outcome_of(allowed, [1.0, 5.0], [1.0, minus]) is MISMATCHED
    with pytest.raises(ReferenceFailed, match="not finite"):
        outcome_of(allowed, [1.0, 1.0], [1.0, float("inf")])


def test_zeros_are_wrong_by_sol_even_where_they_are_near():
    """A kernel that did nothing; by FlashInfer's rule they pass, as theirs does."""
    small = [1e-4] * 10
    assert outcome_of(rule("sol"), [0.0] * 10, small) is MISMATCHED and outcome_of(rule("flashinfer"), [0.0] * 10, small) is PASSED
    assert outcome_of(rule("sol"), [0.0] * 10, [0.0] * 10) is PASSED


def test_integers_are_compared_and_the_sentinel_may_be_right():
    assert outcome_of(rule("flashinfer"), [3, 7], [3, 7], unwritten=(1,), dtype=torch.int32) is PASSED
    assert outcome_of(rule("flashinfer"), [3, 8], [3, 7], unwritten=(1,), dtype=torch.int32) is wire.TrialOutcome.UNWRITTEN


def test_a_reference_that_changes_its_input_does_not_change_the_judges():
    """The reference gets copies of what it writes to; a kernel may write there too."""
    task = task_of(FIXTURES / "trace" / "definitions" / "moe" / "pick_expert_e4.json")
    inputs = task.draw(task.spec.workloads[0], KEY)
    before = [tensor.clone() for tensor in inputs]
    first, second = task.reference(inputs), task.reference(inputs)
    assert all(torch.equal(tensor, old) for tensor, old in zip(inputs, before, strict=True)) and torch.equal(first[0], second[0])
    assert task.scratch == (0,)


def task_of_inputs(place: Path, dtypes: dict[str, str], size: int, answer: str) -> Task:
    """A task with inputs of one axis."""
    inputs = {name: {"shape": ["n"], "dtype": dtype} for name, dtype in dtypes.items()}
    outputs, reference = {"y": {"shape": ["n"], "dtype": "float32"}}, f"def run({', '.join(dtypes)}):\n    return {answer}\n"
    definition = {"name": "made", "axes": {"n": {"type": "var"}}, "inputs": inputs, "outputs": outputs, "reference": reference}
    return task_of(write(place / "p", definition, {"uuid": "u", "axes": {"n": size}, "inputs": {}}))


def test_random_inputs_are_as_theirs(tmp_path):
    """Normal floats; bytes of every value, longer integers below 1024; booleans of both kinds."""
    dtypes = {"a": "float32", "b": "float8_e4m3fn", "c": "int8", "d": "int64", "e": "bool"}
    task = task_of_inputs(tmp_path, dtypes, 20_000, "a + b.float()")
    normal, small, byte, long, boolean = task.draw(task.spec.workloads[0], KEY)
    assert abs(float(normal.mean())) < 0.05 and abs(float(normal.std()) - 1) < 0.05 and float(small.float().abs().max()) == 2
    assert (int(byte.min()), int(byte.max())) == (-128, 127)
    assert -1024 <= int(long.min()) < -1000 and 1000 < int(long.max()) < 1024 and 0 < int(boolean.sum()) < 20_000


def test_inputs_whose_names_say_what_they_are_keep_the_reference_finite(tmp_path):
    """A variance is positive and a norm's weight near one, but never all ones."""
    dtypes = dict.fromkeys(("x", "running_var", "norm_weight"), "float32")
    task = task_of_inputs(tmp_path, dtypes, 500, "x / running_var.sqrt() * norm_weight")
    _, variance, weight = task.draw(task.spec.workloads[0], KEY)
    assert float(variance.min()) > 0 and 0.02 < float(weight.std()) < 0.5 and outcomes(task) == [PASSED]


def test_an_input_of_a_file_is_what_the_file_has(tmp_path):
    directory = stored(tmp_path / "p")
    values = torch.arange(320, dtype=torch.float32).view(5, 64)
    path = directory / "data.safetensors"
    safetensors(path, content=values.numpy().tobytes())
    task = task_of(directory)
    assert torch.equal(task.draw(task.spec.workloads[0], KEY)[0], values)
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ReferenceFailed, match="has changed since the problem was read"):
        task.draw(task.spec.workloads[0], KEY)


CUSTOM = json.loads((FIXTURES / "gather_blocks" / "definition.json").read_text())
CUSTOM_WORKLOAD = json.loads((FIXTURES / "gather_blocks" / "workload.jsonl").read_text().splitlines()[0])


@pytest.mark.parametrize(
    ("old", "replacement", "message"),
    [
        ("return {'rows'", "return {'other'", "run returned no 'rows'"),
        ("'index': torch", "'indices': torch", "make_inputs made a NoneType of 'index'"),
        ("(tokens,)", "(tokens, 1)", "make_inputs made torch.int64 [7, 1] of 'index'"),
        ("dtype=torch.bfloat16", "dtype=torch.float16", "of 'pool'; the definition says torch.bfloat16"),
        ("return {\n", "return 3\n    {\n", "make_inputs returned a int"),
        ("tokens, pages =", "raise KeyError('no')\n    tokens, pages =", "make_inputs raised KeyError"),
        ("float('-inf'))", "float('-inf')).float()", "run returned torch.float32"),
        ("import torch", "import torch, nowhere", "No module named 'nowhere'"),
        ("torch.randn(pages,", "torch.randn(10**12,", "make_inputs raised RuntimeError"),
    ],
)
def test_code_that_does_not_fit_its_definition_is_the_problems_fault(tmp_path, old, replacement, message):
    assert old in CUSTOM["reference"]
    directory = write(tmp_path / "p", {**CUSTOM, "reference": CUSTOM["reference"].replace(old, replacement)}, CUSTOM_WORKLOAD)
    with pytest.raises(ReferenceFailed) as caught:
        task_of(directory)
    assert message in str(caught.value) and "gather_blocks" in str(caught.value)


def test_a_kernel_is_graded_by_the_rule(tmp_path):
    spec = flashinfer.load(
        write(
            tmp_path / "p",
            changed(DEFINITION, "inputs", "scale", "shape", value=["half"]),
            changed(WORKLOAD, "inputs", "scale", value={"type": "random"}),
        )
    ).spec

    def off_by(share):
        def kernel(inputs, outputs):
            sums = inputs[0][:, :32] + inputs[0][:, 32:]
            outputs[0].copy_(sums * inputs[1] * (1 + share))
            outputs[1].copy_(sums.flatten())

        return kernel

    for share, expected in ((0.0, PASSED), (1e-4, PASSED), (0.1, MISMATCHED)):
        place = tmp_path / str(share)
        place.mkdir()
        trials = [fact for fact in judged(place, off_by(share), problem=spec) if isinstance(fact, wire.Trial)]
        assert trials[-1].outcome is expected
