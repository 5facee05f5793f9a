"""Inputs have the strides and weights that the problem's own code gave them: in the judge, in a runner, and for the reference."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from grader_extensions.formats import flashinfer, kernelbench, robust_kbench
from grader_extensions.formats.tests.tasks import KEY, NONE, OTHER_KEY, judged, model, spec_of, trials
from grader_extensions.formats.tests.test_flashinfer import FIXTURES as FLASHINFER
from grader_extensions.formats.tests.test_flashinfer import write
from grader_extensions.formats.tests.test_robust_kbench import FIXTURES as ROBUST_KBENCH
from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import pytree, wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from grader_extensions.formats import nests
    from grader_extensions.formats.kernelbench_reference import describe
    from grader_extensions.problem_check.judge.check import admit
    from sandbox.judge.references import ReferenceFailed, load_task

PASSED = ["passed"] * kernelbench.TRIAL_COUNT
TURNED = "torch.randn(48, 80).t()"
CASES = {
    TURNED: (1, 80),
    "torch.randn(80, 64)[:, :48]": (64, 1),
    "torch.randn(160, 48)[1::2]": (96, 1),
    "torch.randn(2, 5, 4, 3).to(memory_format=torch.channels_last)": (60, 1, 15, 5),
    "torch.randn(80, 1).expand(80, 48)": (1, 0),
    "torch.randn(87).unfold(0, 8, 1)": (1, 1),
}


def strided_spec(directory: Path, expression: str, precision: str = "fp32") -> wire.ProblemSpec:
    inputs = f"def get_inputs():\n    return [{expression}]\n"
    return spec_of(directory, model("return x * 2 + 1"), inputs, NONE, precision=precision)


def by_strides(*strides: int):
    """A kernel that insists on them."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        assert x.stride() == strides, x.stride()
        return (x * 2 + 1).contiguous()

    return lambda: kernel


def ignoring(x: torch.Tensor) -> torch.Tensor:
    return x.as_strided((x.numel(),), (1,)).view(x.shape) * 2 + 1


@pytest.mark.parametrize(("expression", "strides"), CASES.items())
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_kernel_is_given_the_strides_of_the_file(tmp_path: Path, expression: str, strides: tuple[int, ...], precision: str) -> None:
    assert trials(judged(tmp_path, strided_spec(tmp_path, expression, precision), by_strides(*strides))) == PASSED


@pytest.mark.parametrize("expression", list(CASES)[:4])
def test_a_kernel_that_ignores_strides_is_wrong(tmp_path: Path, expression: str) -> None:
    """The control: it is right where the file makes its input contiguous."""
    assert trials(judged(tmp_path, strided_spec(tmp_path, expression), lambda: ignoring)) == ["mismatched"]
    assert trials(judged(tmp_path, strided_spec(tmp_path, f"{expression}.contiguous()"), lambda: ignoring)) == PASSED


def test_the_memory_between_elements_is_the_judges(tmp_path: Path) -> None:
    def writes(x: torch.Tensor) -> torch.Tensor:
        x.as_strided((79, 16), (64, 1), 48)[0] = 0.0
        return x * 2 + 1

    assert trials(judged(tmp_path, strided_spec(tmp_path, "torch.randn(80, 64)[:, :48]"), lambda: writes)) == ["input_modified"]


def test_strides_are_told_to_people(tmp_path: Path) -> None:
    """In the statement, once a box has described the problem."""
    spec = strided_spec(tmp_path, TURNED)
    result = describe(spec, "cpu")
    assert result is not None and result.strides == {"x": (1, 80), "output": (1, 80)} and wire.decode(wire.encode(result)) == result
    problem = kernelbench.with_description(kernelbench.load(tmp_path / "9_Made.py"), result)
    assert (
        "x has strides (1, 80)" in problem.statement
        and "output has" not in problem.statement
        and problem.spec.workloads[0].strides == result.strides
    )


