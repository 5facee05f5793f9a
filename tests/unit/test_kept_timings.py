"""Times of baselines that are kept from job to job: for how long, of which conditions, and when a measurement asks for new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sandbox.protocol import wire
from tests import fakes
from tests.clock import Seconds
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge import baseline
    from sandbox.judge.baseline import KEPT_S, HostActivity, KeptTimings, with_new_nulls
    from sandbox.judge.timing import SoloTimings, TimingSetup, outdated

    TIMINGS = SoloTimings(
        null_ns={False: [1_000], True: [1_000]}, floor_ns=[900], run_ns={"eager": [101_000]}, null_work_ns={False: 10.0, True: 20.0}
    )

SMALL, LARGE = (wire.Workload(workload_id=name, axes={"n": size}) for name, size in (("small", 10), ("large", 99)))
QUIET = {"power_limit_w": "700", "throttle_reasons": "", "temperature_c": "40"}


def problem(digest: str = "d") -> wire.ProblemSpec:
    return replace(fakes.problem().spec, digest=digest, workloads=(SMALL, LARGE))


def stored_timings(clock: Seconds, *, conditions: dict[str, str] = QUIET, digest: str = "d") -> KeptTimings:
    timings = KeptTimings(2, clock)
    timings.load(problem(digest))
    timings.keep(problem(digest), {SMALL.workload_id: TIMINGS}, conditions)
    return timings


def test_all_workloads_are_found_or_none_for_some_minutes() -> None:
    """A job whose second workload was never timed needs new times of all."""
    clock = Seconds()
    timings = stored_timings(clock)
    assert timings.find(problem(), [SMALL], QUIET) == {"small": TIMINGS}
    assert timings.find(problem(), [SMALL, LARGE], QUIET) is None
    timings.keep(problem(), {LARGE.workload_id: TIMINGS}, QUIET)
    assert timings.find(problem(), [SMALL, LARGE], QUIET) == {"small": TIMINGS, "large": TIMINGS}
    assert timings.find(problem(), [replace(SMALL, axes={"n": 11})], QUIET) is None
    assert timings.find(problem("other"), [SMALL], QUIET) is None
    clock.now_s += KEPT_S - 1
    assert timings.find(problem(), [SMALL], QUIET) is not None
    clock.now_s += 2
    assert timings.find(problem(), [SMALL], QUIET) is None


@pytest.mark.parametrize(
    ("then", "now", "fits"),
    [
        (QUIET, QUIET, True),
        (QUIET, QUIET | {"temperature_c": "70"}, True),
        (QUIET, QUIET | {"power_limit_w": "500"}, False),
        (QUIET | {"throttle_reasons": "HwThermalSlowdown"}, QUIET, False),
        (QUIET, QUIET | {"throttle_reasons": "SwThermalSlowdown"}, False),
        (QUIET | {"throttle_reasons": "SwPowerCap"}, QUIET, True),  # so these devices are run
        ({}, {}, True),  # the emulated device has no conditions
    ],
)
def test_they_hold_for_the_conditions_that_they_were_taken_in(then: dict[str, str], now: dict[str, str], fits: bool) -> None:
    """A baseline of a device that was slowed would let a subject slow it."""
    assert (stored_timings(Seconds(), conditions=then).find(problem(), [SMALL], now) is not None) is fits


def test_they_are_forgotten_with_what_was_compiled_for_the_problem() -> None:
    """The trusted runner forgets the problem that it loaded first, and so do they; a problem without a digest is never kept."""
    timings = stored_timings(Seconds())
    timings.load(problem("e"))
    assert timings.find(problem(), [SMALL], QUIET) is not None
    timings.load(problem("f"))
    assert timings.find(problem(), [SMALL], QUIET) is None
    timings.keep(problem(), {SMALL.workload_id: TIMINGS}, QUIET)  # which the runner has not loaded
    assert timings.find(problem(), [SMALL], QUIET) is None
    assert stored_timings(Seconds(), digest="").find(problem(""), [SMALL], QUIET) is None


def test_a_problem_whose_times_did_not_fit_has_none_for_a_while() -> None:
    """Others keep theirs. New ones would not fit either, and each time a measurement would be made twice."""
    clock = Seconds()
    timings = stored_timings(clock)
    timings.load(problem("other"))
    timings.keep(problem("other"), {SMALL.workload_id: TIMINGS}, QUIET)
    timings.forget(problem())
    timings.keep(problem(), {SMALL.workload_id: TIMINGS}, QUIET)
    assert timings.find(problem(), [SMALL], QUIET) is None
    assert timings.find(problem("other"), [SMALL], QUIET) == {"small": TIMINGS}
    assert timings.unfit(problem()) and not timings.unfit(problem("other"))
    clock.now_s += KEPT_S + 1
    assert not timings.unfit(problem())
    timings.keep(problem(), {SMALL.workload_id: TIMINGS}, QUIET)
    assert timings.find(problem(), [SMALL], QUIET) == {"small": TIMINGS}


@pytest.mark.parametrize(("clock", "more_ns"), [(wire.Clock.DEVICE_EVENTS, 250), (wire.Clock.HOST, 0)])
def test_kept_times_have_null_runs_of_now(monkeypatch: pytest.MonkeyPatch, clock: wire.Clock, more_ns: int) -> None:
    """The baselines' runs include what the protocol costs by now, so that a baseline's own time is as it was. Not by the host's clock."""
    monkeypatch.setattr(baseline, "null_runs", lambda *_, floor=False, **__: [(900 if floor else 1_000) + 250] * 3)
    renewed = with_new_nulls(TIMINGS, runner(clock), None)  # type: ignore[arg-type]  # null runs alone need it
    assert renewed.run_ns == {"eager": [101_000 + more_ns]} and renewed.floor_ns[0] == 900 + more_ns
    assert renewed.null_work_ns == TIMINGS.null_work_ns  # the probe's runs are as much longer
    assert {copies: runs_ns[0] for copies, runs_ns in renewed.null_ns.items()} == {False: 1_000 + more_ns, True: 1_000 + more_ns}


