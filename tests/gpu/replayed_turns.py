"""Recorded gradings of equal functions, as if their turns had been taken by the rule that ends them: what it would have said, and after how
many runs (docs/decisions/0057).

    python -m tests.gpu.replayed_turns tests/unit/recorded/h200_a_quiet_hour.jsonl.gz ...

Recorded turns have up to 30 ABBAs. They are cut into turns of as many as a turn has today; what is measured first is taken first.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.judge.timing.interleaved import EAGER, REPEAT_LIMIT, SUBJECT
from sandbox.judge.timing.stopping import LOOKS, LookAllowance, end_of
from sandbox.protocol import wire
from tests.gpu.clock_records import net_of, records
from tests.gpu.families import SAME
from tests.gpu.figures import LOSER, WINNER, half_width
from tools.page import Table

COLUMNS = (
    *("size", "about, us", "rule", "gradings", "turns", "runs, of those recorded", "mean half-width", "as narrow as asked", "without 1"),
    *("winners", "losers", "ends"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How turns end. precision: None: all that were recorded are taken, in the turns that they were recorded in."""

    name: str
    allowance: LookAllowance
    precision: float | None = None

    @property
    def wanted(self) -> float:
        """What half-width is asked for."""
        return self.precision or 0.01


FIXED = Rule(name="fixed, as recorded", allowance=LookAllowance.NONE)
RULES = (
    FIXED,
    Rule(name="1 %", allowance=LookAllowance.FACTOR, precision=0.01),
    Rule(name="0.5 %, ranked", allowance=LookAllowance.POCOCK, precision=0.005),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One grading: turns and runs taken, why they ended, and what was found; None where there is no figure."""

    turn_count: int
    run_share: float
    end: wire.MeasurementEnd | None
    found: wire.Speedup | None


def cut(data: dict[str, Any], repeats: int = REPEAT_LIMIT) -> dict[str, Any]:
    """The same runs in turns of at most so many ABBAs; what is left of a turn is a turn of its own where it is at least half of one."""
    size = 2 * repeats

    def pieces(turn: list[int]) -> list[list[int]]:
        found = [turn[start : start + size] for start in range(0, len(turn), size)]
        return found[:-1] if len(found) > 1 and 2 * len(found[-1]) < size else found

    return {**data, "turns": {arm: [one for turn in turns for one in pieces(turn)] for arm, turns in data["turns"].items()}}


def replay(data: dict[str, Any], rule: Rule) -> Replay:
    """Take turns until the rule ends them, or no more were recorded."""
    recorded = sum(map(len, data["turns"][SUBJECT]))
    whole = data if rule.precision is None else cut(data)
    limit, end = len(whole["turns"][SUBJECT]), None
    counts = [limit] if rule.precision is None else [*(one for one in LOOKS if one < limit), min(limit, LOOKS[-1])]
    for count in counts:
        taken = {**whole, "turns": {arm: turns[:count] for arm, turns in whole["turns"].items()}}
        net = net_of(taken, rule.allowance)
        end = None if rule.precision is None else end_of(count, min(limit, LOOKS[-1]), net.look, rule.precision)
        if end is not None:
            break
    return Replay(
        turn_count=count,
        run_share=sum(map(len, taken["turns"][SUBJECT])) / recorded,
        end=end,
        found=next((one for one in net.speedups if one.baseline == EAGER), None),
    )


def row(name: str, about_us: float, rule: Rule, found: Sequence[Replay]) -> tuple[str, ...]:
    """What the gradings of one size come to."""
    known = [one.found for one in found if one.found is not None]
    widths = [half_width(one) for one in known]
    ends = Counter(one.end for one in found if one.end is not None)
    return (
        name,
        f"{about_us:g}",
        rule.name,
        str(len(found)),
        f"{statistics.fmean(one.turn_count for one in found):.1f}",
        f"{100 * statistics.fmean(one.run_share for one in found):.0f} %",
        f"{100 * statistics.fmean(widths):.2f} %" if widths else "-",
        f"{100 * sum(one <= rule.wanted for one in widths) / len(found):.0f} %",
        str(sum(not one.ratio_low <= 1 <= one.ratio_high for one in known)),
        str(sum(one.ratio_low > WINNER for one in known)),
        str(sum(one.ratio_high < LOSER for one in known)),
        ", ".join(f"{count} {end}" for end, count in sorted(ends.items())),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or not all(Path(word).exists() for word in words):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    gradings = [data for word in words for data in records(Path(word))]
    about_us = {size.name: size.about_us for size in SAME.sizes}
    rows = list[Sequence[object]]()
    for name in sorted({data["workload"] for data in gradings}, key=lambda one: about_us.get(one, 0.0)):
        own = [data for data in gradings if data["workload"] == name]
        rows += [row(name, about_us.get(name, 0.0), rule, [replay(data, rule) for data in own]) for rule in RULES]
    sys.stdout.write("\n".join(Table(headings=COLUMNS, title="", rows=rows).lines()) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
