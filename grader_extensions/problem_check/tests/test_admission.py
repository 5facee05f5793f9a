"""A problem that a cheat could pass is not admitted; with other inputs or a tighter tolerance it is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.formats import native
from grader_extensions.formats import kernelbench
from grader_extensions.formats.adjustments import UNCHANGED, Adjustments
from grader_extensions.problem_check.admission import CHECK_NAME, Admission, AdmissionOutcome, is_sane
from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from grader_extensions.formats.kernelbench_reference import describe
    from grader_extensions.formats.tests import test_strides
    from grader_extensions.formats.tests.tasks import NONE, model, spec_of
    from grader_extensions.formats.tests.test_constant_weights import INPUT, KEEP, NORM_FILE, spec_of_number
    from grader_extensions.problem_check.judge import case
    from grader_extensions.problem_check.judge.case import AdmissionCase
    from grader_extensions.problem_check.judge.check import admit
    from grader_extensions.problem_check.judge.examination import examine, working_bytes
    from sandbox.judge.references import Task
    from sandbox.judge.tolerance import Comparison
    from tests.unit import test_few_elements


EXAMPLES = Path(__file__).parents[3] / "kernels_examples"
PASSED, FAILED = wire.FindingOutcome.PASSED, wire.FindingOutcome.FAILED
WARNING, UNKNOWN = wire.FindingOutcome.WARNING, wire.FindingOutcome.UNKNOWN
SMALL_BYTES = 50_000_000

X = wire.TensorSpec(name="x", dtype="float32", shape=("rows", "cols"))
Y = wire.TensorSpec(name="y", dtype="float32", shape=("rows", "cols"))
ROW = wire.TensorSpec(name="m", dtype="float32", shape=("rows",))
TIGHT = wire.Tolerance(atol=1e-7, rtol=1e-5, budget_floor=1e-7)
LOOSE = wire.Tolerance(atol=1e-2, rtol=1e-2, budget_factor=None)


@pytest.fixture(autouse=True)
def _few_threads() -> Iterator[None]:
    """As in the process that checks: threads that wait for a busy core take longer than one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def problem(reference: str, *inputs: wire.TensorSpec, output: wire.TensorSpec = Y, rows: int = 4, cols: int = 64, **fields: object):
    """A native problem of one workload; x is its input where none is named."""
    spec = wire.ProblemSpec(
        problem_id="p",
        format="native",
        entry="solve",
        inputs=inputs or (X,),
        outputs=(output,),
        workloads=(wire.Workload(workload_id="only", axes={"rows": rows, "cols": cols}),),
        tolerance=TIGHT,
        reference=f"import torch\n\n\ndef reference({', '.join(tensor.name for tensor in inputs or (X,))}):\n    {reference}\n",
        axes=("rows", "cols"),
    )
    return dataclasses.replace(spec, **fields)  # type: ignore[arg-type]


def drawn(tensor: wire.TensorSpec, **fields: object) -> wire.TensorSpec:
    """The tensor with another distribution."""
    return dataclasses.replace(tensor, distribution=wire.Distribution(**fields))  # type: ignore[arg-type]


def findings_of(spec: wire.ProblemSpec, budget_s: float = 600.0) -> list[wire.Finding]:
    return list(admit(spec, EmulatedDevice(), budget_s))


def refusals(findings: list[wire.Finding]) -> dict[str, str]:
    """Return the failed checks, with what is said of each."""
    return {finding.check: finding.message for finding in findings if finding.outcome is FAILED}


def outcome(findings: list[wire.Finding], check: str) -> list[wire.FindingOutcome]:
    return [finding.outcome for finding in findings if finding.check == check]


def assert_admitted(spec: wire.ProblemSpec) -> None:
    findings = findings_of(spec)
    assert refusals(findings) == {} and PASSED in {finding.outcome for finding in findings}


# As the remedy says: all but one in ten are just under the largest, or just over the smallest.
CROWDED, CROWDED_LOW = (
    drawn(X, kind="mixture", parts=(wire.Distribution(kind="uniform", low=low, high=low + 1, weight=9.0), wire.Distribution(**few)))  # type: ignore[arg-type]
    for low, few in ((50.0, {"kind": "uniform"}), (0.0, {"kind": "uniform", "low": 50.0, "high": 51.0}))
)
UNEVEN = drawn(X, scale=64.0, scale_spread=0.0, needles=0)


