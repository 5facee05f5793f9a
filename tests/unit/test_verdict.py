"""The fold rejects by default, and its sentences say what happened. A score is drawn only where every process is accepted."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from grader.model import Ranking, Report, ScoreKind, Verdict
from grader.verdict.fold import IncompleteFacts, fold
from sandbox.protocol import wire
from sandbox.protocol.wire import BuildOutcome, LoadOutcome, TrialOutcome, TrialPhase

BUILT = wire.Build(outcome=BuildOutcome.BUILT, artifact_digest="d")
PLAN = wire.Plan(trials=(("a", TrialPhase.VERIFY, 2), ("b", TrialPhase.VERIFY, 2)))
LOADED = wire.Load(outcome=LoadOutcome.LOADED)
FINISHED = wire.Finished(job_id="j")


def trial(workload: str, outcome: TrialOutcome = TrialOutcome.PASSED, **fields: object) -> wire.Trial:
    return wire.Trial(workload_id=workload, phase=fields.pop("phase", TrialPhase.VERIFY), index=0, outcome=outcome, **fields)  # type: ignore[arg-type]


def timed(**fields: object) -> wire.Measurement:
    """Times by the device's events that nothing is wrong with."""
    bare = wire.Measurement(
        workload_id="a", clock=wire.Clock.DEVICE_EVENTS, certified=wire.Samples(durations_ns=(1,)), bound_ns=1, floor_ns=60_000
    )
    return replace(bare, **fields)  # type: ignore[arg-type]


GOOD = (BUILT, PLAN, LOADED, trial("a"), trial("a"), trial("b"), trial("b"), FINISHED)


def test_all_planned_trials_passed_is_accepted() -> None:
    assert fold(GOOD).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("missing", range(1, 7))  # first of all the plan
def test_one_missing_fact_is_not_accepted(missing: int) -> None:
    report = fold(fact for index, fact in enumerate(GOOD) if index != missing)
    assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, "INCOMPLETE")


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
    verified = replace(bad, phase=TrialPhase.VERIFY)
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
    several = folded([process(0), [*process(1)[:3], trial("a", TrialOutcome.CRASHED), FINISHED, end]])
    assert (several.verdict, several.reason) == (verdict, reason)  # of several processes by the end of its own box
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


@pytest.mark.parametrize("outcome", [outcome for outcome in BuildOutcome if outcome is not BuildOutcome.BUILT])
def test_a_build_that_failed_decides(outcome: BuildOutcome) -> None:
    report = fold((wire.Build(outcome=outcome, log="x"),))
    assert report.verdict is not Verdict.ACCEPTED and report.build is not None


def test_a_build_out_of_time_tells_the_first_error_of_the_quick_headers() -> None:
    """There is one where torch's own headers were tried after it; without one the source is too large."""
    facts = wire.Build(outcome=BuildOutcome.TIMED_OUT, headers="full", fallback="k.cu:3:5: error: no match for ‘operator+’")
    report = fold((facts,))
    assert (report.verdict, report.reason) == (Verdict.TIME_LIMIT_EXCEEDED, "BUILD")
    assert "k.cu:3:5: error: no match for ‘operator+’" in report.summary and "smaller" not in report.summary
    for without in ("", "error: the compiler did not finish in time"):
        assert "make the source smaller" in fold((replace(facts, fallback=without),)).summary


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("NotImplementedError: k.py:3: error: NotImplementedError: the emulated device can't record CUDA graphs", "UNSUPPORTED"),
        ("InterpreterError: Block pointers have been removed in favor of the tensor descriptor API", "UNSUPPORTED"),
        ("ValueError: mine", "RAISED"),
    ],
)
def test_what_this_device_or_triton_lacks_is_unsupported(message: str, reason: str) -> None:
    """Of a hidden workload a kernel's words choose no reason."""
    for hidden in (False, True):
        report = fold((*GOOD[:-1], replace(trial("b", TrialOutcome.RAISED, hidden=hidden), message=message), FINISHED))
        assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, "RAISED" if hidden else reason)
        assert (message in report.summary) is not hidden


