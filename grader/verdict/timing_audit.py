"""Audits measurements: which claims nobody can have earned, how near to the device's ceilings they come, what is flagged.  Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from grader.model import Decision, Reason, Verdict
from sandbox.protocol import wire
from sandbox.protocol.devices import throttled

# A claim this far below everything that the judge's clock saw is no noise: no kernel is timed so wrong by accident. The host's clock
# of a busy machine sees 50 times a short kernel's time and is given more: an honest 0.2 ms was seen as 7 ms next to four compilers, and as
# over 20 ms next to fourteen. There a trusted baseline is seen as wrong, too, and that often is forgiven.
TAMPERED_FACTOR = 10.0
FORGIVEN_TIMES = 2.0
TAMPERED_FLOOR_NS = {wire.Clock.DEVICE_EVENTS: 100_000, wire.Clock.HOST: 20_000_000}
# How far under the physical floor a time has to be (docs/decisions/0013): events resolve 1 us at worst; the certified bound is the
# difference of two runs of the protocol, so its noise grows with what the protocol itself takes.
CLAIM_SLACK_NS = 1_000
BOUND_SLACK_NS = 25_000
BOUND_SLACK_SHARE = 0.05
BYTES_CEILING, FLOPS_CEILING = "bytes_per_s", "flops_per_s:"


def impossible(measurements: Sequence[wire.Measurement]) -> Decision | None:
    """DISQUALIFIED where a time is out of the clock's reach, or out of the device's."""
    decisions = (rule(measurement) for rule in (_tampered, _below_floor) for measurement in measurements)
    return next((decision for decision in decisions if decision is not None), None)


def _tampered(measurement: wire.Measurement) -> Decision | None:
    """A claimed time far under the certified ones. The other way round is the kernel's own loss."""
    if measurement.reported is None:
        return None
    claim, shortest = median(measurement.reported), measurement.shortest_ns
    shortest = min(measurement.certified.durations_ns) if shortest is None else shortest
    slack_ns = TAMPERED_FLOOR_NS[measurement.clock] + FORGIVEN_TIMES * _host_noise_ns(measurement)
    if shortest <= TAMPERED_FACTOR * claim or shortest - claim <= slack_ns:
        return None
    sentence = f"{claim / 1e6:.3g} ms per launch where the judge's clock never saw less than {shortest / 1e6:.3g} ms"
    if measurement.hidden:  # times would tell its size
        sentence = "far less time per launch on a hidden workload than the judge's clock ever saw"
    advice = "do all work on the caller's stream, or join every other stream and thread to it before returning, and leave the timer alone."
    return Verdict.DISQUALIFIED, Reason.TIMING_TAMPERED, f"Its process claims {sentence}; {advice}"


def _host_noise_ns(measurement: wire.Measurement) -> float:
    """How far over its own claim the host's clock sees a baseline, which claims the truth; by a device's clock it is nothing."""
    if measurement.clock is not wire.Clock.HOST:
        return 0.0
    claims = measurement.reported_baselines
    return max([0.0, *(median(samples) - median(claims[name]) for name, samples in measurement.baselines.items() if name in claims)])


def _below_floor(measurement: wire.Measurement) -> Decision | None:
    """A time that the device's memory and arithmetic do not allow. The emulated device has no such floor."""
    floor_ns = measurement.physical_floor_ns
    if floor_ns is None or measurement.clock is not wire.Clock.DEVICE_EVENTS:
        return None
    if measurement.reported is not None and median(measurement.reported) < floor_ns - CLAIM_SLACK_NS:
        return _impossibly_fast(measurement, "Its process claims", median(measurement.reported), floor_ns)
    slack_ns = BOUND_SLACK_NS + BOUND_SLACK_SHARE * (floor_ns + measurement.floor_ns)
    if measurement.bound_ns < floor_ns - slack_ns:
        return _impossibly_fast(measurement, "The judge's clock saw at most", measurement.bound_ns, floor_ns)
    # Of a kernel that returns its outputs the copy of them is forgiven, and who writes to where they are copied leaves nothing to copy.
    if median(measurement.certified) < floor_ns - slack_ns:
        return _impossibly_fast(measurement, "Less the copy of its outputs the judge's clock saw", median(measurement.certified), floor_ns)
    return None