# -- three of the four that were published, and what mends each: the other one is in test_command.py -----------------

SOFTMAX = "return torch.softmax(x, -1)"


def test_a_softmax_whose_values_are_all_under_the_tolerance_is_refused() -> None:
    """Zeros would be right, and what belongs to other inputs. With larger values and a tolerance to match it is admitted."""
    reasons = refusals(findings_of(problem(SOFTMAX, drawn(X, kind="uniform"), rows=2, cols=16000, tolerance=LOOSE)))
    assert {"zeros", "constant mean", "seed", "input x", "one element", "half precision", "every second of x"} <= set(reasons)
    assert "a kernel that writes zeros would be accepted; lower atol and rtol" in reasons["zeros"]
    assert_admitted(problem(SOFTMAX, UNEVEN, rows=2, cols=16000, tolerance=wire.Tolerance(atol=1e-37, rtol=1e-3, budget_floor=1e-7)))


def test_a_reference_that_ignores_an_input_is_refused() -> None:
    b = dataclasses.replace(X, name="b")
    reasons = refusals(findings_of(problem("return 2 * x", X, b)))
    assert set(reasons) == {"input b"} and "a kernel that ignores 'b'" in reasons["input b"]
    assert_admitted(problem("return 2 * x + b", X, b))


def test_a_reference_with_nan_is_refused() -> None:
    """A logarithm of what may be negative; of positive numbers it is admitted."""
    reasons = refusals(findings_of(problem("return torch.log(x)")))
    assert "NaN or infinite; narrow the inputs" in reasons["finite"]
    assert_admitted(problem("return torch.log(x)", drawn(X, kind="uniform", low=2.0, high=9.0)))


# -- each mutant is told from the right answer, and each control --------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "reference", "tensor", "mended"),
    [
        ("ones", "return torch.sigmoid(x)", drawn(X, kind="uniform", low=5.0, high=9.0), drawn(X)),
        ("copy of x", "return torch.nn.functional.gelu(x)", drawn(X, kind="uniform", low=5.0, high=9.0), drawn(X)),
        (
            "every second of x",
            "return x.mean(-1, keepdim=True) + 0 * x",
            drawn(X, kind="uniform", low=1.0, high=1.01),
            drawn(X, needles=16),
        ),
        ("half precision", "return x * 2", drawn(X), drawn(X)),
        ("one element", "return x / 100", drawn(X, needles=0, scale=0.3), drawn(X, scale=1000.0)),
    ],
)
def test_a_mutant_that_the_tolerance_lets_through_refuses_the_problem(check, reference, tensor, mended) -> None:
    """The same reference with other inputs and a tight tolerance rejects it."""
    loose, tight = findings_of(problem(reference, tensor, tolerance=LOOSE)), findings_of(problem(reference, mended))
    assert outcome(loose, check) == [FAILED]
    assert outcome(tight, check) == [PASSED]


@pytest.mark.parametrize(
    ("reference", "usual", "crowded"),
    [
        ("return torch.softmax(x, -1)", drawn(X, kind="uniform", low=-100.0, high=100.0), CROWDED),
        ("return torch.log_softmax(x, -1)", drawn(X, kind="uniform", low=-100.0, high=100.0), CROWDED),
        ("return torch.topk(x, 8).values.sum(-1)", X, CROWDED),
        ("return torch.topk(x, 8, dim=0).values.sum(0)", X, CROWDED),
        ("return torch.topk(x, 8, largest=False).values.sum(-1)", X, CROWDED_LOW),
        ("return x.max(-1).values", X, CROWDED),
        ("return x.amin(-1)", X, CROWDED_LOW),
        ("return x.argmax(-1).to(x.dtype)", X, CROWDED),
    ],
)
def test_what_is_found_in_the_tail_of_normal_values_only_is_refused(reference, usual, crowded) -> None:
    """A kernel that looks there only is right on the usual inputs; the control is a workload whose values crowd elsewhere."""
    output = Y if "softmax" in reference else dataclasses.replace(ROW, shape=("cols",)) if "dim=0" in reference else ROW
    loose = wire.Tolerance(atol=1e-5, rtol=1e-3, budget_factor=64.0)
    rows = 64 if "dim=0" in reference else 4
    spread, mended = (findings_of(problem(reference, tensor, output=output, rows=rows, tolerance=loose)) for tensor in (usual, crowded))
    assert outcome(spread, "normal tail")[-1] == FAILED
    assert outcome(mended, "normal tail") == [PASSED]