def test_an_extension_that_did_not_build_is_told_first() -> None:
    """Whatever the verdict on what the module does without it."""
    built = replace(BUILT, unbuilt="'mine' (k.py:6: error: expected ';')")
    for facts in ((built, *GOOD[1:]), (built, *GOOD[1:-1], trial("b", TrialOutcome.MISMATCHED), FINISHED)):
        prefix = "Without its extension 'mine' (k.py:6: error: expected ';'), which did not build: "
        assert fold(facts).summary == prefix + fold((BUILT, *facts[1:])).summary


def test_parameters_that_contradict_the_problem_are_told_of_a_kernel_that_fails() -> None:
    """First, for they are the cause of what follows; one that is right is right."""
    built = replace(BUILT, mismatch="k.cu:3: `int n` is given the output c")
    failed = fold((built, *GOOD[1:-1], trial("b", TrialOutcome.UNWRITTEN), FINISHED))
    assert failed.summary.startswith("The entry's parameters do not fit: k.cu:3: `int n` is given the output c. It never wrote")
    assert fold((built, *GOOD[1:])).summary == fold(GOOD).summary


def test_a_claim_far_below_the_clock_is_disqualified() -> None:
    certified, claimed = wire.Samples(durations_ns=(100_000_000, 110_000_000)), wire.Samples(durations_ns=(1,))
    measurement = timed(clock=wire.Clock.HOST, certified=certified, bound_ns=100_000_000, reported=claimed)
    report = fold((*GOOD[:-1], measurement, FINISHED))
    assert (report.verdict, report.reason) == (Verdict.DISQUALIFIED, "TIMING_TAMPERED")
    honest = replace(measurement, reported=wire.Samples(durations_ns=(90_000_000,)))
    assert fold((*GOOD[:-1], honest, FINISHED)).verdict is Verdict.ACCEPTED


def test_a_time_that_the_device_can_not_reach_is_disqualified() -> None:
    """The rules are those of `grader.verdict.timing_audit`; nothing is left of the times, and an honest neighbour does not save it."""
    certified, claimed = wire.Samples(durations_ns=(1_200_000,)), wire.Samples(durations_ns=(1_190_000,))
    honest = timed(certified=certified, bound_ns=1_200_000, reported=claimed, physical_floor_ns=1_000_000)
    assert fold((*GOOD[:-1], honest, FINISHED)).verdict is Verdict.ACCEPTED
    impossible = replace(honest, reported=wire.Samples(durations_ns=(700_000,)))
    report = fold((*GOOD[:-1], honest, impossible, FINISHED))
    assert (report.verdict, report.reason) == (Verdict.DISQUALIFIED, "BELOW_PHYSICAL_FLOOR")
    assert report.measurements == () and report.speedups == ()


def test_a_rejected_kernel_has_no_speedup() -> None:
    """The kernel is wrong before it is too fast: a kernel that computes nothing can be fast, and a wrong answer says more."""
    speedup = wire.Speedup(baseline="eager", ratio=150.0, ratio_low=149.0, ratio_high=151.0)
    measurement = timed(clock=wire.Clock.HOST, certified=wire.Samples(durations_ns=(1000,)), bound_ns=1000, speedups=(speedup,))
    for fast in (measurement, timed(physical_floor_ns=1_000_000)):
        report = fold((*GOOD[:-1], fast, trial("b", TrialOutcome.MISMATCHED), FINISHED))
        assert (report.verdict, report.speedups, report.measurements) == (Verdict.WRONG_ANSWER, (), ())
    assert fold((*GOOD[:-1], measurement, FINISHED)).speedups[0].ratio == pytest.approx(150.0)


def test_a_violation_is_disqualified() -> None:
    violation = wire.Violation(kind=wire.ViolationKind.PROTOCOL, detail="the runner answered a call that was never made")
    assert fold((BUILT, PLAN, LOADED, violation, FINISHED)).verdict is Verdict.DISQUALIFIED


# -- several processes, as in ranked mode ---------------------------------------------------------------------------------

RANKING = Ranking()
VERIFY, CERTIFY = TrialPhase.VERIFY, TrialPhase.CERTIFY


