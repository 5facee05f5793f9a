"""The fold rejects by default, and its sentences say what happened."""

import dataclasses

import pytest

from grader.model import Verdict
from grader.verdict.fold import IncompleteFacts, fold
from sandbox.protocol import wire
from sandbox.protocol.wire import BuildOutcome, LoadOutcome, TrialOutcome, TrialPhase

BUILT = wire.Build(outcome=BuildOutcome.BUILT, artifact_digest="d")
PLAN = wire.Plan(trials=(("a", TrialPhase.VERIFY, 2), ("b", TrialPhase.VERIFY, 2)))
LOADED = wire.Load(outcome=LoadOutcome.LOADED)
FINISHED = wire.Finished(job_id="j")


def trial(workload: str, outcome: TrialOutcome = TrialOutcome.PASSED, **more: object) -> wire.Trial:
    return wire.Trial(workload_id=workload, phase=more.pop("phase", TrialPhase.VERIFY), index=0, outcome=outcome, **more)  # type: ignore[arg-type]


def timed(**fields: object) -> wire.Measurement:
    """Times by the device's events that nothing is wrong with."""
    bare = wire.Measurement(
        workload_id="a", clock=wire.Clock.DEVICE_EVENTS, certified=wire.Samples(durations_ns=(1,)), bound_ns=1, floor_ns=60_000
    )
    return dataclasses.replace(bare, **fields)  # type: ignore[arg-type]


GOOD = (BUILT, PLAN, LOADED, trial("a"), trial("a"), trial("b"), trial("b"), FINISHED)


def test_all_planned_trials_passed_is_accepted() -> None:
    assert fold(GOOD).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("missing", range(2, 7))
def test_one_missing_fact_is_not_accepted(missing: int) -> None:
    report = fold(fact for index, fact in enumerate(GOOD) if index != missing)
    assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, "INCOMPLETE")


def test_no_plan_is_not_accepted() -> None:
    assert fold((BUILT, LOADED, trial("a"), FINISHED)).verdict is not Verdict.ACCEPTED


@pytest.mark.parametrize("facts", [(), (BUILT,), (BUILT, PLAN, LOADED, trial("a")), GOOD[:-1]])
def test_facts_that_end_before_the_judge_are_our_fault(facts: tuple[wire.Fact, ...]) -> None:
    """Silence is neither a pass nor the kernel's failure: the attempt is repeated."""
    with pytest.raises(IncompleteFacts):
        fold(facts)


@pytest.mark.parametrize("outcome", [outcome for outcome in TrialOutcome if outcome is not TrialOutcome.PASSED])
def test_one_failed_trial_among_good_ones_is_not_accepted(outcome: TrialOutcome) -> None:
    assert fold((*GOOD[:-1], trial("b", outcome), FINISHED)).verdict is not Verdict.ACCEPTED


def test_a_failed_certified_run_is_not_accepted() -> None:
    later = wire.Plan(trials=(("a", TrialPhase.CERTIFY, 1),))
    bad = trial("a", TrialOutcome.MISMATCHED, phase=TrialPhase.CERTIFY, mismatched_count=1, element_count=4)
    report = fold((*GOOD[:-1], later, bad, FINISHED))
    assert (report.verdict, report.reason) == (Verdict.WRONG_ANSWER, "MISMATCH")
    assert "while it was timed" in report.summary
    assert "have to join the given stream" in report.summary  # what it left to a stream of its own is missing when its time has ended
    verified = dataclasses.replace(bad, phase=TrialPhase.VERIFY)
    assert "stream" not in fold((*GOOD[:-1], later, verified, FINISHED)).summary


def test_unwritten_output_is_named_with_its_share() -> None:
    report = fold((*GOOD[:3], trial("a", TrialOutcome.UNWRITTEN, element_count=4096, unwritten_count=4032), FINISHED))
    assert (report.verdict, report.reason) == (Verdict.WRONG_ANSWER, "UNWRITTEN_OUTPUT")
    assert "4032 of 4096" in report.summary and "98.4 %" in report.summary


