"""Times kernels by `triton.testing.do_bench` in an ordinary process: no box, no judge. `python -m tests.gpu.plain_bench PLAN OUT`.

The plan is what `plan_of` makes. In each repetition every kernel is timed twice, in random order: with its tensors at random places, as in
a box, and where torch puts them, at multiples of 2 MiB. Where input and output lie a power of two apart, some kernels are slower by 6 % on
an H100. One repetition before them lets the GPU's clock rates settle and is kept apart.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.gpu.families import Family
from tests.gpu.unboxed import extension, raw_call

HOST_RUNS = 5  # where there is no GPU: shows the flow, times nothing
STEP_BYTES, STEP_COUNT = 256, 1 << 14  # a random place is so many of these steps away, at most


def plan_of(family: Family, artifact: Path, *, device: str, repetitions: int, seed: int) -> dict[str, Any]:
    """Return the input of the process, as plain data."""
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
    sizes = {size["name"]: size for size in plan["sizes"]}
    chance = random.Random(plan["seed"])
    settling = {name: _times_us(_call(plan, size, None), plan["device"]) for name, size in sizes.items()}
    times_us: dict[bool, dict[str, list[list[float]]]] = {pushed: {name: [] for name in sizes} for pushed in (True, False)}
    order = [(name, pushed) for name in sizes for pushed in times_us]
    for _ in range(plan["repetitions"]):
        chance.shuffle(order)
        for name, pushed in order:
            times_us[pushed][name].append(_times_us(_call(plan, sizes[name], chance if pushed else None), plan["device"]))
    data = {"times_us": times_us[True], "as_allocated_us": times_us[False], "settling_us": settling}
    Path(arguments[1]).write_text(json.dumps(data), "utf-8")
    return 0


def _call(plan: dict[str, Any], size: dict[str, Any], chance: random.Random | None) -> Callable[[], object]:
    """A launch on tensors of its own. chance: says where they lie; None: where torch puts them."""
    import torch

    def empty(shape: list[int]) -> torch.Tensor:
        steps = 0 if chance is None else chance.randrange(STEP_COUNT)
        size_bytes = 4 * math.prod(shape)
        memory = torch.empty(size_bytes + STEP_BYTES * steps, dtype=torch.uint8, device=plan["device"])
        return memory[STEP_BYTES * steps :].view(torch.float32).view(shape)

    inputs = [empty(shape).normal_() for shape in size["inputs"]]
    artifact = Path(plan["artifact"])
    if plan["language"] == "torch_extension":
        function = extension(artifact).forward
        return lambda: function(*inputs)
    output = empty(size["output"])
    launch = raw_call(artifact, inputs, [output], size["axes"])

    def call(_alive: object = (inputs, output)) -> None:
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