def test_a_transposed_answer_is_seen_where_there_is_one() -> None:
    """A product with its own transpose is symmetric but for rounding: nothing to be seen, and nothing to be held against it."""
    square = {"rows": 64, "cols": 64}
    assert outcome(findings_of(problem("return x @ x", **square)), "transposed") == [PASSED]
    wide = wire.Tolerance(atol=1e-3, rtol=1e-3)
    assert outcome(findings_of(problem("return (x @ x.T).double().to(x.dtype)", tolerance=wide, **square)), "transposed") == [UNKNOWN]
    assert outcome(findings_of(problem("return x + 1")), "transposed") == []


def test_whole_numbers_are_examined_as_well() -> None:
    """Class labels in, a table's rows out; and an argmax, whose answer is whole."""
    labels = wire.TensorSpec(name="t", dtype="int64", shape=("rows",), distribution=wire.Distribution(kind="index", high_axis="cols"))
    assert_admitted(problem("return torch.nn.functional.cross_entropy(x, t, reduction='none')", UNEVEN, labels, output=ROW, rows=32))
    best = wire.TensorSpec(name="i", dtype="int64", shape=("rows",))
    assert_admitted(problem("return x.argmax(-1)", CROWDED, output=best, rows=32))


def test_a_tolerance_that_no_kernel_keeps_is_refused() -> None:
    """The answer in double, rounded, is as right as can be."""
    exact = wire.Tolerance(atol=0.0, rtol=0.0, budget_factor=1e-3, budget_floor=0.0)
    long = problem("return x.cumsum(-1)", cols=4096, tolerance=exact)
    assert "reference" in refusals(findings_of(long))
    assert_admitted(problem("return x.cumsum(-1)", cols=4096))


def test_a_reference_that_answers_twice_in_two_ways_is_refused() -> None:
    """Randomness of its own, which no kernel can match."""
    reasons = refusals(findings_of(problem("return torch.nn.functional.dropout(x)")))
    assert "take randomness and state out of it" in reasons["repeatable"]


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("raise KeyError('nothing')", "raised KeyError: 'nothing'; fix the reference"),
        ("return x[0]", "the problem declares torch.float32 (4, 64)"),
        ("return x.double()", "the problem declares torch.float32"),
        ("return x, x", "returned 2 outputs"),
        ("return 3", "is a int; the problem declares torch.float32"),
        ("return torch.matmul(x, torch.ones(64, 64))", "with inputs in float64, for the error budget"),
        ("import nowhere", "nowhere"),
    ],
)
def test_a_reference_that_does_not_run_is_refused(reference: str, reason: str) -> None:
    assert reason in refusals(findings_of(problem(reference)))["runs"]


def test_the_same_problem_is_found_the_same_again() -> None:
    """No luck from run to run; another problem has other draws."""
    spec = problem("return x + 1e-3 * torch.tanh(x)", tolerance=wire.Tolerance(atol=2e-3, rtol=0.0, budget_factor=None))
    assert findings_of(spec) == findings_of(spec)
    tasks = [Task(spec=spec_of_task, reference=lambda value: value) for spec_of_task in (spec, dataclasses.replace(spec, digest="another"))]
    keys = {AdmissionCase.draw(task, spec.workloads[0], index, EmulatedDevice()).key for task in tasks for index in range(2)}
    assert len(keys) == 4


# -- what is not checked is said --------------------------------------------------------------------------------------------


