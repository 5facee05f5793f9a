"""What the clock's raw times say of it, as a table: how turns wander, and how the subject's process differs from the trusted one.

GRADER_CLOCK_RECORD=DIR python -m tools.gpu --only aa
python -m tools.gpu.offsets DIR

A file of records is read too, as by tools.gpu.again. "null, forth - back" compares the null runs of an ABBA's first half with those of its
second: where they differ, a run's place in the order shows in its time.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sandbox.judge.timing.interleaved import NULL, OWN_NULL, SUBJECT
from sandbox.judge.timing.speedup import steady
from tools.gpu.again import net_of, records
from tools.gpu.page import Table, table_lines

COLUMNS = (
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
SUMMARY = (
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
    """Print the table; a row for each measurement, in the order in which they were made."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or not all(Path(word).exists() for word in words):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    found = [data for word in words for data in records(Path(word))]
    table = Table(headings=COLUMNS, title="Microseconds: the mean of the turns, and their standard deviation.")
    table.rows += [row(data) for data in found]
    of_all = Table(headings=SUMMARY, title="Of all measurements; net: less their own null runs.")
    of_all.rows += [
        summary(name, [one for one in found if one["workload"] == name]) for name in dict.fromkeys(one["workload"] for one in found)
    ]
    for each in (table, of_all):
        sys.stdout.write("\n".join([each.title, "", *table_lines(each)]) + "\n\n")
    return 0


def summary(name: str, found: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """All measurements of a workload."""
    apart = [apart_ns(one) for one in found]
    return (
        name,
        str(len(found)),
        f"{statistics.fmean(apart) / 1e3:.2f}",
        f"{statistics.pstdev(apart) / 1e3:.2f}",
        f"{max(map(abs, apart)) / 1e3:.2f}",
        f"{statistics.fmean(abs(forth_less_back(one)) for one in found) / 1e3:.2f}",
        *_beyond_claim(found),
    )


def _beyond_claim(found: Sequence[dict[str, Any]]) -> tuple[str, str]:
    """How much longer the judge's clock sees the subject than its own do_bench, by today's rules: the mean, and the largest either way."""
    known = [one for one in found if SUBJECT in one.get("reported", {})]
    beyond = [statistics.median(net_of(one).certified.durations_ns) - one["reported"][SUBJECT] for one in known]
    return (f"{statistics.fmean(beyond) / 1e3:.2f}", f"{max(map(abs, beyond)) / 1e3:.2f}") if beyond else ("", "")


def apart_ns(data: dict[str, Any]) -> float:
    """How much longer the subject takes than eager, each less its own process's null runs, in the mean of the turns."""
    means = {arm: statistics.fmean(steady(turn) for turn in taken) for arm, taken in data["turns"].items()}
    null = means[NULL[True]]
    return means["subject"] - means.get(OWN_NULL, null) - (means["eager"] - null)


def row(data: dict[str, Any]) -> tuple[str, ...]:
    """One measurement."""
    turns = {arm: [steady(turn) for turn in taken] for arm, taken in data["turns"].items()}
    null, with_copy = turns[NULL[data["copies"]]], turns[NULL[True]]
    own, said = turns.get(OWN_NULL), data.get("reported", {})
    return (
        data["workload"],
        str(len(data["turns"]["subject"][0])),
        _shown(turns["subject"]),
        _shown(turns["eager"]),
        _shown(null),
        _shown(own) if own else "",
        f"{steady(data['alone']['null_ns'][str(data['copies'])]) / 1e3:.1f}",
        _shown(_less(turns["subject"], null)),
        _shown(_less(turns["subject"], own)) if own else "",
        _shown(_less(turns["eager"], with_copy)),
        f"{forth_less_back(data) / 1e3:.1f}",
        f"{(said['subject'] - said['eager']) / 1e3:.1f}" if {"subject", "eager"} <= said.keys() else "",
    )


def forth_less_back(data: dict[str, Any]) -> float:
    """How much longer null runs took on the way forth than back, in nanoseconds."""
    turns = data["turns"][NULL[data["copies"]]]
    return statistics.fmean(steady(turn[0::2]) - steady(turn[1::2]) for turn in turns)


def _less(values: Sequence[float], others: Sequence[float]) -> list[float]:
    return [one - other for one, other in zip(values, others, strict=True)]


def _shown(values: Sequence[float]) -> str:
    return f"{statistics.fmean(values) / 1e3:.1f} ± {statistics.pstdev(values) / 1e3:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
