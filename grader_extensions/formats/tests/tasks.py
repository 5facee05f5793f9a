"""Problems of KernelBench's format that tests write, and what is said of a task's outputs, with a runner or without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from grader_extensions.formats import kernelbench
from grader_extensions.formats.adjustments import Adjustments
from sandbox.languages import python
from sandbox.protocol import wire

FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures" / "kernelbench"
KEY, OTHER_KEY = "0123456789abcdef" * 2, "fedcba9876543210" * 2
PASSED, MISMATCHED = wire.TrialOutcome.PASSED, wire.TrialOutcome.MISMATCHED
HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
ROW = "def get_inputs():\n    return [torch.rand(4, 5)]\n"
NONE = "def get_init_inputs():\n    return []\n"


def model(forward: str = "return x", init: str = "pass", parameters: str = "x") -> str:
    """The class of a problem."""
    head = f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
    return f"{head}    def forward(self, {parameters}):\n        {forward}\n"


def spec_of(directory: Path, *parts: str, precision: str = "fp32") -> wire.ProblemSpec:
    """The problem of a file of these parts."""
    path = directory / "9_Made.py"
    path.write_text("\n".join((HEAD, *parts)))
    return kernelbench.load(path, adjustments=Adjustments(precision=precision)).spec


def drawn(task: Any, key: str = KEY) -> Any:
    """The inputs of a task's only workload."""
    return task.draw(task.spec.workloads[0], key)


def judged(tmp_path: Path, spec: wire.ProblemSpec, entry: Callable[..., Any]) -> list[wire.Fact]:
    """The facts of a submission that is this class, in mode TEST."""
    import torch

    from tests.unit import test_lane

    def of_state(state: bytes) -> Callable[..., None]:
        kernel = python.make_model(entry, state, "cpu") if state else entry

        def launch(inputs: list[Any], outputs: list[Any]) -> None:
            with torch.no_grad():
                result = kernel(*inputs)
            for target, value in zip(outputs, result if isinstance(result, tuple) else (result,), strict=True):
                assert target.dtype == value.dtype
                target.copy_(value)

        return launch

    return test_lane.judged(tmp_path, problem=spec, of_state=of_state, language="python", entry=spec.entry)


def trials(facts: list[wire.Fact]) -> list[str]:
    return [fact.outcome.value for fact in facts if isinstance(fact, wire.Trial)]


def outcomes(
    task: Any, change: Callable[..., Any] = lambda outputs: outputs, masks: Any = None, workload: int = 0, key: str = KEY
) -> list[wire.TrialOutcome]:
    """Return what is said of the reference's outputs, changed."""
    import torch

    judged_at = task.spec.workloads[workload]
    inputs = task.draw(judged_at, key)
    expected = task.reference([tensor.clone() for tensor in inputs])
    outputs = change([tensor.clone() for tensor in expected])
    unwritten = masks(outputs) if masks else [torch.zeros_like(tensor, dtype=torch.bool) for tensor in outputs]
    return [comparison.outcome for comparison in task.compare(judged_at, inputs, outputs, expected, unwritten)]
