"""Times kernels by `triton.testing.do_bench` in an ordinary process: no box, no judge. `python -m tests.gpu.plain_bench PLAN OUT`.

The plan is what `plan_of` makes. In each repetition every kernel is timed once, in random order; one repetition before them lets the GPU's
clock rates settle and is kept apart.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.gpu.families import Family
from tests.gpu.unboxed import extension, raw_call

HOST_RUNS = 5  # where there is no GPU: shows the flow, times nothing


def plan_of(family: Family, artifact: Path, *, device: str, repetitions: int, seed: int) -> dict[str, Any]:
    """What the process is given, as plain data."""
    tiny = device == "emulated"
    sizes = []
    for size in family.sizes:
        axes = family.axes_of(size, tiny)
        shape_of = {name: [axes[axis] for axis in shape] for name, shape in family.inputs.items()}
        sizes.append(
            {
                "name": size.name,
                "inputs": list(shape_of.values()),
                "output": [axes[axis] for axis in family.output],
                "axes": list(axes.values()),
            }
        )
    return {
        "artifact": str(artifact),
        "language": family.language,
        "device": "cpu" if tiny else "cuda",
        "sizes": sizes,
        "repetitions": repetitions,
        "seed": seed,
    }


def main(arguments: Sequence[str]) -> int:
    """Write the times in microseconds by size: a list for each repetition, and what the repetition before them took."""
    plan = json.loads(Path(arguments[0]).read_text("utf-8"))
    calls = {size["name"]: _call(plan, size) for size in plan["sizes"]}
    settling = {name: _times_us(call, plan["device"]) for name, call in calls.items()}
    found: dict[str, list[list[float]]] = {name: [] for name in calls}
    order = list(calls)
    shuffled = random.Random(plan["seed"])
    for _ in range(plan["repetitions"]):
        shuffled.shuffle(order)
        for name in order:
            found[name].append(_times_us(calls[name], plan["device"]))
    Path(arguments[1]).write_text(json.dumps({"times_us": found, "settling_us": settling}), "utf-8")
    return 0


def _call(plan: dict[str, Any], size: dict[str, Any]) -> Callable[[], object]:
    import torch

    inputs = [torch.randn(shape, device=plan["device"]) for shape in size["inputs"]]
    artifact = Path(plan["artifact"])
    if plan["language"] == "torch_extension":
        function = extension(artifact).forward
        return lambda: function(*inputs)
    output = torch.empty(size["output"], device=plan["device"])
    launch = raw_call(artifact, inputs, [output], size["axes"])

    def call(_kept: object = (inputs, output)) -> None:
        launch()  # by addresses only: the tensors live as long as this function

    return call


def _times_us(call: Callable[[], object], device: str) -> list[float]:
    if device == "cpu":
        return [_host_us(call) for _ in range(HOST_RUNS)]
    from triton.testing import do_bench

    return [1000 * ms for ms in do_bench(call, return_mode="all")]


def _host_us(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return (time.perf_counter() - begun) * 1e6


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
