"""Problems of KernelBench's format that tests write, and what is drawn for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grader.formats import kernelbench
from sandbox.protocol import wire

FIXTURES = Path(__file__).parents[1] / "fixtures" / "kernelbench"
KEY, OTHER_KEY = "0123456789abcdef" * 2, "fedcba9876543210" * 2
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
    return kernelbench.load(path, precision).spec


def drawn(task: Any, key: str = KEY) -> Any:
    """The inputs of a task's only workload."""
    return task.draw(task.spec.workloads[0], key)