@pytest.mark.parametrize(
    ("cause", "signal", "verdict", "reason"),
    [
        ("signalled", 11, Verdict.RUNTIME_ERROR, "ILLEGAL_ADDRESS"),
        ("exited", None, Verdict.RUNTIME_ERROR, "EXITED"),
        ("memory_limit", 9, Verdict.MEMORY_LIMIT_EXCEEDED, "HOST_MEMORY"),
        ("output_limit", 9, Verdict.OUTPUT_LIMIT_EXCEEDED, "STDOUT"),
        ("wall_limit", 9, Verdict.TIME_LIMIT_EXCEEDED, "RUN"),
        ("sandbox_violation", 31, Verdict.DISQUALIFIED, "SANDBOX_VIOLATION"),
    ],
)
def test_a_crash_is_explained_by_how_the_box_ended(cause: str, signal: int | None, verdict: Verdict, reason: str) -> None:
    """The judge only sees the runner go; the box knows why."""
    end = wire.RunEnd(cause=cause, signal=signal, exit_code=0)
    report = fold((*GOOD[:3], trial("a", TrialOutcome.CRASHED), FINISHED, end))
    assert (report.verdict, report.reason) == (verdict, reason)
    assert (report.exit_code, report.signal) == ((0, signal) if cause in ("exited", "signalled") else (None, None))


def test_a_hidden_workload_is_not_told_by_an_exit_code() -> None:
    """Eight bits of a size would be in it. Nor by that of a kernel which was judged before it ended."""
    end = wire.RunEnd(cause="exited", exit_code=33)
    for outcome, hidden, shown in (
        (TrialOutcome.CRASHED, False, 33),
        (TrialOutcome.CRASHED, True, None),
        (TrialOutcome.RAISED, False, None),
    ):
        report = fold((*GOOD[:3], trial("a", outcome, hidden=hidden), FINISHED, end))
        assert (report.verdict, report.exit_code) == (Verdict.RUNTIME_ERROR, shown)


@pytest.mark.parametrize("cause", ["exited", "memory_limit", "output_limit", "sandbox_violation"])
def test_how_the_box_ended_can_not_spoil_a_kernel_that_did_its_work(cause: str) -> None:
    """Only what the judge saw decides; a box that ends badly after the last trial changes nothing."""
    assert fold((*GOOD, wire.RunEnd(cause=cause))).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize(("fact_count", "accepted"), [(12, True), (11, False)])
def test_runs_are_counted_not_facts(fact_count: int, accepted: bool) -> None:
    plan = wire.Plan(trials=(("a", TrialPhase.CERTIFY, 24),))
    runs = [trial("a", phase=TrialPhase.CERTIFY, run_count=2)] * fact_count
    report = fold((*GOOD[:-1], plan, *runs, FINISHED))
    assert (report.verdict is Verdict.ACCEPTED) is accepted
    assert ("all 28 runs" if accepted else "22 of 24") in report.summary


def test_a_failed_trial_never_stands_for_runs_that_passed() -> None:
    plan = wire.Plan(trials=(("a", TrialPhase.CERTIFY, 24),))
    failed = trial("a", TrialOutcome.MISMATCHED, phase=TrialPhase.CERTIFY, run_count=24, mismatched_count=1, element_count=4)
    assert fold((*GOOD[:-1], plan, failed, FINISHED)).verdict is Verdict.WRONG_ANSWER


@pytest.mark.parametrize("outcome", [outcome for outcome in BuildOutcome if outcome is not BuildOutcome.BUILT])
def test_a_build_that_failed_decides(outcome: BuildOutcome) -> None:
    report = fold((wire.Build(outcome=outcome, log="x"),))
    assert report.verdict is not Verdict.ACCEPTED and report.build is not None


