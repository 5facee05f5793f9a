"""Which submissions facts judge again: only what the facts tell of, and never more."""

from dataclasses import replace

import pytest

from grader.model import Ranking, ScoreKind, Verdict
from grader.verdict.fold import fold
from grader_extensions.competitions.rejudge import meant, rule
from sandbox.protocol import wire
from sandbox.protocol.wire import Libraries
from tests import fakes

OLD = fakes.problem()
WORKLOADS = tuple(workload.workload_id for workload in OLD.spec.workloads)
ENVIRONMENT, BUILT, LOADED = (
    fakes.ENVIRONMENT,
    wire.Build(outcome=wire.BuildOutcome.BUILT, artifact_digest="e" * 64),
    wire.Load(outcome=wire.LoadOutcome.LOADED),
)
PLAN = wire.Plan(trials=tuple((workload_id, wire.TrialPhase.VERIFY, 1) for workload_id in WORKLOADS))


def passed(error=1e-7):
    """Return what a kernel that is right leaves behind, with this largest error."""
    trials = [replace(fakes.trial(workload_id), max_absolute_error=error, mismatched_count=0) for workload_id in WORKLOADS]
    return [ENVIRONMENT, BUILT, LOADED, PLAN, *trials, wire.Finished(job_id="j")]


def failed(outcome=wire.TrialOutcome.MISMATCHED, **fields):
    """Return what a kernel leaves behind that fails at the second workload."""
    first, second = (
        replace(fakes.trial(WORKLOADS[0]), max_absolute_error=1e-7),
        replace(fakes.trial(WORKLOADS[1], outcome=outcome), **fields),
    )
    return [ENVIRONMENT, BUILT, LOADED, PLAN, first, second, wire.Finished(job_id="j")]


def evidence(*modules, policy=Libraries.LABELLED):
    return wire.Evidence(policy=policy, seen=modules)


def judged(facts, current=OLD, *, old=OLD, mode=wire.Mode.TEST, entry=""):
    report, reason = rule(facts, mode=mode, entry=entry, old=old, current=current)
    assert reason
    return report


def spec(problem=OLD, **fields):
    return replace(problem, spec=replace(problem.spec, digest="f" * 64, **fields))


def ranked(count=3, ratio=2.0):
    """The facts of so many processes."""
    speedup = (wire.Speedup(baseline="eager", ratio=ratio, ratio_low=ratio, ratio_high=ratio),)
    plan = replace(PLAN, measured=WORKLOADS)
    certified = wire.Samples(durations_ns=(250,) * 25)
    measured = [replace(fakes.measurement(workload_id), certified=certified, speedups=speedup) for workload_id in WORKLOADS]
    trials = [replace(fakes.trial(workload_id), max_absolute_error=1e-7) for workload_id in WORKLOADS]
    processes = (
        [wire.Round(index=index, count=count), LOADED, plan, *trials, *measured, wire.Finished(job_id="j")] for index in range(count)
    )
    return [ENVIRONMENT, BUILT, *(fact for process in processes for fact in process)]


@pytest.mark.parametrize(
    "facts", [passed(), failed(), failed(wire.TrialOutcome.CRASHED), [ENVIRONMENT, replace(BUILT, outcome=wire.BuildOutcome.REJECTED)]]
)
@pytest.mark.parametrize("current", [OLD, replace(OLD, title="Other", statement="Other.", languages=("python",)), spec()])
def test_what_is_for_people_changes_nothing(facts, current):
    """Title, statement, languages and a digest alone decide no verdict: the same facts give the same report."""
    assert judged(facts, current) == fold(facts)


