"""What the clock's rules of today make of times that were recorded, as the table of section aa: a change of a rule is seen without a GPU.

    GRADER_CLOCK_RECORD=DIR python -m tools.gpu --only aa
    python -m tools.gpu.again DIR

A file of records, one a line, is read too, such as tests/unit/recorded/h200_a_kernel_against_itself.jsonl.gz.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sandbox.judge.timing.interleaved import TURN_COUNT, SoloTimings, Times, TimingSetup
from sandbox.judge.timing.overhead import Net, subtract_overhead
from sandbox.protocol import wire
from tools.gpu.figures import Interval, same_against_same
from tools.gpu.page import Table, table_lines
from tools.gpu.problems import SAME
from tools.gpu.sections.same import BASELINE, COLUMNS, row
from tools.gpu.sections.six import interval

ON_A_GPU: Any = SimpleNamespace(device=SimpleNamespace(CLOCK=wire.Clock.DEVICE_EVENTS))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or not all(Path(word).exists() for word in words):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    found: dict[str, list[Interval | None]] = {size.name: [] for size in SAME.sizes}
    for data in (one for word in words for one in records(Path(word))):
        speedups = net_of(data).speedups
        found.setdefault(data["workload"], []).append(next((interval(one) for one in speedups if one.baseline == BASELINE), None))
    table = Table(headings=COLUMNS)
    about = {size.name: size.about_us for size in SAME.sizes}
    table.rows = [row(name, about.get(name, 0.0), same_against_same(known)) for name, known in found.items() if known]
    sys.stdout.write("\n".join(table_lines(table)) + "\n")
    return 0


def records(path: Path) -> Iterator[dict[str, Any]]:
    """What `sandbox/judge/timing/record.py` wrote, in the order of its files or lines."""
    if path.is_dir():
        for one in sorted(path.glob("*.json"), key=lambda name: int(name.stem.split("-")[1])):
            yield json.loads(one.read_text("utf-8"))
    else:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def net_of(data: dict[str, Any]) -> Net:
    """One measurement again; of a runner that waited for its work, which the record does not say."""
    alone = data["alone"]
    parties = TimingSetup(
        subject=ON_A_GPU,
        trusted=ON_A_GPU,
        copies=data["copies"],
        alone=SoloTimings(**{**alone, "null_ns": {copies: alone["null_ns"][str(copies)] for copies in (False, True)}}),
        budget_s=0.0,
        launch_ns=data["launch_ns"],
    )
    times = Times(taken_ns=data["turns"], planned=data.get("planned", TURN_COUNT))
    return subtract_overhead(parties, times, {False: [], True: []}, 0, early=False)


if __name__ == "__main__":
    raise SystemExit(main())
