"""The check of KernelBench files: kernels that ignore a weight, and what is learned of arguments."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from grader_extensions.formats import kernelbench
from grader_extensions.problem_check.admission import CHECK_NAME, is_sane
from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from grader_extensions.formats.kernelbench_reference import describe
    from grader_extensions.formats.tests import test_strides
    from grader_extensions.formats.tests.kernelbench_files import NONE, model, spec_of
    from grader_extensions.formats.tests.test_constant_weights import INPUT, KEPT, NORM_FILE, spec_of_number
    from grader_extensions.problem_check.judge.check import admit


def made(directory: Path, init: str, answer: str) -> wire.ProblemSpec:
    return spec_of(directory, model(f"return {answer}", init), INPUT, NONE)


def findings(spec: wire.ProblemSpec) -> dict[str, str]:
    """The outcomes of the checks of weights; of a check that has several, the last."""
    found = [one for one in admit(spec, EmulatedDevice(), 600.0) if isinstance(one, wire.Finding)]
    assert all(CHECK_NAME.fullmatch(one.check) for one in found)  # or the host takes none of them
    return {one.check: one.outcome.value for one in found if one.check.startswith("weight")}


def test_admission_tries_kernels_that_ignore_a_weight(tmp_path: Path) -> None:
    """Rejected where it is drawn; a warning where it is kept, is a constant buffer, or hardly counts. What no answer depends on, such as
    running statistics in training, is not spoken of."""
    assert findings(kernelbench.load(NORM_FILE).spec) == {"weight ln_weight": "passed", "weight ln_bias": "passed"}
    assert findings(kernelbench.load(NORM_FILE, adjustments=KEPT).spec) == {"weight ln_weight": "warning", "weight ln_bias": "warning"}
    training = "self.bn = nn.BatchNorm1d(12)"
    assert findings(made(tmp_path, training, "self.bn(x)")) == {"weight bn_weight": "passed", "weight bn_bias": "passed"}
    evaluated = f"{training}.eval()"
    assert set(findings(made(tmp_path, evaluated, "self.bn(x)"))) >= {"weight bn_running_mean", "weight bn_running_var"}
    assert findings(made(tmp_path, 'self.register_buffer("b", torch.ones(12))', "x * self.b")) == {"weight b": "warning"}
    faint = "self.p = nn.Parameter(torch.zeros(12))"
    assert findings(made(tmp_path, faint, "x + 1e-6 * self.p")) == {"weight p": "warning"}
    odd = 'self.of = nn.ParameterDict({"a b\u00e9" * 40: torch.ones(12)})'
    assert list(findings(made(tmp_path, odd, "x * next(self.parameters())")).values()) == ["passed"]
    assert findings(made(tmp_path, 'self.register_buffer("half", torch.tensor(0.5))', "x * self.half")) == {}
    assert findings(spec_of_number(tmp_path, "7")) == {"weight a": "warning", "weight b": "passed"}


def test_arguments_are_learned_where_there_is_no_memory_to_judge(tmp_path: Path) -> None:
    """The check says that it is too large for this machine, which refuses nothing, and what an entry would be given."""
    spec = spec_of(tmp_path, model(), "def get_inputs():\n    return [torch.rand(10 ** 6, 10 ** 6)]\n", NONE)
    learned, finding = admit(spec, EmulatedDevice(), 60.0)
    assert learned == describe(spec, "cpu") and isinstance(finding, wire.Finding)
    assert (finding.check, finding.outcome) == ("fits", wire.FindingOutcome.UNKNOWN)


def test_a_description_with_strides_that_are_none_is_not_believed(tmp_path: Path) -> None:
    """Too few, negative, or of a tensor that there is not."""
    description = describe(test_strides.made(tmp_path, test_strides.TURNED), "cpu")
    assert description is not None and is_sane(description)
    for wrong in ({"x": (1,)}, {"x": (-1, 80)}, {"y": (1, 80)}):
        assert not is_sane(replace(description, strides=wrong))