def _impossibly_fast(measurement: wire.Measurement, who: str, time_ns: float, floor_ns: int) -> Decision:
    parts = [f"move {_amount(measurement.moved_bytes, 'B')}"] if measurement.moved_bytes else []
    parts += [f"do {_amount(measurement.flops, 'flop')}"] if measurement.flops else []
    sentence = (
        f"{_time(time_ns)} per launch on workload '{measurement.workload_id}'; to {' and '.join(parts) or 'do the work'} takes "
        f"this device at least {_time(floor_ns)} at the rates measured on it, with a tenth and its cache allowed for"
    )
    if measurement.hidden:  # floor and amounts would tell its size
        sentence = "less time per launch on a hidden workload than this device needs to move its data and to do its arithmetic"
    advice = "compute every output from this call's inputs, on the caller's stream, and leave the timer alone."
    return Verdict.DISQUALIFIED, Reason.BELOW_PHYSICAL_FLOOR, f"{who} {sentence}; {advice}"


def overall(measurements: Sequence[wire.Measurement]) -> tuple[wire.Speedup, ...]:
    """Per baseline, the geometric mean over workloads; the interval's ends likewise, which is wider than needed, never narrower. Only where
    every workload has a figure that is resolved: a mean over some of them would be of another problem."""
    names = sorted({speedup.baseline for measurement in measurements for speedup in measurement.speedups})
    rows = {name: [speedup for row in measurements for speedup in row.speedups if speedup.baseline == name] for name in names}
    means = [_geometric(name, ratios) for name, ratios in rows.items() if len(ratios) == len(measurements)]
    return tuple(speedup for speedup in means if resolved(speedup.ratio_low, speedup.ratio_high))


def resolved(low: float, high: float) -> bool:
    """Return whether an interval is narrow enough for the figure in it to mean something."""
    return 0 < low <= high <= wire.RESOLVED_FACTOR * low


def _geometric(name: str, speedups: list[wire.Speedup]) -> wire.Speedup:
    def mean(field: str) -> float:
        values = [getattr(speedup, field) for speedup in speedups]
        if min(values) <= 0:
            return 0.0
        return math.exp(min(math.fsum(map(math.log, values)) / len(values), 700.0))

    return wire.Speedup(baseline=name, ratio=mean("ratio"), ratio_low=mean("ratio_low"), ratio_high=mean("ratio_high"))


def flags(measurements: Sequence[wire.Measurement]) -> tuple[str, ...]:
    """Return what a reader should know of these times, by its name."""
    raised = {
        "REPORTED_TIME_NOT_CONFIRMED": any(not row.reported_confirmed for row in measurements),
        "DEVICE_NOT_QUIET": any(row.disturbed for row in measurements),
        "BASELINE_SLOWED": any(row.baseline_slowed for row in measurements),
        "SPEEDUP_NOT_RESOLVED": any(not row.speedups for row in measurements),
        "THROTTLED": any(throttled(row.conditions) for row in measurements),
        "EMULATED_NOT_RANKED": any(row.clock is wire.Clock.HOST for row in measurements),
    }
    return tuple(flag for flag, is_raised in raised.items() if is_raised)


def bandwidth_share(measurement: wire.Measurement, ceilings: Mapping[str, float]) -> float | None:
    """The declared bytes in the certified time, over what the device's memory moves at most."""
    return _share(measurement.moved_bytes, measurement, ceilings.get(BYTES_CEILING))


def peak_share(measurement: wire.Measurement, ceilings: Mapping[str, float], dtype: str) -> float | None:
    """The declared arithmetic in the certified time, over what the device does at most in dtype, tensor cores and all."""
    return _share(measurement.flops, measurement, ceilings.get(FLOPS_CEILING + dtype))


def _share(amount: int | None, measurement: wire.Measurement, ceiling_per_s: float | None) -> float | None:
    taken_ns = median(measurement.certified)
    if not amount or not ceiling_per_s or ceiling_per_s <= 0 or taken_ns <= 0:
        return None
    return amount / (taken_ns / 1e9) / ceiling_per_s


def median(samples: wire.Samples) -> float:
    """The middle one, in nanoseconds."""
    return float(statistics.median(samples.durations_ns))


def _time(time_ns: float) -> str:
    return f"{time_ns / 1e3:.3g} us" if abs(time_ns) < 999_500 else f"{time_ns / 1e6:.3g} ms"


def _amount(value: int, unit: str) -> str:
    for size, prefix in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value} {unit}"
