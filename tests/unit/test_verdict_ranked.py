"""In ranked mode every process is judged by itself, and a score is drawn only where all are accepted."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest

from grader.model import Ranking, Report, ScoreKind, Verdict
from grader.verdict.fold import IncompleteFacts, fold
from sandbox.protocol import wire
from sandbox.protocol.wire import LoadOutcome, TrialOutcome, TrialPhase

RANKING = Ranking()
BUILT = wire.Build(outcome=wire.BuildOutcome.BUILT, artifact_digest="d")
VERIFY, CERTIFY = TrialPhase.VERIFY, TrialPhase.CERTIFY


def trial(phase: TrialPhase = VERIFY, outcome: TrialOutcome = TrialOutcome.PASSED, run_count: int = 1) -> wire.Trial:
    return wire.Trial(workload_id="a", phase=phase, index=0, outcome=outcome, run_count=run_count)


def measurement(ratio: float = 2.0) -> wire.Measurement:
    return wire.Measurement(
        workload_id="a",
        clock=wire.Clock.DEVICE_EVENTS,
        certified=wire.Samples(durations_ns=(1000,)),
        bound_ns=1000,
        floor_ns=10,
        reported_confirmed=True,
        speedups=(wire.Speedup(baseline="eager", ratio=ratio, ratio_low=ratio * 0.99, ratio_high=ratio * 1.01),),
    )


def process(index: int, *, ratio: float = 2.0) -> list[wire.Fact]:
    """All that one process has to show."""
    return [
        wire.Round(index=index, count=3),
        wire.Plan(trials=(("a", VERIFY, 2),), measured=("a",)),
        wire.Load(outcome=LoadOutcome.LOADED),
        trial(),
        trial(),
        wire.Plan(trials=(("a", CERTIFY, 4),)),
        trial(CERTIFY, run_count=4),
        measurement(ratio),
        wire.Finished(job_id="j"),
        wire.RunEnd(cause="killed", output=f"printed by {index}"),
    ]


def three(**changed: object) -> list[list[wire.Fact]]:
    return [process(index, **changed) for index in range(3)]  # type: ignore[arg-type]


def folded(processes: list[list[wire.Fact]], ranking: Ranking | None = RANKING) -> Report:
    return fold([BUILT, *(fact for one in processes for fact in one)], ranking)


def test_three_good_processes_are_accepted_with_a_score() -> None:
    """The control: what each has measured is in the score, in one row, and in the sentence."""
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
    taken = processes[spoiled].pop(missing)
    processes[(spoiled + 1) % 3].insert(missing, taken)
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
        trial(phase, TrialOutcome.MISMATCHED),
        wire.Finished(job_id="j"),
        wire.RunEnd(cause="killed"),
    ]
    report = folded(processes)
    assert report.verdict is Verdict.WRONG_ANSWER and report.score is None and report.process_count == wrong + 1


def test_a_process_that_dies_is_explained_by_the_end_of_its_own_box() -> None:
    crashed = [*process(1)[:3], trial(VERIFY, TrialOutcome.CRASHED), wire.Finished(job_id="j"), wire.RunEnd(cause="memory_limit", signal=9)]
    assert folded([process(0), crashed]).verdict is Verdict.MEMORY_LIMIT_EXCEEDED


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
    """It is right; it is on no board."""
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
    for one, certified in zip(processes, (500, 1000, 2000), strict=True):
        one[7] = practice(certified)
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
    for one in processes:
        one[7] = practice(0)
    found = folded(processes).score
    assert found is not None and found.value == pytest.approx(3.0)
    processes[1][7] = replace(practice(0), baselines={}, reported_baselines=practice(0).baselines)
    assert folded(processes).score == found
    processes[1][7] = replace(practice(0, eager=0), bound_ns=-5)
    assert folded(processes).score is not None  # both took as long as the clock itself
    processes[1][7] = row
    report = folded(processes)
    assert report.verdict is Verdict.ACCEPTED and report.score is None and "NOT_SCORED" in report.flags


def test_other_modes_have_no_score() -> None:
    """One process, no ranking: the report is what it was before there were scores."""
    facts = [BUILT, *process(0)[1:]]
    report = fold(facts)
    assert report.verdict is Verdict.ACCEPTED and report.score is None and report.process_count == 1 and report.flags == ()
    assert report.measurements == (measurement(),) and report.summary == "Right on all 6 runs with fresh inputs, 1 workloads."


def test_stored_facts_of_one_process_are_still_folded() -> None:
    """What was graded in ranked mode before there were several processes says nothing of how many there were: one."""
    facts = [BUILT, *process(0)[1:]]
    assert fold(facts, Ranking(process_count=1)).score is not None
    with pytest.raises(IncompleteFacts):
        fold(facts, RANKING)


def test_no_output_is_shown_in_ranked_mode() -> None:
    """Nor of the first process. The control: the same facts in another mode."""
    assert folded(three()).output == ""
    assert fold([BUILT, *process(0)[1:]]).output == "printed by 0"