def measurement(ratio: float = 2.0) -> wire.Measurement:
    speedup = wire.Speedup(baseline="eager", ratio=ratio, ratio_low=ratio * 0.99, ratio_high=ratio * 1.01)
    certified = wire.Samples(durations_ns=(1000,))
    return timed(certified=certified, bound_ns=1000, floor_ns=10, reported_confirmed=True, speedups=(speedup,))


def process(index: int, *, ratio: float = 2.0) -> list[wire.Fact]:
    """All that one process has to show."""
    return [
        wire.Round(index=index, count=3),
        wire.Plan(trials=(("a", VERIFY, 2),), measured=("a",)),
        LOADED,
        trial("a"),
        trial("a"),
        wire.Plan(trials=(("a", CERTIFY, 4),)),
        trial("a", phase=CERTIFY, run_count=4),
        measurement(ratio),
        FINISHED,
        wire.RunEnd(cause="killed", output=f"printed by {index}"),
    ]


def three(**changed: object) -> list[list[wire.Fact]]:
    return [process(index, **changed) for index in range(3)]  # type: ignore[arg-type]


def folded(processes: list[list[wire.Fact]], ranking: Ranking | None = RANKING) -> Report:
    return fold([BUILT, *(fact for process_facts in processes for fact in process_facts)], ranking)


def test_three_good_processes_are_accepted_with_a_score() -> None:
    report = folded([process(0, ratio=1.9), process(1, ratio=2.0), process(2, ratio=2.1)])
    assert (report.verdict, report.process_count) == (Verdict.ACCEPTED, 3)
    assert report.score is not None and report.score.value == pytest.approx((1.9 * 2.0 * 2.1) ** (1 / 3))
    assert report.score.low < 1.85 and report.score.high > 2.15, "wider than any process alone"
    assert len(report.measurements) == 1 and len(report.trials) == 9 and report.output == ""
    assert report.summary == "Right on all 18 runs with fresh inputs, 1 workloads, 3 processes." and report.flags == ()


@pytest.mark.parametrize("spoiled", range(3))
@pytest.mark.parametrize("missing", [2, 3, 4, 6, 7])
def test_what_one_process_lacks_no_other_makes_up_for(spoiled: int, missing: int) -> None:
    processes = three()
    lost_fact = processes[spoiled].pop(missing)
    processes[(spoiled + 1) % 3].insert(missing, lost_fact)
    report = folded(processes)
    assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, "INCOMPLETE")
    assert report.score is None and report.measurements == ()


@pytest.mark.parametrize("spoiled", range(3))
@pytest.mark.parametrize("kind", [wire.Plan, wire.Finished])
def test_a_process_without_its_plan_or_its_end_is_our_fault(spoiled: int, kind: type[wire.Fact]) -> None:
    """Without its plan a process would be held to nothing, and another's end is not its own."""
    processes = three()
    del processes[spoiled][next(index for index, fact in enumerate(processes[spoiled]) if isinstance(fact, kind))]
    with pytest.raises(IncompleteFacts):
        folded(processes)


@pytest.mark.parametrize("wrong", range(3))
@pytest.mark.parametrize("phase", [VERIFY, CERTIFY])
def test_a_kernel_that_is_wrong_in_any_process_is_wrong(wrong: int, phase: TrialPhase) -> None:
    processes = three()[: wrong + 1]
    processes[wrong] = [
        *processes[wrong][:3],
        trial("a", TrialOutcome.MISMATCHED, phase=phase),
        FINISHED,
        wire.RunEnd(cause="killed"),
    ]
    report = folded(processes)
    assert report.verdict is Verdict.WRONG_ANSWER and report.score is None and report.process_count == wrong + 1


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_processes_than_the_ranking_asks_for_are_our_fault(count: int) -> None:
    """The attempt is made again; without a ranking nobody asked for three."""
    with pytest.raises(IncompleteFacts):
        folded(three()[:count])
    if count:
        assert folded(three()[:count], None).verdict is Verdict.ACCEPTED


