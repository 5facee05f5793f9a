"""What a process of ranked mode may say once an earlier one has met a hidden workload.  Pure.

An earlier process may have left a hidden size for a later one, in whatever both can reach. So a later process's words, numbers and exit
codes are hidden from its start on, as those of the earlier one were from its first hidden workload on.
"""

from __future__ import annotations

from dataclasses import replace

from grader.grading.build import cut
from grader.isolation import BoxExit
from grader.rules.disclosure import Exposure, redact
from sandbox.protocol import wire

LEFT_OUT = "\n(what was printed since the hidden workloads were run is left out)\n"
LOAD_FAILED = "the message is not shown, because an earlier process has met the hidden workloads"


def after_hidden(fact: wire.Fact) -> wire.Fact:
    """A fact of a later process, without what its kernel could choose to carry a size: messages, counts and errors."""
    match fact:
        case wire.Load(outcome=outcome) if outcome is not wire.LoadOutcome.LOADED:
            return replace(redact(fact, Exposure.LATER), message=LOAD_FAILED)
        case wire.Trial(outcome=wire.TrialOutcome.PASSED):
            return redact(fact, Exposure.LATER)
        case wire.Trial():  # of a failed trial only what is shown of a hidden workload
            return replace(fact, hidden=True)
    return fact


def run_end(end: BoxExit, hidden_at_ns: int | None, *, met_before: bool = False) -> wire.RunEnd:
    """How the box ended. hidden_at_ns: when its process met the first hidden workload; met_before: an earlier process met one."""
    if met_before:
        return wire.RunEnd(cause=end.cause, output=LEFT_OUT if end.output else "", wall_ns=end.wall_ns)
    output = end.output if hidden_at_ns is None else end.output_before(hidden_at_ns)
    left_out = LEFT_OUT if len(output) < len(end.output) else ""
    return wire.RunEnd(
        cause=end.cause,
        exit_code=end.exit_code,
        signal=end.signal,
        output=cut(output)[0] + left_out,
        wall_ns=end.wall_ns,
    )
