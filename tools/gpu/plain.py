"""Times kernels by `triton.testing.do_bench` in an ordinary process: no box, no judge.  Usage: `python -m tools.gpu.plain PLAN OUT`.

The plan is what `plan_of` makes. Every repetition is a do_bench of each kernel, in another order; one before them settles the clocks
and is kept apart.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.gpu.loading import extension, raw_call
from tools.gpu.problems import Family

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 180.0
HOST_RUNS = 5  # where there is no GPU: proves the flow, times nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """Times in microseconds, by size, a list for each repetition. settling_us: of the repetition before."""

    times_us: dict[str, list[list[float]]]
    settling_us: dict[str, list[float]]
    versions: dict[str, str]


def time_family(
    family: Family, artifact: Path, place: Path, *, device: str, repetitions: int, seed: int, environment: Mapping[str, str]
) -> Plain:
    """Time every size of a family in a fresh process, which has ended when this returns."""
    plan, out = place / f"{family.name}-{seed}.plan.json", place / f"{family.name}-{seed}.times.json"
    plan.write_text(json.dumps(plan_of(family, artifact, device=device, repetitions=repetitions, seed=seed)), "utf-8")
    command = [sys.executable, "-m", "tools.gpu.plain", str(plan), str(out)]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
    )
    if done.returncode != 0 or not out.exists():
        raise RuntimeError(
            f"the plain do_bench of {family.name} failed with exit code {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}"
        )
    return Plain(**json.loads(out.read_text("utf-8")))


def plan_of(family: Family, artifact: Path, *, device: str, repetitions: int, seed: int) -> dict[str, Any]:
    """What the process is told, as plain data."""
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
    """Do a plan, write the times."""
    plan = json.loads(Path(arguments[0]).read_text("utf-8"))
    import torch
    import triton

    calls = {size["name"]: _call(plan, size) for size in plan["sizes"]}
    settling = {name: _times_us(call, plan["device"]) for name, call in calls.items()}
    found: dict[str, list[list[float]]] = {name: [] for name in calls}
    order = list(calls)
    shuffled = random.Random(plan["seed"])
    for _ in range(plan["repetitions"]):
        shuffled.shuffle(order)
        for name in order:
            found[name].append(_times_us(calls[name], plan["device"]))
    versions = {"torch": torch.__version__, "triton": triton.__version__, "CUDA": str(torch.version.cuda)}
    Path(arguments[1]).write_text(json.dumps({"times_us": found, "settling_us": settling, "versions": versions}), "utf-8")
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