def test_a_library_that_only_one_process_called_is_forbidden_too() -> None:
    """A kernel may choose by chance what it calls, and the last process be the one that behaves."""
    processes = three()
    processes[1].insert(5, wire.Evidence(policy=wire.Libraries.FORBIDDEN, seen=("cublasSgemm",)))
    processes[2].insert(5, wire.Evidence(policy=wire.Libraries.FORBIDDEN))
    report = folded(processes)
    assert (report.verdict, report.reason) == (Verdict.DISQUALIFIED, "POLICY") and report.libraries == ("cublasSgemm",)


def test_a_time_that_no_device_has_in_one_process_disqualifies() -> None:
    """The mean of three would hide it."""
    processes = three()
    processes[1][7] = replace(measurement(), physical_floor_ns=10_000_000)
    assert folded(processes).reason == "BELOW_PHYSICAL_FLOOR"


def test_what_could_not_be_timed_is_accepted_without_a_score_and_says_so() -> None:
    processes = three()
    processes[2][7] = replace(measurement(), speedups=())
    report = folded(processes)
    assert report.verdict is Verdict.ACCEPTED and report.score is None
    assert report.flags == ("SPEEDUP_NOT_RESOLVED", "NOT_SCORED")


def practice(certified: int, *, eager: int = 3000, clock: wire.Clock = wire.Clock.HOST) -> wire.Measurement:
    """A measurement whose speedup was not resolved."""
    samples = wire.Samples(durations_ns=(certified,))
    return replace(measurement(), clock=clock, certified=samples, speedups=(), baselines={"eager": wire.Samples(durations_ns=(eager,))})


@pytest.mark.parametrize(("kind", "score"), [(ScoreKind.SPEEDUP, (3, 1.5, 6)), (ScoreKind.TIME, (1000, 500, 2000))])
def test_the_emulated_device_has_a_score_for_practice(kind: ScoreKind, score: tuple[float, float, float]) -> None:
    """Of medians that its clock did not resolve, from the least process to the greatest."""
    processes = three()
    for process_facts, certified in zip(processes, (500, 1000, 2000), strict=True):
        process_facts[7] = practice(certified)
    report = folded(processes, Ranking(score_kind=kind))
    assert report.score is not None and astuple(report.score) == pytest.approx(score)
    assert "PRACTICE_SCORE" in report.flags and "NOT_SCORED" not in report.flags


@pytest.mark.parametrize(
    "row",
    [practice(1000, clock=wire.Clock.DEVICE_EVENTS), replace(practice(1000), baselines={}), replace(practice(0), bound_ns=0, floor_ns=0)],
)
def test_no_other_score_is_for_practice(row: wire.Measurement) -> None:
    """A GPU's clock that resolved nothing says nothing; what has no time has no score. The control: no time is its bound."""
    processes = three()
    for process_facts in processes:
        process_facts[7] = practice(0)
    practice_score = folded(processes).score
    assert practice_score is not None and practice_score.value == pytest.approx(3.0)
    processes[1][7] = replace(practice(0), baselines={}, reported_baselines=practice(0).baselines)
    assert folded(processes).score == practice_score
    processes[1][7] = replace(practice(0, eager=0), bound_ns=-5)
    assert folded(processes).score is not None  # both took as long as the clock itself
    processes[1][7] = row
    report = folded(processes)
    assert report.verdict is Verdict.ACCEPTED and report.score is None and "NOT_SCORED" in report.flags


def test_one_process_is_enough_where_no_ranking_asks_for_more() -> None:
    """In other modes there is no score, and its output is shown: in ranked mode not even the first one's. Facts from before there were
    several processes do not say that there was one."""
    facts = [BUILT, *process(0)[1:]]
    report = fold(facts)
    assert report.verdict is Verdict.ACCEPTED and report.score is None and report.process_count == 1 and report.flags == ()
    assert report.measurements == (measurement(),) and report.summary == "Right on all 6 runs with fresh inputs, 1 workloads."
    assert report.output == "printed by 0" and folded(three()).output == ""
    assert fold(facts, Ranking(process_count=1)).score is not None
    with pytest.raises(IncompleteFacts):
        fold(facts, RANKING)
