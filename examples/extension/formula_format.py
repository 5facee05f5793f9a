"""The problem format `elementwise`, the server's half: a file `NAME.elementwise.json` with a formula and sizes.

{"formula": "in0 * in1", "inputs": 2, "sizes": [1000, 4096]}
"""

from __future__ import annotations

import json
from pathlib import Path

from grader.errors import ProblemInvalid
from grader.model import Problem
from sandbox.protocol import wire
from sandbox.protocol.languages import languages

NAME = "elementwise"
SUFFIX = ".elementwise.json"


def matches(path: Path) -> bool:
    """Return whether a problem of this format is at path."""
    return path.name.endswith(SUFFIX)


def load(path: Path, *, root: Path | None = None) -> Problem:
    """Read the problem; ProblemInvalid names the file and the key."""
    try:
        table = json.loads(path.read_text())
        formula, count, sizes = table["formula"], table["inputs"], table["sizes"]
    except (OSError, ValueError, KeyError) as error:
        raise ProblemInvalid(str(path), f"lacks {error}; write formula, inputs and sizes") from None
    spec = wire.ProblemSpec(
        problem_id=path.name.removesuffix(SUFFIX),
        format=NAME,
        entry="solve",
        inputs=tuple(wire.TensorSpec(name=f"in{index}", dtype="float32", shape=("n",)) for index in range(count)),
        outputs=(wire.TensorSpec(name="out0", dtype="float32", shape=("n",)),),
        workloads=tuple(wire.Workload(workload_id=f"n{size}", axes={"n": size}) for size in sizes),
        tolerance=wire.Tolerance(),
        reference=formula,
        axes=("n",),
    )
    return Problem(problem_id=spec.problem_id, title=formula, languages=tuple(languages()), spec=spec)
