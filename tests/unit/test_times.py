"""A time that nobody can have earned disqualifies; the noise of honest clocks never does."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from grader.model import Verdict
from grader.verdict.timing_audit import bandwidth_share, flags, impossible, median, overall, peak_share
from sandbox.judge.timing import physical_floor_ns
from sandbox.protocol import wire

CEILINGS = {"bytes_per_s": 4e12, "flops_per_s:float32": 4e14, "l2_bytes": 50e6}


def samples(*durations_ns: int) -> wire.Samples:
    return wire.Samples(durations_ns=durations_ns)


def measured(claim_ns: int | None, certified_ns: int, **fields: object) -> wire.Measurement:
    """Times as an H200 gives them for 201 MB, at least 37 us of work."""
    measurement = wire.Measurement(
        workload_id="n4096",
        clock=wire.Clock.DEVICE_EVENTS,
        certified=samples(certified_ns),
        bound_ns=certified_ns + 15_000,
        floor_ns=300_000,
        reported=None if claim_ns is None else samples(claim_ns),
        reported_confirmed=True,
        physical_floor_ns=100_000,
        moved_bytes=400_000_000,
        flops=40_000_000_000,
    )
    return replace(measurement, **fields)  # type: ignore[arg-type]


def reason(*measurements: wire.Measurement) -> str:
    decision = impossible(measurements)
    if decision is None:
        return ""
    assert decision[0] is Verdict.DISQUALIFIED
    return decision[1]


def test_a_claim_below_the_physical_floor_is_disqualified() -> None:
    decision = impossible([measured(50_000, 60_000)])
    assert decision is not None and decision[:2] == (Verdict.DISQUALIFIED, "BELOW_PHYSICAL_FLOOR")
    for figure in ("50 us", "100 us", "400 MB", "40 Gflop", "'n4096'"):
        assert figure in decision[2]
    # 5 us claimed, 3 ms seen: a side stream that do_bench does not see, told before the floor, with what an honest author has to do.
    decision = impossible([measured(5_000, 3_000_000)])
    assert decision is not None and decision[1] == "TIMING_TAMPERED" and "stream" in decision[2]


BELOW = "BELOW_PHYSICAL_FLOOR"


@pytest.mark.parametrize(
    ("claim_ns", "certified_ns", "fields", "expected"),
    [
        (110_000, 5_000, {"bound_ns": 20_000}, BELOW),  # also where the process claims a time that is possible
        (None, 5_000, {"bound_ns": 20_000}, BELOW),
        # The bound has the time of the copy that is forgiven; what is scored has not.
        (110_000, 20_000, {"bound_ns": 110_000}, BELOW),
        (110_000, 90_000, {"bound_ns": 110_000}, ""),
        (99_100, 100_000, {}, ""),  # what events do not resolve is no offence
        (98_900, 100_000, {}, BELOW),
        # The host's clock has no physical floor, nor has a workload that declares nothing.
        (1_000, 50_000, {"clock": wire.Clock.HOST, "bound_ns": 1}, ""),
        (1_000, 50_000, {"physical_floor_ns": None, "bound_ns": 1}, ""),
        # One wild sample is no claim: the median is.
        (None, 120_000, {"reported": samples(1, 110_000, 110_000)}, ""),
        (None, 120_000, {"reported": samples(60_000, 60_000, 110_000)}, BELOW),
        (150_000, 1_400_000, {}, ""),  # seen is not ten times the claim
        (5_000, 100_000, {"physical_floor_ns": None}, ""),  # not 100 us apart
    ],
)
def test_a_time_is_held_to_the_physical_floor(claim_ns, certified_ns, fields, expected) -> None:
    assert reason(measured(claim_ns, certified_ns, **fields)) == expected


@pytest.mark.parametrize("moved_bytes", [12_000, 12_000_000, 201_000_000, 805_000_000])
def test_no_honest_kernel_is_below_the_floor(moved_bytes: int) -> None:
    """At the very rate that was measured, its outputs left in the cache, and the protocol's noise twice what was seen on an H200."""
    noise, written = random.Random(1), moved_bytes // 3
    floor_ns = physical_floor_ns(moved_bytes, None, "float32", written, CEILINGS)
    work_ns = round((moved_bytes - min(written, CEILINGS["l2_bytes"])) / CEILINGS["bytes_per_s"] * 1e9)
    protocol_ns = 150_000 + moved_bytes // 2_000  # publishing and the snapshot grow with the size
    for _ in range(500):
        bound_ns = work_ns + round(noise.gauss(0, 0.02 * protocol_ns / 3)) + noise.randrange(-20_000, 20_000)
        honest = measured(work_ns, bound_ns, bound_ns=bound_ns, floor_ns=protocol_ns, physical_floor_ns=floor_ns)
        assert reason(honest) == ""


