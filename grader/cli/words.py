"""How things are said to people, as `grader/views/formatting.py` says them."""

from __future__ import annotations

from grader.views.formatting import (
    FLAGS,
    PRACTICE,
    ceilings,
    duration_ns,
    error,
    median,
    middle_time,
    name_of,
    outcome_name,
    ratio,
    score,
    share,
    spread,
    state_name,
    time,
    verdict_name,
)

__all__ = [
    "FLAGS",
    "PRACTICE",
    "ceilings",
    "duration_ns",
    "error",
    "median",
    "middle_time",
    "name_of",
    "outcome_name",
    "ratio",
    "score",
    "share",
    "spread",
    "state_name",
    "time",
    "verdict_name",
]
