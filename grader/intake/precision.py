"""Checks how precisely and for how long a submission asks to be measured.  Pure."""

from __future__ import annotations

from grader.errors import FieldViolation
from grader.v1 import submission_pb2
from sandbox.protocol import wire

PRECISION_LEAST, PRECISION_MOST = 0.001, 0.2
MEASURE_LEAST_S, MEASURE_MOST_S = 0.1, 30.0
_TIMED = {"precision": (wire.Mode.BENCHMARK, wire.Mode.SWEEP), "measure_duration": (wire.Mode.BENCHMARK,)}


def check_precision(asked: submission_pb2.Submission, mode: wire.Mode) -> list[FieldViolation]:
    """What is wrong with `precision` and `measure_duration`. Ranked results are measured alike, so there is no choice."""
    violations = [
        FieldViolation(field, _not_in(mode, modes)) for field, modes in _TIMED.items() if asked.HasField(field) and mode not in modes
    ]
    if asked.HasField("precision") and not PRECISION_LEAST <= asked.precision <= PRECISION_MOST:
        bounds = f"from {PRECISION_LEAST:g} to {PRECISION_MOST:g} ({100 * PRECISION_LEAST:g} to {100 * PRECISION_MOST:g} %)"
        text = f"is {asked.precision:g} ({100 * asked.precision:g} %); it has to be {bounds}, such as 0.01 for one percent"
        violations.append(FieldViolation("precision", text))
    if asked.HasField("measure_duration"):
        seconds = asked.measure_duration.seconds + asked.measure_duration.nanos / 1e9
        if not MEASURE_LEAST_S <= seconds <= MEASURE_MOST_S:
            text = f"is {seconds:g} s; it has to be from {MEASURE_LEAST_S:g} s to {MEASURE_MOST_S:g} s"
            violations.append(FieldViolation("measure_duration", text))
    return violations


def _not_in(mode: wire.Mode, modes: tuple[wire.Mode, ...]) -> str:
    names = " and ".join(f"MODE_{one.name}" for one in modes)
    if mode is wire.Mode.RANKED:
        return f"is for {names} only: the server decides how ranked results are measured, the same for everybody; leave it out"
    if mode is wire.Mode.SWEEP:
        return f"is for {names} only; set `sweep.measure_duration` for a sweep"
    return f"is for {names} only, and this is MODE_{mode.name}; leave it out"
