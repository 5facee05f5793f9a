"""Whether device and host were quiet while a kernel was timed, as null runs tell.  Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from enum import Enum

from sandbox.judge.timing.speedup import steady

NULL_SLACK_NS = 5_000
OWN_SLACK_NS = 2_000  # what the subject's process may cost more than the trusted one by its own word: less than a lie is worth
SCATTER_NS = 15_000  # on a quiet device the middle half of the null runs lies within 3 to 6 us


class NoiseKind(Enum):
    """How null runs show that somebody kept device or host busy: they scatter, or are slower in most turns than they were alone; or the
    subject's own are slower in most turns than is believed."""

    NONE = "none"
    SLOWER = "slower"
    SCATTER = "scatter"
    OWN = "own"


def undisturbed_rounds(own: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]], alone_ns: float) -> list[int]:
    """The turns in which the subject's null runs took no longer than it is believed: in the others something slowed its process, or it
    lies, and what is subtracted there is too little."""
    return [
        number
        for number, (ours, other) in enumerate(zip(own, theirs, strict=True))
        if steady(ours) <= min(steady(other), alone_ns + NULL_SLACK_NS) + OWN_SLACK_NS
    ]


def classify_noise(turns: Sequence[Sequence[int]], alone_ns: float) -> NoiseKind:
    """What the trusted runner's null runs say of the device while there is a subject; one of them that took long says nothing."""
    ordered = sorted(one for turn in turns for one in turn)
    if ordered[3 * len(ordered) // 4] - ordered[len(ordered) // 4] > SCATTER_NS:
        return NoiseKind.SCATTER
    return NoiseKind.SLOWER if statistics.median(steady(turn) for turn in turns) > alone_ns + NULL_SLACK_NS else NoiseKind.NONE