def test_a_claim_far_below_the_clock_is_disqualified() -> None:
    seen, claimed = wire.Samples(durations_ns=(100_000_000, 110_000_000)), wire.Samples(durations_ns=(1,))
    measurement = timed(clock=wire.Clock.HOST, certified=seen, bound_ns=100_000_000, reported=claimed)
    report = fold((*GOOD[:-1], measurement, FINISHED))
    assert (report.verdict, report.reason) == (Verdict.DISQUALIFIED, "TIMING_TAMPERED")
    honest = dataclasses.replace(measurement, reported=wire.Samples(durations_ns=(90_000_000,)))
    assert fold((*GOOD[:-1], honest, FINISHED)).verdict is Verdict.ACCEPTED


def test_a_time_that_the_device_can_not_reach_is_disqualified() -> None:
    """The rules are those of `grader.verdict.timing_audit`; nothing is left of the times, and an honest neighbour does not save it."""
    seen, claimed = wire.Samples(durations_ns=(1_200_000,)), wire.Samples(durations_ns=(1_190_000,))
    honest = timed(certified=seen, bound_ns=1_200_000, reported=claimed, physical_floor_ns=1_000_000)
    assert fold((*GOOD[:-1], honest, FINISHED)).verdict is Verdict.ACCEPTED
    impossible = dataclasses.replace(honest, reported=wire.Samples(durations_ns=(700_000,)))
    report = fold((*GOOD[:-1], honest, impossible, FINISHED))
    assert (report.verdict, report.reason) == (Verdict.DISQUALIFIED, "BELOW_PHYSICAL_FLOOR")
    assert report.measurements == () and report.speedups == ()


def test_a_wrong_kernel_is_wrong_before_it_is_too_fast() -> None:
    """What is not computed can be fast; a wrong answer says more than an impossible time."""
    fast = timed(physical_floor_ns=1_000_000)
    bad = trial("b", TrialOutcome.MISMATCHED, mismatched_count=1, element_count=4)
    assert fold((*GOOD[:-1], fast, bad, FINISHED)).verdict is Verdict.WRONG_ANSWER


def test_a_rejected_kernel_has_no_speedup() -> None:
    speedup = wire.Speedup(baseline="eager", ratio=150.0, ratio_low=149.0, ratio_high=151.0)
    measurement = timed(clock=wire.Clock.HOST, certified=wire.Samples(durations_ns=(1000,)), bound_ns=1000, speedups=(speedup,))
    report = fold((*GOOD[:-1], measurement, trial("b", TrialOutcome.MISMATCHED), FINISHED))
    assert report.speedups == () and report.measurements == ()
    assert fold((*GOOD[:-1], measurement, FINISHED)).speedups[0].ratio == pytest.approx(150.0)


def test_a_violation_is_disqualified() -> None:
    violation = wire.Violation(kind=wire.ViolationKind.PROTOCOL, detail="the runner answered a call that was never made")
    assert fold((BUILT, PLAN, LOADED, violation, FINISHED)).verdict is Verdict.DISQUALIFIED


@pytest.mark.parametrize(
    "outcome", [TrialOutcome.UNWRITTEN, TrialOutcome.MISMATCHED, TrialOutcome.NON_FINITE, TrialOutcome.RAISED, TrialOutcome.WRONG_SHAPE]
)
def test_the_sentence_does_not_tell_a_hidden_size(outcome: TrialOutcome) -> None:
    """Counts and messages of a hidden workload would; the same sentence about a public one has them."""
    counts = {"element_count": 7919, "unwritten_count": 7919, "mismatched_count": 7919, "nonfinite_count": 7919}
    for hidden in (True, False):
        bad = trial("w7919", outcome, hidden=hidden, message="length 7919", max_absolute_error=1.0, **counts)
        summary = fold((*GOOD[:3], bad, FINISHED)).summary
        assert ("7919" in summary) is not hidden
