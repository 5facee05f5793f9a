"""Strides and weights of the inputs are those that a problem's own code makes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from grader_extensions.formats import flashinfer, robust_kbench
from grader_extensions.formats.tests.tasks import KEY, OTHER_KEY
from grader_extensions.formats.tests.test_flashinfer import FIXTURES as FLASHINFER
from grader_extensions.formats.tests.test_flashinfer import write
from grader_extensions.formats.tests.test_robust_kbench import FIXTURES as ROBUST_KBENCH
from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from grader_extensions.problem_check.judge.check import admit
    from sandbox.judge.references import load_task


def row_scale(directory: Path, changes: dict[str, str]) -> wire.ProblemSpec:
    """The task of that name with other texts in place of some."""
    path = shutil.copytree(ROBUST_KBENCH / "row_scale", directory / "task") / "func_forward.py"
    for old, new in changes.items():
        path.write_text(path.read_text().replace(old, new))
    return robust_kbench.load(path).spec


def test_robust_kbench_keeps_strides(tmp_path: Path) -> None:
    """Those of what the model hands on to the kernel; a task of the described spec has them too."""
    changes = {"torch.randn(rows, columns": "torch.randn(columns, rows", "fn(x, self.scale,": "fn(x.t(), self.scale,"}
    task = load_task(row_scale(tmp_path, changes), "cpu")
    for one in (task, load_task(task.spec, "cpu")):
        (workload, *_), rows = one.spec.workloads, one.spec.workloads[0].axes["x_0"]
        assert one.draw(workload, KEY)[0].stride() == (1, rows) and workload.strides == {"x": (1, rows), "output": (1, rows)}


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
    first, again, other = (task.draw(task.spec.workloads[0], key)[1] for key in (KEY, KEY, OTHER_KEY))
    assert torch.equal(first, again) and not torch.equal(first, other) and float(first.std()) > 0.1
    found = [one for one in admit(spec, EmulatedDevice(), 600.0) if isinstance(one, wire.Finding) and one.check == "input scale"]
    assert {one.outcome.value for one in found} == {"passed"}
