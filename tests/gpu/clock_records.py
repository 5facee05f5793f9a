"""Replays recorded times of the clock by today's rules: a change of a rule is seen without a GPU.

    GRADER_CLOCK_RECORD=DIR python -m pytest tests/gpu/test_same.py
    python -m tests.gpu.clock_records DIR

A file of records is read too, such as tests/unit/recorded/h200_a_kernel_against_itself.jsonl.gz. Three tables: the kernel against itself,
as tests/gpu/test_same.py has it; all measurements of each workload; every measurement. "null, forth - back" compares the null runs of an
ABBA's first half with those of its second: where they differ, a run's place in the order shows in its time.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sandbox.judge.timing import (
    EAGER,
    NULL,
    OWN_NULL,
    SUBJECT,
    LookAllowance,
    NetTiming,
    SoloTimings,
    Times,
    TimingSetup,
    steady,
    subtract_overhead,
)
from sandbox.protocol import wire
from tests.gpu.families import SAME
from tests.gpu.figures import SAME_COLUMNS, same_against_same
from tools.page import Table

ON_A_GPU: Any = SimpleNamespace(device=SimpleNamespace(CLOCK=wire.Clock.DEVICE_EVENTS))
MEASUREMENT_COLUMNS = (
    "workload",
    "runs a turn",
    "subject",
    "eager",
    "null",
    "own null",
    "alone",
    "subject - null",
    "subject - own null",
    "eager - null",
    "null, forth - back",
    "do_bench, subject - eager",
)
SUMMARY_COLUMNS = (
    "workload",
    "measurements",
    "subject - eager, net: mean",
    "standard deviation",
    "most",
    "null, forth - back: mean of the absolute",
    "certified - do_bench: mean",
    "most",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or not all(Path(word).exists() for word in words):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    rows = [data for word in words for data in records(Path(word))]
    names = list(dict.fromkeys(data["workload"] for data in rows))
    of = {name: [data for data in rows if data["workload"] == name] for name in names}
    about_us = {size.name: size.about_us for size in SAME.sizes}
    tables = (
        Table(
            headings=SAME_COLUMNS,
            title="A kernel against itself.",
            rows=[same_against_same([against(EAGER, data) for data in of[name]]).row(name, about_us.get(name, 0.0)) for name in names],
        ),
        Table(
            headings=SUMMARY_COLUMNS,
            title="All measurements, in microseconds; net: less their own null runs.",
            rows=[_summary(name, of[name]) for name in names],
        ),
        Table(
            headings=MEASUREMENT_COLUMNS,
            title="Each measurement, in microseconds: the mean of the turns, and their standard deviation.",
            rows=[_measurement(data) for data in rows],
        ),
    )
    sys.stdout.write("\n\n".join("\n".join([table.title, "", *table.lines()]) for table in tables) + "\n")
    return 0


def records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records that `sandbox/judge/measure.py` wrote, in the order of its files or lines."""
    if path.is_dir():
        for file in sorted(path.glob("*.json"), key=lambda name: int(name.stem.split("-")[1])):
            yield json.loads(file.read_text("utf-8"))
    else:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def net_of(data: dict[str, Any], allowance: LookAllowance = LookAllowance.FACTOR) -> NetTiming:
    """Return a measurement by today's rules."""
    alone = {name: data["alone"][name] for name in ("floor_ns", "run_ns")}
    work_ns = data["alone"].get("null_work_ns") or {
        str(copies): data["launch_ns"] for copies in (False, True)
    }  # of records without a probe
    parties = TimingSetup(
        subject=ON_A_GPU,
        trusted=ON_A_GPU,
        copies=data["copies"],
        alone=SoloTimings(
            **alone,
            null_ns={copies: data["alone"]["null_ns"][str(copies)] for copies in (False, True)},
            null_work_ns={copies: work_ns[str(copies)] for copies in (False, True)},
        ),
        budget_s=0.0,
    )
    times = Times(taken_ns=data["turns"], allowance=allowance)
    return subtract_overhead(parties, times, {False: [], True: []}, 0)


def against(baseline: str, data: dict[str, Any], allowance: LookAllowance = LookAllowance.FACTOR) -> wire.Speedup | None:
    """The speedup against a baseline by today's rules; None where there is no figure."""
    return next((speedup for speedup in net_of(data, allowance).speedups if speedup.baseline == baseline), None)


def forth_less_back(data: dict[str, Any]) -> float:
    """How much longer null runs took on the way forth than back, in nanoseconds."""
    turns = data["turns"].get(NULL[data["copies"]], data["turns"][NULL[True]])
    return statistics.fmean(steady(turn[0::2]) - steady(turn[1::2]) for turn in turns)


def _net_difference_ns(data: dict[str, Any]) -> float:
    """How much longer the subject takes than eager, each less its own process's null runs, in the mean of the turns."""
    means = {arm: statistics.fmean(steady(turn) for turn in turns) for arm, turns in data["turns"].items()}
    return means[SUBJECT] - means[OWN_NULL] - (means[EAGER] - means[NULL[True]])


def _summary(name: str, rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    apart = [_net_difference_ns(row) for row in rows]
    reported = [row for row in rows if SUBJECT in row.get("reported", {})]
    beyond = [statistics.median(net_of(row).certified.durations_ns) - row["reported"][SUBJECT] for row in reported]
    return (
        name,
        str(len(rows)),
        f"{statistics.fmean(apart) / 1e3:.2f}",
        f"{statistics.pstdev(apart) / 1e3:.2f}",
        f"{max(map(abs, apart)) / 1e3:.2f}",
        f"{statistics.fmean(abs(forth_less_back(row)) for row in rows) / 1e3:.2f}",
        *((f"{statistics.fmean(beyond) / 1e3:.2f}", f"{max(map(abs, beyond)) / 1e3:.2f}") if beyond else ("", "")),
    )


def _measurement(data: dict[str, Any]) -> tuple[str, ...]:
    turns = {arm: [steady(turn) for turn in turns_of_arm] for arm, turns_of_arm in data["turns"].items()}
    null, with_copy = turns.get(NULL[data["copies"]], turns[NULL[True]]), turns[NULL[True]]
    own_null, reported = turns[OWN_NULL], data.get("reported", {})
    return (
        data["workload"],
        str(len(data["turns"][SUBJECT][0])),
        _spread(turns[SUBJECT]),
        _spread(turns[EAGER]),
        _spread(null),
        _spread(own_null),
        f"{steady(data['alone']['null_ns'][str(data['copies'])]) / 1e3:.1f}",
        _spread(_less(turns[SUBJECT], null)),
        _spread(_less(turns[SUBJECT], own_null)),
        _spread(_less(turns[EAGER], with_copy)),
        f"{forth_less_back(data) / 1e3:.1f}",
        f"{(reported[SUBJECT] - reported[EAGER]) / 1e3:.1f}" if {SUBJECT, EAGER} <= reported.keys() else "",
    )


def _less(values: Sequence[float], subtrahends: Sequence[float]) -> list[float]:
    return [value - subtrahend for value, subtrahend in zip(values, subtrahends, strict=True)]


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values) / 1e3:.1f} ± {statistics.pstdev(values) / 1e3:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