@pytest.mark.parametrize(
    "fields",
    [
        {"format": "other"},
        {"reference": "def reference(a, alpha, n): return a"},
        {"inputs": OLD.spec.inputs[:1]},
        {"outputs": OLD.spec.inputs[:1]},
        {"axes": ("m",)},
        {"convention": wire.Convention.DESTINATION},
        {"workloads": OLD.spec.workloads[:1]},
        {"workloads": (*OLD.spec.workloads, wire.Workload(workload_id="new", axes={"n": 1}))},
        {"workloads": tuple(replace(workload, axes={"n": workload.axes["n"] + 1}) for workload in OLD.spec.workloads)},
        {"workloads": tuple(replace(workload, moved_bytes=8) for workload in OLD.spec.workloads)},
        {"workloads": tuple(replace(workload, hidden=not workload.hidden) for workload in OLD.spec.workloads)},
        {"entry": "other"},
        {"trial_count": 4},
        {"trial_s": 1.0},
        {"tolerance": wire.Tolerance(atol=1e-9, rtol=1e-9)},
        {"tolerance": wire.Tolerance(budget_factor=1.0)},
        {"libraries": Libraries.FORBIDDEN},
        {"libraries": Libraries.LABELLED},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_what_a_kernel_was_not_tried_with_has_to_be_run(fields):
    """A kernel that was right is not right by something that it never saw."""
    assert judged(passed(), spec(**fields)) is None


@pytest.mark.parametrize("fields", [{"reference": "other"}, {"workloads": OLD.spec.workloads[:1]}, {"tolerance": wire.Tolerance(atol=1.0)}])
def test_a_build_that_failed_fails_by_any_problem_with_the_same_entry(fields):
    """Nothing but entry, language and sources goes into a build; another entry may be there."""
    facts = [ENVIRONMENT, replace(BUILT, outcome=wire.BuildOutcome.REJECTED)]
    assert judged(facts, spec(**fields)).verdict is Verdict.COMPILE_ERROR
    assert judged(facts, spec(entry="other")) is None


def test_an_entry_of_the_submissions_own_is_not_the_problems():
    """The problem's default does not concern a submission that names its function."""
    assert judged(passed(), spec(entry="other"), entry="mine") is not None


def test_a_wider_tolerance_keeps_what_passed_and_runs_what_missed_it():
    """Counts of mismatches are by the tolerance of then; a crash has nothing to do with it."""
    wider = spec(tolerance=wire.Tolerance(atol=1.0, rtol=1.0, budget_factor=None))
    assert judged(passed(error=0.5), wider).verdict is Verdict.ACCEPTED
    assert judged(failed(), wider) is None
    for outcome in (wire.TrialOutcome.CRASHED, wire.TrialOutcome.UNWRITTEN, wire.TrialOutcome.NON_FINITE):
        facts = failed(outcome)
        assert judged(facts, wider) == fold(facts)


@pytest.mark.parametrize(("error", "suffices"), [(0.0, True), (1e-9, True), (2e-9, False), (None, False), (float("nan"), False)])
def test_a_tighter_tolerance_keeps_what_is_known_to_be_within_it(error, suffices):
    """The largest absolute error within the new absolute tolerance is a proof, whatever the relative one is."""
    tighter = spec(tolerance=replace(OLD.spec.tolerance, atol=1e-9, rtol=0.0))
    assert (judged(passed(error), tighter) is not None) is suffices


@pytest.mark.parametrize(("outcome", "atol"), [(wire.TrialOutcome.MISMATCHED, 0.0), (wire.TrialOutcome.CRASHED, 1e-9)])
def test_a_failure_is_run_again_by_a_tighter_tolerance_too(outcome, atol):
    """The counts of a mismatch would be of another tolerance, and the trial before a crash may be the first to fail by the new one."""
    assert judged(failed(outcome), spec(tolerance=replace(OLD.spec.tolerance, atol=atol, rtol=0.0))) is None


def test_a_tolerance_of_one_workload_counts_for_that_one():
    first, *rest = OLD.spec.workloads
    tight = replace(OLD.spec.tolerance, atol=1e-12, rtol=0.0)
    assert judged(passed(), spec(workloads=(replace(first, tolerance=tight), *rest))) is None
    assert judged(passed(), spec(workloads=(replace(first, tolerance=OLD.spec.tolerance), *rest))) is not None


def test_fewer_trials_and_more_time_keep_what_passed():
    """A kernel that passed more trials, in less time, passes; one that ran out of time is run."""
    assert judged(passed(), spec(trial_count=1, trial_s=100.0)).verdict is Verdict.ACCEPTED
    assert judged(failed(wire.TrialOutcome.TIMED_OUT), spec(trial_s=100.0)) is None
    assert judged(failed(), spec(trial_count=1)) is None
    assert judged(failed(), spec(trial_s=100.0)).verdict is Verdict.WRONG_ANSWER


@pytest.mark.parametrize(
    ("modules", "old", "current", "verdict"),
    [
        (("cublasSgemm",), Libraries.LABELLED, Libraries.FORBIDDEN, Verdict.DISQUALIFIED),
        (("cublasSgemm",), Libraries.FORBIDDEN, Libraries.LABELLED, Verdict.ACCEPTED),
        (("cublasSgemm",), Libraries.FORBIDDEN, Libraries.ALLOWED, Verdict.ACCEPTED),
        ((), Libraries.FORBIDDEN, Libraries.LABELLED, Verdict.ACCEPTED),
        ((), Libraries.LABELLED, Libraries.FORBIDDEN, None),  # who labels looks less thoroughly
    ],
)
def test_a_rule_on_libraries_is_applied_to_the_evidence(modules, old, current, verdict):
    """Libraries that were seen are judged by the rule of now; a kernel in which nobody looked for them is run."""
    facts = [*passed()[:-1], evidence(*modules, policy=old), wire.Finished(job_id="j")]
    report = judged(facts, spec(libraries=current), old=spec(libraries=old))
    assert (report and report.verdict) is verdict
    if report and current is Libraries.ALLOWED:
        assert report.libraries == ()


def test_evidence_of_one_process_says_nothing_of_another():
    """In ranked mode every process is looked at, or all are run."""
    facts = [fact for fact in ranked() for fact in ([evidence("x"), fact] if isinstance(fact, wire.Finished) else [fact])]
    old, current = spec(libraries=Libraries.LABELLED), spec(libraries=Libraries.FORBIDDEN)
    assert judged(facts, current, old=old, mode=wire.Mode.RANKED).verdict is Verdict.DISQUALIFIED
    facts.remove(evidence("x"))
    assert judged(facts, current, old=old, mode=wire.Mode.RANKED) is None


def test_another_way_to_score_is_drawn_from_the_same_times():
    """Speedups and times are both in the facts; ranks may change without a run."""
    by_time = replace(OLD, ranking=Ranking(score_kind=ScoreKind.TIME))
    before, after = (judged(ranked(), current, mode=wire.Mode.RANKED) for current in (OLD, by_time))
    assert before.score.value == pytest.approx(2.0) and after.score.value == pytest.approx(250.0)


def test_more_processes_have_to_be_run():
    """Three processes are not five; they are enough for two, and a failure is one in any number."""
    five, two = (replace(OLD, ranking=Ranking(process_count=count)) for count in (5, 2))
    assert judged(ranked(), five, mode=wire.Mode.RANKED) is None
    assert judged(ranked(), two, mode=wire.Mode.RANKED).verdict is Verdict.ACCEPTED
    assert judged(failed(), five, mode=wire.Mode.RANKED).verdict is Verdict.WRONG_ANSWER


def test_another_baseline_to_be_timed_against_needs_a_run_where_times_are_taken():
    """A baseline that is left out needs none; nor does a mode that times nothing."""
    stricter = spec(baselines=("max-autotune",))
    assert judged(ranked(), stricter, mode=wire.Mode.RANKED) is None
    assert judged(ranked(), OLD, old=stricter, mode=wire.Mode.RANKED) is not None
    assert judged(passed(), stricter) is not None


@pytest.mark.parametrize("facts", [[], passed()[:-1]])
def test_facts_that_are_missing_decide_nothing(facts):
    """They may have been removed since; a run tells."""
    assert judged(facts) is None


@pytest.mark.parametrize(
    ("kind", "device", "clock", "is_meant"),
    [
        ("", "anything", wire.Clock.HOST, True),
        ("emulated", "emulated", wire.Clock.HOST, True),
        ("emulated", "NVIDIA H200", wire.Clock.DEVICE_EVENTS, False),
        ("cuda", "NVIDIA H200", wire.Clock.DEVICE_EVENTS, True),
        ("cuda", "emulated", wire.Clock.HOST, False),
        ("cuda:h200", "NVIDIA H200", wire.Clock.DEVICE_EVENTS, True),
        ("cuda:A100", "NVIDIA H200", wire.Clock.DEVICE_EVENTS, False),
        ("cuda:1", "NVIDIA H200", wire.Clock.DEVICE_EVENTS, True),
    ],
)
def test_a_board_is_of_the_devices_that_a_kind_means(kind, device, clock, is_meant):
    """The host's clock is the emulated device's."""
    assert meant(kind, device, clock) is is_meant