@pytest.mark.parametrize(("claim_ns", "certified_ns", "expected"), [(50_123, 60_000, BELOW), (5_000, 3_000_000, "TIMING_TAMPERED")])
def test_neither_floor_nor_times_of_a_hidden_workload_are_told(claim_ns: int, certified_ns: int, expected: str) -> None:
    """Nor amounts: each would tell the size."""
    decision = impossible([measured(claim_ns, certified_ns, hidden=True, workload_id="secret33")])
    assert decision is not None and decision[1] == expected
    assert not any(character.isdigit() for character in decision[2]) and "secret" not in decision[2]


def test_a_host_that_sees_its_own_baseline_wrong_accuses_nobody() -> None:
    """Seen 45 ms for a claim of 0.2 ms: tampered, but not where eager's own 0.3 ms are seen as 15 ms."""
    host = {"clock": wire.Clock.HOST, "reported_baselines": {"eager": samples(300_000)}}
    quiet, busy = ({"baselines": {"eager": samples(seen_ns)}, **host} for seen_ns in (1_000_000, 15_000_000))
    assert reason(measured(200_000, 45_000_000, **quiet)) == "TIMING_TAMPERED"
    assert reason(measured(200_000, 45_000_000, **busy)) == ""
    assert reason(measured(200_000, 150_000_000, **busy)) == "TIMING_TAMPERED"
    by_device_clock = {**busy, "clock": wire.Clock.DEVICE_EVENTS, "physical_floor_ns": None}
    assert reason(measured(200_000, 45_000_000, **by_device_clock)) == "TIMING_TAMPERED"  # a device's clock does not depend on the host


@pytest.mark.parametrize(
    ("reasons", "raised"),
    [
        ("", False),
        ("SwPowerCap", False),
        ("SwPowerCap,ApplicationsClocksSetting", False),
        ("HwThermalSlowdown", True),
        ("SwPowerCap, SwThermalSlowdown", True),
        ("HwSlowdown", True),
        ("HwPowerBrakeSlowdown", True),
    ],
)
def test_heat_and_power_brake_are_flagged_and_a_power_cap_is_not(reasons: str, raised: bool) -> None:
    """These devices always run at their power cap."""
    assert ("THROTTLED" in flags([measured(None, 1, conditions={"throttle_reasons": reasons})])) is raised


def test_shares_are_of_the_certified_time() -> None:
    measurement = measured(None, 200_000)
    assert bandwidth_share(measurement, CEILINGS) == pytest.approx(0.5)
    assert peak_share(measurement, CEILINGS, "float32") == pytest.approx(0.5)
    assert peak_share(measurement, CEILINGS, "int64") is None and bandwidth_share(measurement, {}) is None
    assert bandwidth_share(measured(None, -5), CEILINGS) is None


def test_one_impossible_workload_among_honest_ones_decides() -> None:
    """And what says that the timer was tampered with goes before what says only that it can't be, over all workloads."""
    honest, below, tampered = measured(110_000, 120_000), measured(60_000, 120_000), measured(1, 3_000_000)
    assert reason(honest, honest) == ""
    assert reason(honest, below) == "BELOW_PHYSICAL_FLOOR"
    assert reason(honest, below, tampered) == "TIMING_TAMPERED"


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({"reported_confirmed": False}, "REPORTED_TIME_NOT_CONFIRMED"),
        ({"disturbed": True}, "DEVICE_NOT_QUIET"),
        ({"baseline_slowed": True}, "BASELINE_SLOWED"),
        ({"speedups": ()}, "SPEEDUP_NOT_RESOLVED"),
        ({"clock": wire.Clock.HOST}, "EMULATED_NOT_RANKED"),
    ],
)
def test_one_measurement_raises_a_flag_for_all(fields: dict[str, object], flag: str) -> None:
    honest = measured(110_000, 120_000, speedups=(wire.Speedup(baseline="eager", ratio=1.1, ratio_low=1.0, ratio_high=1.2),))
    assert flags([honest]) == ()
    assert flags([honest, replace(honest, **fields)]) == (flag,)  # type: ignore[arg-type]


def test_workloads_are_summed_up_by_the_geometric_mean() -> None:
    """Of each baseline that every workload has, and where the interval means something."""

    def speedup(baseline: str, ratio: float, spread: float = 1.5) -> wire.Speedup:
        return wire.Speedup(baseline=baseline, ratio=ratio, ratio_low=ratio / spread, ratio_high=ratio * spread)

    first = measured(None, 1, speedups=(speedup("eager", 1.0), speedup("compile", 3.0)))
    overall_speedups = overall([first, measured(None, 1, speedups=(speedup("eager", 4.0),))])
    assert [(mean.baseline, pytest.approx(mean.ratio)) for mean in overall_speedups] == [("eager", 2.0)]
    assert (overall_speedups[0].ratio_low, overall_speedups[0].ratio_high) == (pytest.approx(2.0 / 1.5), pytest.approx(3.0))
    assert overall([measured(None, 1, speedups=(speedup("eager", 1.0, spread=2.1),))]) == ()
    assert overall([measured(None, 1)]) == ()
    assert (median(samples(40, 10, 20, 30)), median(samples(7))) == (25.0, 7.0)  # of an even count it lies between