def test_an_absurd_size_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """10 ** 12 elements end in a sentence, before any is drawn; beside a workload that fits they are only left out."""
    huge = wire.Workload(workload_id="huge", axes={"rows": 10**6, "cols": 10**6})
    spec = problem("return x * 2")
    drawn: list[str] = []
    usual = case.of_workload

    def of_workload(spec: wire.ProblemSpec, workload: wire.Workload, *rest: Any) -> list[torch.Tensor]:
        drawn.append(workload.workload_id)
        return usual(spec, workload, *rest)

    monkeypatch.setattr(case, "of_workload", of_workload)
    findings = findings_of(dataclasses.replace(spec, workloads=(huge,)))
    assert drawn == [] and findings_of(spec) != [] and "only" in drawn
    assert outcome(findings, "fits") == [UNKNOWN, UNKNOWN] and "no workload could be checked" in findings[-1].message
    assert "of the " in findings[0].message and "GB that are free" in findings[0].message
    assert_admitted(dataclasses.replace(spec, workloads=(huge, *spec.workloads)))


def test_a_reference_that_takes_all_memory_on_the_way_is_not_tried_further() -> None:
    findings = findings_of(problem("return x * torch.empty(10 ** 13, dtype=torch.uint8).sum()"))
    assert outcome(findings, "fits") == [UNKNOWN, UNKNOWN] and "not enough memory" in findings[0].message


def test_no_time_is_no_admission() -> None:
    """A workload that was not checked says nothing for a problem, and nothing against it."""
    findings = findings_of(problem("return x * 2"), budget_s=0.0)
    assert [(finding.check, finding.outcome) for finding in findings[-2:]] == [("time", UNKNOWN), ("fits", UNKNOWN)]
    assert Admission(problem_id="p", digest="d", findings=tuple(findings)).outcome is AdmissionOutcome.UNCHECKED


