"""What a map of a wrong answer costs next to the comparison that found it: `python -m tests.gpu.error_map_cost PLAN OUT`.

The plan has the device, the output's shape and how often each is timed. Times are the least of several, in milliseconds, synchronized.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

DAMAGES = ("last rows", "every 4th column", "scattered", "everything")


def main(arguments: list[str]) -> int:
    """Time both for each kind of damage, and say what the map found; the same of a copy on the host, where that is small enough."""
    plan_path, out = arguments
    plan = json.loads(Path(plan_path).read_text("utf-8"))
    import torch

    from sandbox.judge.compare.error_map import error_map
    from sandbox.judge.compare.tolerance import compare
    from sandbox.protocol import wire

    rows, columns = plan["shape"]
    tolerance = wire.Tolerance()
    generator = torch.Generator(plan["device"]).manual_seed(0)
    reference = torch.rand(rows, columns, generator=generator, device=plan["device"]) + 1
    unwritten = torch.zeros_like(reference, dtype=torch.bool)
    found: dict[str, Any] = {}
    for name in DAMAGES:
        output = reference.clone()
        match name:
            case "last rows":
                output[-5:] += 1
            case "every 4th column":
                output[:, 3::4] += 1
            case "scattered":
                output += torch.rand(rows, columns, generator=generator, device=plan["device"]) < 0.001
            case "everything":
                output += 1
        # Cautious: without the error budget the comparison is at its cheapest.
        compare_ms = _least_ms(partial(compare, output, reference, None, unwritten, tolerance), plan)
        map_ms = _least_ms(partial(error_map, "c", output, reference, unwritten, tolerance), plan)
        made = error_map("c", output, reference, unwritten, tolerance)
        assert made is not None
        same = made == error_map("c", output.cpu(), reference.cpu(), unwritten.cpu(), tolerance) if plan["check_on_host"] else None
        pattern = dataclasses.asdict(made.pattern) if made.pattern else None
        found[name] = {"compare_ms": compare_ms, "map_ms": map_ms, "pattern": pattern, "same_as_on_host": same}
        del output
    Path(out).write_text(json.dumps(found), "utf-8")
    return 0


def _least_ms(call: Callable[[], object], plan: dict[str, Any]) -> float:
    import torch

    times = []
    for _ in range(1 + plan["runs"]):
        begun = time.perf_counter()
        call()
        if plan["device"] == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begun))
    return min(times[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