@pytest.mark.parametrize(
    ("used_s", "core_count", "quiet"), [(0.5, 2, True), (0.7, 2, False), (7.0, 2, False), (7.0, 8, True), (9.0, 8, False), (None, 2, True)]
)
def test_a_machine_is_quiet_while_others_do_next_to_nothing(used_s: float | None, core_count: int, quiet: bool) -> None:
    """Within two seconds; on a machine of many cores others may use those that judge and baseline do not need."""
    clock, used_ns = Seconds(), iter((10**9, None if used_s is None else 10**9 + round(used_s * 1e9)))
    activity = HostActivity(lambda: next(used_ns), clock)
    clock.now_s += 2.0
    assert activity.quiet(core_count) is quiet


def runner(clock: wire.Clock) -> Any:
    return type("Runner", (), {"device": type("Device", (), {"CLOCK": clock})()})()


def not_fitting(clock: wire.Clock, beside_ns: int, alone_ns: int = 100_000_000, **changed: object) -> bool:
    """Return whether a baseline's time next to the subject does not fit 100 us alone, by the host's clock 100 ms."""
    alone = TIMINGS if clock is wire.Clock.DEVICE_EVENTS else replace(TIMINGS, run_ns={"eager": [alone_ns + 1_000]})
    parties = TimingSetup(subject=runner(clock), trusted=runner(clock), copies=False, alone=alone, budget_s=1.0)
    baselines = {"eager": wire.Samples(durations_ns=(beside_ns,))}
    return outdated(parties, replace(fakes.measurement("small"), clock=clock, baselines=baselines, **changed))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("clock", "fits", "too_fast"), [(wire.Clock.DEVICE_EVENTS, 96_000, 90_000), (wire.Clock.HOST, 46_000_000, 44_000_000)]
)
def test_times_that_do_not_fit_a_measurement_are_outdated(clock: wire.Clock, fits: int, too_fast: int) -> None:
    """A baseline that is faster next to the subject than alone was slowed when it was alone; one that is slower is slowed now."""
    assert not not_fitting(clock, fits)
    assert not_fitting(clock, too_fast)
    assert not_fitting(clock, fits, baseline_slowed=True) and not_fitting(clock, fits, disturbed=True)