def test_inputs_whose_strides_differ_from_call_to_call_get_those_of_the_first() -> None:
    """Overlapping ones can't be had of tensors that do not overlap."""
    x = torch.randn(4, 6)
    laid = nests.with_strides(x, (1, 5))
    assert laid.stride() == (1, 5) and torch.equal(laid, x) and nests.with_strides(x.t(), ()).is_contiguous()
    for overlapping in ((1, 1), (0, 1)):
        with pytest.raises(ReferenceFailed, match="strides"):
            nests.with_strides(x, overlapping)


def row_scale(directory: Path, changes: dict[str, str]) -> wire.ProblemSpec:
    """The task of that name with other texts in place of some."""
    path = shutil.copytree(ROBUST_KBENCH / "row_scale", directory / "task") / "func_forward.py"
    for old, replacement in changes.items():
        path.write_text(path.read_text().replace(old, replacement))
    return robust_kbench.load(path).spec


def test_robust_kbench_keeps_strides(tmp_path: Path) -> None:
    """Those of what the model hands on to the kernel; a task of the described spec has them too."""
    changes = {"torch.randn(rows, columns": "torch.randn(columns, rows", "fn(x, self.scale,": "fn(x.t(), self.scale,"}
    task = load_task(row_scale(tmp_path, changes), "cpu")
    for strided in (task, load_task(task.spec, "cpu")):
        (workload, *_), rows = strided.spec.workloads, strided.spec.workloads[0].axes["x_0"]
        assert strided.draw(workload, KEY)[0].stride() == (1, rows) and workload.strides == {"x": (1, rows), "output": (1, rows)}


def test_flashinfer_keeps_strides_of_what_its_own_function_makes(tmp_path: Path) -> None:
    """At every workload, whether the function can be called without memory or not."""
    folder = FLASHINFER / "gather_blocks"
    workload = json.loads((folder / "workload.jsonl").read_text().splitlines()[0])
    definition = json.loads((folder / "definition.json").read_text())
    turned = definition["reference"].replace("torch.randn(pages, axes_and_scalars['dim'],", "torch.randn(axes_and_scalars['dim'], pages,")
    turned = turned.replace("dtype=torch.bfloat16)", "dtype=torch.bfloat16).t()")
    looking = turned.replace("    return {\n", "    assert float(torch.ones(1)) == 1\n    return {\n", 1)
    for name, reference in (("without", turned), ("with", looking)):
        task = load_task(flashinfer.load(write(tmp_path / name, {**definition, "reference": reference}, workload)).spec, "cpu")
        pool = task.draw(task.spec.workloads[0], KEY)[0]
        assert pool.stride() == (1, 3) and task.spec.workloads[0].strides == {"pool": (1, 3)}


def test_robust_kbench_draws_constants_anew_for_each_key(tmp_path: Path) -> None:
    """There weights are inputs of every trial, and admission tries what ignores one, as for every input."""
    spec = row_scale(tmp_path, {"self.scale = nn.Parameter(torch.randn(": "self.scale = nn.Parameter(torch.ones("})
    task = load_task(spec, "cpu")
    first, again, different = (task.draw(task.spec.workloads[0], key)[1] for key in (KEY, KEY, OTHER_KEY))
    assert torch.equal(first, again) and not torch.equal(first, different) and float(first.std()) > 0.1
    findings = [fact for fact in admit(spec, EmulatedDevice(), 600.0) if isinstance(fact, wire.Finding) and fact.check == "input scale"]
    assert {finding.outcome.value for finding in findings} == {"passed"}


def test_the_tensors_of_a_nest_can_be_numbered_anew() -> None:
    """In lists, dicts and objects; how they lie, and a tensor of no dimensions, stay as they are."""
    inner = ["dict", [["x", ["tuple", [["tensor", 1, [1, 0]], ["value", 1]]]]]]
    node = ["list", [["tensor", 0], inner, ["object", "plain", "task.Config", [["inner", ["tensor", 2]]]]]]
    assert list(pytree.leaves(nests.renumbered(node, [5, 3, 4]))) == [(5, None), (3, [1, 0]), (4, None)]
    assert nests.renumbered(["tensor", 0, []], [1]) == ["tensor", 1, []]
