"""The judge's part of a sweep, against runners that are Python functions in a thread and the real trusted runner."""

from dataclasses import replace

import pytest

from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge.lane import plan_trials
    from tests.unit.test_lane import PROBLEM, honest, job_of, judged

SIZES = tuple(wire.Workload(workload_id=f"n-{size}", axes={"n": size}) for size in (8, 16, 32, 64))
pytestmark = pytest.mark.slow


def swept(place, baseline, kernel, *, sweep_s=600.0, problem=None):
    """The facts of a sweep, with little time for each size."""
    problem = problem or replace(PROBLEM, workloads=SIZES)
    return judged(place, kernel, problem=problem, baseline=baseline, mode=wire.Mode.SWEEP, sweep_s=sweep_s, measure_s=0.1)


def measured(facts):
    return [fact.workload_id for fact in facts if isinstance(fact, wire.Measurement)]


def test_every_size_is_verified_and_timed_in_its_order(tmp_path, baseline):
    """Each with a plan of its own; the first fact only says which sizes there are."""
    facts = swept(tmp_path, baseline, honest)
    names = [workload.workload_id for workload in SIZES]
    assert measured(facts) == names and isinstance(facts[-1], wire.Finished)
    plans = [fact for fact in facts if isinstance(fact, wire.Plan)]
    assert plans[0].sweep == tuple(names) and plans[0].trials == plans[0].measured == ()
    assert [plan.measured for plan in plans if plan.measured] == [(name,) for name in names]


def test_a_size_that_is_wrong_is_not_timed_and_the_next_are(tmp_path, baseline):
    """The control: in benchmark mode the first wrong workload ends it."""

    def up_to_16(inputs, outputs):
        honest(inputs, outputs)
        if len(outputs[0]) == 32:
            outputs[0][20:] = 0

    facts = swept(tmp_path, baseline, up_to_16)
    assert measured(facts) == ["n-8", "n-16", "n-64"]
    (wrong,) = [fact for fact in facts if isinstance(fact, wire.Trial) and fact.outcome is not wire.TrialOutcome.PASSED]
    assert wrong.workload_id == "n-32"


def test_a_kernel_that_is_right_only_until_it_is_timed_has_no_time_at_any_size(tmp_path, baseline):
    """Timed runs are verified too: after the three verified calls at a size it computes nothing."""
    calls = {}

    def lazy(inputs, outputs):
        count = calls[len(outputs[0])] = calls.get(len(outputs[0]), 0) + 1
        if count <= PROBLEM.trial_count:
            honest(inputs, outputs)

    assert measured(swept(tmp_path, baseline, lazy)) == []


def test_no_size_begins_when_the_time_is_over(tmp_path, baseline):
    """The control is above: with time, all of them do."""
    facts = swept(tmp_path, baseline, honest, sweep_s=0.0)
    assert measured(facts) == [] and not any(fact.trials for fact in facts if isinstance(fact, wire.Plan))
    assert isinstance(facts[-1], wire.Finished)


def test_a_hidden_workload_is_no_size(tmp_path, baseline):
    problem = replace(PROBLEM, workloads=(*SIZES[:1], replace(SIZES[1], hidden=True)))
    facts = swept(tmp_path, baseline, honest, problem=problem)
    assert {fact.workload_id for fact in facts if isinstance(fact, wire.Trial)} == {"n-8"}


def test_other_modes_plan_all_workloads_at_once(tmp_path):
    plan = plan_trials(job_of(tmp_path, replace(PROBLEM, workloads=SIZES), wire.Mode.BENCHMARK))
    assert len(plan.trials) == len(SIZES) and plan.sweep == ()