def test_a_check_stops_between_two_wrong_answers_when_its_time_is_over() -> None:
    """The findings up to then are reported, and how far it came; the clock is one that a reference moves."""
    calls = 0

    def reference(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        nonlocal calls
        calls += 1
        return [inputs[0] * 3]

    task = Task(spec=problem(""), reference=reference)
    whole = list(examine(task, EmulatedDevice(), 100.0, clock=lambda: 0.0))
    calls = 0
    # The first draw and the controls make three calls and take no time, so that the guess is that there is enough of it.
    cut = list(examine(task, EmulatedDevice(), 100.0, clock=lambda: 0.0 if calls < 6 else 101.0))
    (stopped,) = [finding for finding in cut if finding.check == "time"]
    assert "not checked to the end: the time is over" in stopped.message and stopped.outcome is UNKNOWN
    assert [finding.check for finding in cut[: cut.index(stopped)]] == [finding.check for finding in whole][: cut.index(stopped)] != []


def test_what_holds_at_one_size_only_is_not_held_against_the_problem() -> None:
    """A softmax of one column is one, whatever goes in; at the other size it is not."""
    spec = problem(SOFTMAX, UNEVEN, tolerance=wire.Tolerance(atol=1e-37, rtol=1e-3, budget_floor=1e-7))
    narrow = wire.Workload(workload_id="one", axes={"rows": 7, "cols": 1})
    assert set(refusals(findings_of(dataclasses.replace(spec, workloads=(narrow,))))) == {"seed", "input x"}
    both = findings_of(dataclasses.replace(spec, workloads=(*spec.workloads, narrow)))
    assert refusals(both) == {} and outcome(both, "seed") == [UNKNOWN, PASSED]


def test_an_empty_workload_says_nothing() -> None:
    spec = problem("return x * 2")
    empty = wire.Workload(workload_id="empty", axes={"rows": 0, "cols": 64})
    findings = findings_of(dataclasses.replace(spec, workloads=(empty, *spec.workloads)))
    assert refusals(findings) == {} and {
        finding.outcome for finding in findings if finding.workload_id == "empty" and finding.check == "zeros"
    } == {UNKNOWN}


def test_a_constant_of_the_problem_need_not_change() -> None:
    """An epsilon that is always the same can't be another."""
    eps = wire.TensorSpec(name="eps", dtype="float32", shape=(), distribution=wire.Distribution(kind="constant", high=0.5))
    findings = findings_of(problem("return x + eps", X, eps))
    assert refusals(findings) == {} and outcome(findings, "input eps") == []


def test_an_input_that_is_only_written_to_may_hold_anything() -> None:
    """A buffer for the answer is no input that a kernel ignores; the control says nothing of it."""
    spec = problem("", X, dataclasses.replace(X, name="out"))
    task = Task(spec=spec, reference=lambda inputs: [inputs[1].copy_(inputs[0] * 2)], scratch=(1,))
    assert refusals(list(examine(task, EmulatedDevice(), 600.0))) == {}
    assert set(refusals(list(examine(dataclasses.replace(task, scratch=()), EmulatedDevice(), 600.0)))) == {"input out"}


# -- formats with a rule of their own ----------------------------------------------------------------------------------------


def _lenient(share: float):
    """A rule by which a share of the elements has to be right to a hundredth."""

    def compare(workload, inputs, outputs, expected, unwritten) -> list[Comparison]:
        outputs[0][outputs[0] != outputs[0]] = 1e9  # it may do with them what it wants
        inputs[0].zero_()
        right = (outputs[0] - expected[0]).abs() <= 1e-4
        enough = float(right.double().mean()) >= share
        return [
            Comparison(
                element_count=1,
                mismatched_count=not enough,
                unwritten_count=0,
                nonfinite_count=0,
                max_absolute_error=0.0,
                max_relative_error=0.0,
            )
        ]

    return compare


def own_task(share: float) -> Task:
    spec = problem("", rows=64)
    return Task(spec=spec, reference=lambda inputs: [inputs[0] * 3], draw=lambda workload, key: [_draw(key)], compare=_lenient(share))


def _draw(key: str) -> torch.Tensor:
    return torch.randn((64, 64), generator=torch.Generator().manual_seed(int(key[:8], 16)))


def test_a_format_s_own_rule_decides() -> None:
    """Where it takes everything the problem is refused; single elements it may let through."""
    every, nearly_every, none = (list(examine(own_task(share), EmulatedDevice(), 600.0)) for share in (1.0, 0.99, 0.0))
    assert refusals(every) == {} and outcome(every, "one element") == [PASSED]
    assert refusals(nearly_every) == {} and outcome(nearly_every, "one element") == [WARNING]
    assert {"zeros", "seed", "nan", "input x"} <= set(refusals(none))


# -- a part that may be left out ----------------------------------------------------------------------------------------------

POSITIVE = wire.Distribution(kind="uniform")
TWO_SIZES = tuple(wire.Workload(workload_id=f"{rows}x{cols}", axes={"rows": rows, "cols": cols}) for rows, cols in ((4, 64), (3, 33)))


def failed(reference: str, *inputs: wire.TensorSpec) -> set[str]:
    """The checks that fail at two sizes."""
    return set(refusals(findings_of(problem(f"return {reference}", *inputs, workloads=TWO_SIZES))))


@pytest.mark.parametrize(
    ("reference", "distribution", "checks"),
    [
        ("2 * torch.relu(x)", POSITIVE, {"idle relu"}),
        ("2 * torch.relu_(x.clone())", POSITIVE, {"idle relu"}),
        ("2 * torch.relu(torch.relu(x))", wire.Distribution(), {"idle relu 2"}),
        ("2 * x.abs()", POSITIVE, {"idle abs"}),
        ("x.sort(-1).values", wire.Distribution(kind="sorted"), {"idle sort"}),
        ("2 * (x @ torch.eye(x.shape[-1], dtype=x.dtype))", wire.Distribution(), {"idle mm"}),
        ("2 * (x + torch.zeros_like(x))", wire.Distribution(), {"idle add"}),
        # Controls: values of either sign need the rectifier; an epsilon and a clamp are there for what hardly ever comes.
        *(
            (reference, X.distribution, set())
            for reference in (
                "2 * torch.relu(x)",
                "x.sort(-1).values",
                "x / (x.norm() + 1e-12)",
                "torch.nn.functional.normalize(x)",
                "2 * x.clamp(-1e9, 1e9)",
                "x * 1.5",
            )
        ),
    ],
)
def test_an_operation_that_does_nothing_is_a_refusal(reference: str, distribution: wire.Distribution, checks: set[str]) -> None:
    """A kernel without it would be right at every trial."""
    assert failed(reference, dataclasses.replace(X, distribution=distribution)) == checks


def test_a_weight_that_is_always_the_same_is_a_refusal() -> None:
    """A layer's parameters as they are before training; drawn, they are inputs like others."""
    assert "input y" in failed("2 * x * y", X, drawn(Y, kind="constant", high=1.0))
    assert failed("2 * x * y", X, Y) == set()


# -- published problems, which are refused only where an answer needs no input or the reference fails --------------------------

MODEL = """import torch

class Model(torch.nn.Module):
    def forward(self, {parameters}):
        return {answer}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
NORMAL, TRIANGLE = "torch.randn(32, 32)", "torch.randn(32, 32).tril()"


def checked(
    directory: Path, answer: str, *inputs: str, adjustments: Adjustments = UNCHANGED
) -> tuple[AdmissionOutcome, dict[str, set[str]]]:
    """Return the outcome of checking such a file, and the checks that ended with each outcome."""
    path = directory / "1_x.py"
    parameters = ", ".join("xyz"[: len(inputs)])
    path.write_text(MODEL.format(parameters=parameters, answer=answer, inputs=", ".join(inputs)))
    problem = kernelbench.load(path, adjustments=adjustments)
    reported = [fact for fact in admit(problem.spec, EmulatedDevice(), 600.0) if isinstance(fact, wire.Finding)]
    outcome = Admission(problem_id="p", digest="d", findings=tuple(reported)).outcome
    return outcome, {kind.value: {finding.check for finding in reported if finding.outcome is kind} for kind in wire.FindingOutcome}


@pytest.mark.parametrize(
    ("answer", "inputs", "warning", "failed"),
    [
        ("x @ y", (NORMAL, NORMAL), "", set()),  # the control
        ("(x @ y).tril()", (TRIANGLE, TRIANGLE), "idle tril", set()),
        ("torch.relu(x) * 2", ("torch.rand(32, 32)",), "idle relu", set()),
        ("x.abs().mean().reshape(1)", ("torch.randn(64, 1024)",), "half precision", set()),
        ("x * y", (NORMAL, "torch.ones(32, 32)"), "idle mul", set()),
        ("torch.softmax(x, 1).sum(1)", (NORMAL,), "", {"input x", "seed", "ones", "constant mean"}),
        ("torch.zeros_like(x)", (NORMAL,), "", {"input x", "seed"}),
        ("x * 2 + 1e-9 * y", (NORMAL, NORMAL), "", {"input y"}),
        ("x.log()", (NORMAL,), "", {"finite"}),
        ("x[0, 0, 0]", (NORMAL,), "", {"runs"}),
    ],
)
def test_what_could_pass_is_a_warning_unless_it_needs_no_input(tmp_path: Path, answer, inputs, warning: str, failed: set[str]) -> None:
    """Or the reference fails."""
    outcome, checks = checked(tmp_path, answer, *inputs)
    expected = AdmissionOutcome.REFUSED if failed else AdmissionOutcome.WARNED if warning else AdmissionOutcome.ADMITTED
    assert outcome is expected and checks["failed"] == failed
    assert warning in checks["warning"] if warning else failed or not checks["warning"]


def test_lower_precision_that_is_allowed_is_not_asked_to_be_rejected(tmp_path: Path) -> None:
    """The finding is reported, and no warning; at the same tolerance without that it is one. Zeros are rejected by both."""
    for allowed, kind in ((True, "unknown"), (False, "warning")):
        rule = Adjustments(tolerance=1e-2, allow_lower_precision=allowed)
        outcome, checks = checked(tmp_path, "x @ y", NORMAL, NORMAL, adjustments=rule)
        assert "half precision" in checks[kind] and "zeros" in checks["passed"] and not checks["failed"]
        assert outcome is (AdmissionOutcome.ADMITTED if allowed else AdmissionOutcome.WARNED)


# -- weights and arguments of KernelBench files ---------------------------------------------------------------------------------


def model_problem(directory: Path, init: str, answer: str) -> wire.ProblemSpec:
    return spec_of(directory, model(f"return {answer}", init), INPUT, NONE)


def verdicts(spec: wire.ProblemSpec) -> dict[str, str]:
    """The outcomes of the checks of weights; of a check that has several, the last."""
    results = [fact for fact in admit(spec, EmulatedDevice(), 600.0) if isinstance(fact, wire.Finding)]
    assert all(CHECK_NAME.fullmatch(finding.check) for finding in results)  # or the host takes none of them
    return {finding.check: finding.outcome.value for finding in results if finding.check.startswith("weight")}


def test_admission_tries_kernels_that_ignore_a_weight(tmp_path: Path) -> None:
    """Rejected where it is drawn; a warning where it is kept, is a constant buffer, or hardly counts. What no answer depends on, such as
    running statistics in training, is not spoken of."""
    assert verdicts(kernelbench.load(NORM_FILE).spec) == {"weight ln_weight": "passed", "weight ln_bias": "passed"}
    assert verdicts(kernelbench.load(NORM_FILE, adjustments=KEEP).spec) == {
        "weight ln_weight": "warning",
        "weight ln_bias": "warning",
    }
    training = "self.bn = nn.BatchNorm1d(12)"
    assert verdicts(model_problem(tmp_path, training, "self.bn(x)")) == {"weight bn_weight": "passed", "weight bn_bias": "passed"}
    evaluated = f"{training}.eval()"
    assert set(verdicts(model_problem(tmp_path, evaluated, "self.bn(x)"))) >= {"weight bn_running_mean", "weight bn_running_var"}
    assert verdicts(model_problem(tmp_path, 'self.register_buffer("b", torch.ones(12))', "x * self.b")) == {"weight b": "warning"}
    faint = "self.p = nn.Parameter(torch.zeros(12))"
    assert verdicts(model_problem(tmp_path, faint, "x + 1e-6 * self.p")) == {"weight p": "warning"}
    odd = 'self.of = nn.ParameterDict({"a b\u00e9" * 40: torch.ones(12)})'
    assert list(verdicts(model_problem(tmp_path, odd, "x * next(self.parameters())")).values()) == ["passed"]
    assert verdicts(model_problem(tmp_path, 'self.register_buffer("half", torch.tensor(0.5))', "x * self.half")) == {}
    assert verdicts(spec_of_number(tmp_path, "7")) == {"weight a": "warning", "weight b": "passed"}


def test_arguments_are_learned_where_there_is_no_memory_to_judge(tmp_path: Path) -> None:
    """The check says that it is too large for this machine, which refuses nothing, and what an entry would be given."""
    spec = spec_of(tmp_path, model(), "def get_inputs():\n    return [torch.rand(10 ** 6, 10 ** 6)]\n", NONE)
    learned, finding = admit(spec, EmulatedDevice(), 60.0)
    assert learned == describe(spec, "cpu") and isinstance(finding, wire.Finding)
    assert (finding.check, finding.outcome) == ("fits", wire.FindingOutcome.UNKNOWN) and "--set NAME=VALUE" in finding.message
    assert isinstance(learned, wire.Described) and learned.axes["x_0"] == 10**6


def test_a_description_with_strides_that_are_none_is_not_believed(tmp_path: Path) -> None:
    """Too few, negative, or of a tensor that there is not."""
    description = describe(test_strides.strided_spec(tmp_path, test_strides.TURNED), "cpu")
    assert description is not None and is_sane(description)
    for wrong in ({"x": (1,)}, {"x": (-1, 80)}, {"y": (1, 80)}):
        assert not is_sane(dataclasses.replace(description, strides=wrong))


# -- the examples -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["vector_add", "row_softmax", "tril_matmul", "flash_attention", "layer_norm", "softmax_wide", "elementwise_square"]
)
def test_the_examples_are_admitted(name: str) -> None:
    """At every workload that a small host checks in a few seconds."""
    spec = native.load(EXAMPLES / name).spec
    small = tuple(workload for workload in spec.workloads if working_bytes(spec, workload) < SMALL_BYTES)
    assert len(small) >= 3
    findings = findings_of(dataclasses.replace(spec, workloads=small))
    assert refusals(findings) == {}
    assert {finding.workload_id for finding in findings if finding.check == "zeros"} == {workload.workload_id for workload in small}


def test_admission_judges_few_elements_as_a_trial_does() -> None:
    """The reference's answer to shaken inputs is asked there, too."""
    task = Task(spec=test_few_elements.MEAN, reference=lambda inputs: [test_few_elements.mean(inputs[0])])
    cases = (AdmissionCase.draw(task, test_few_elements.MEAN.workloads[0], index, EmulatedDevice()) for index in range(300))
    assert all(case.accepts([test_few_elements.strided(case.inputs[0])]) for case in cases)
