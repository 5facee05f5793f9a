"""Recorded gradings of equal functions, as if their turns had been taken by the rule that ends them (docs/decisions/0057).

Recorded turns have up to 30 ABBAs. They are cut into turns of as many as a turn has today; what is measured first is taken first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sandbox.judge.timing import EAGER, LOOKS, SUBJECT, LookAllowance, end_of
from sandbox.protocol import wire
from tests.gpu.clock_records import net_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How turns end. precision: None: all that were recorded are taken, in the turns that they were recorded in."""

    name: str
    allowance: LookAllowance
    precision: float | None = None


FIXED = Rule(name="fixed, as recorded", allowance=LookAllowance.NONE)
RULES = (
    FIXED,
    Rule(name="1 %", allowance=LookAllowance.FACTOR, precision=0.01),
    Rule(name="0.5 %, ranked", allowance=LookAllowance.POCOCK, precision=0.005),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A grading: the share of its runs that was taken, and its speedup; None where there is no figure."""

    run_share: float
    speedup: wire.Speedup | None


def cut(data: dict[str, Any], repeats: int = 10) -> dict[str, Any]:
    """The same runs in turns of at most so many ABBAs; what is left of a turn is a turn of its own where it is at least half of one."""
    size = 2 * repeats

    def pieces(turn: list[int]) -> list[list[int]]:
        parts = [turn[start : start + size] for start in range(0, len(turn), size)]
        return parts[:-1] if len(parts) > 1 and 2 * len(parts[-1]) < size else parts

    return {**data, "turns": {arm: [piece for turn in turns for piece in pieces(turn)] for arm, turns in data["turns"].items()}}


def replay(data: dict[str, Any], rule: Rule) -> Replay:
    """Take turns until the rule ends them, or no more were recorded."""
    recorded = sum(map(len, data["turns"][SUBJECT]))
    whole = data if rule.precision is None else cut(data)
    limit = len(whole["turns"][SUBJECT])
    counts = [limit] if rule.precision is None else [*(look for look in LOOKS if look < limit), min(limit, LOOKS[-1])]
    for count in counts:
        shortened = {**whole, "turns": {arm: turns[:count] for arm, turns in whole["turns"].items()}}
        net = net_of(shortened, rule.allowance)
        if rule.precision is not None and end_of(count, min(limit, LOOKS[-1]), net.look, rule.precision) is not None:
            break
    return Replay(
        run_share=sum(map(len, shortened["turns"][SUBJECT])) / recorded,
        speedup=next((speedup for speedup in net.speedups if speedup.baseline == EAGER), None),
    )
