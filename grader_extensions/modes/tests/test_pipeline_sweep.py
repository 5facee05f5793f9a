"""A sweep from its build to the end of its last box: which sizes are run in which process, and what bounds it; judges follow a script."""

from dataclasses import replace

import pytest

from grader.dispatch.local_fleet import PROFILES, read_profile
from grader.model import Verdict
from grader_extensions.modes.sweep import fold
from sandbox.protocol import wire
from tests.unit import pipeline_fleets
from tests.unit.pipeline_fleets import graded

PROFILE = read_profile(PROFILES / "limits.toml")
SIZES = tuple(wire.Workload(workload_id=f"n-{size}", axes={"n": size}) for size in (1, 2, 3, 4, 5, 6))
HIDDEN = wire.Workload(workload_id="secret33", axes={"n": 33}, hidden=True)


def lease(*, mode=wire.Mode.SWEEP, workloads=SIZES, measure_s=None):
    first = pipeline_fleets.lease(mode=mode, workloads=workloads)
    return replace(first, problem=replace(first.problem, swept_axis="n", sweep_measure_s=measure_s))


def tried(facts):
    return [fact.workload_id for fact in facts if isinstance(fact, wire.Trial)]


async def test_all_sizes_are_run_in_one_process(make, judges, boxes):
    facts = await graded(make(), lease())
    report = fold(facts)
    assert report.verdict is Verdict.ACCEPTED and len(report.measurements) == len(SIZES) == len(tried(facts))
    assert len(boxes.runs) == 1 and judges.log("emulated")[1:3] == ["Job well", "sweep of n-1,n-2,n-3,n-4,n-5,n-6 for 2 s each"]


async def test_a_size_that_ends_the_process_is_followed_by_the_others_in_a_fresh_one(make, judges, boxes):
    judges.order("emulated", "fault", "well")
    facts = await graded(make(), lease())
    assert tried(facts) == [one.workload_id for one in SIZES] and len(boxes.runs) == 2
    report = fold(facts)
    assert report.verdict is Verdict.RUNTIME_ERROR and [one.workload_id for one in report.measurements] == [
        f"n-{n}" for n in (2, 3, 4, 5, 6)
    ]


@pytest.mark.parametrize(
    ("profile", "count"),
    [
        pytest.param({}, PROFILE.sweep_process_count, id="the limit"),
        pytest.param({"sweep_process_count": 100}, len(SIZES), id="without the limit"),
        pytest.param({"sweep_s": 0.0}, 1, id="without time"),
    ],
)
async def test_a_kernel_that_always_crashes_gets_no_more_processes_than_the_limit(make, judges, boxes, profile, count):
    """Nor another one when the time is over. The rest is counted as not run."""
    judges.order("emulated", *["fault"] * 10)
    facts = await graded(make(profile=replace(PROFILE, **profile)), lease())
    assert len(boxes.runs) == count == len(tried(facts))
    assert ("; 2 were not run, because the time or the processes of a sweep were used up." in fold(facts).summary) is (count == 4)


async def test_no_hidden_workload_reaches_a_sweep(make, judges):
    """Whatever problem it is judged by; the control: in another mode it does."""
    facts = await graded(make(), lease(workloads=(*SIZES, HIDDEN)))
    assert HIDDEN.workload_id not in tried(facts) and not any(HIDDEN.workload_id in line for line in judges.log("emulated"))
    assert HIDDEN.workload_id in tried(await graded(make(), lease(mode=wire.Mode.BENCHMARK, workloads=(*SIZES, HIDDEN))))


async def test_a_submission_may_ask_for_another_time_at_each_size(make, judges):
    await graded(make(), lease(measure_s=0.5))
    assert judges.log("emulated")[2].endswith("for 0.5 s each")


async def test_a_box_of_a_sweep_lives_as_long_whatever_the_number_of_sizes(make, boxes):
    for count in (1, 6):
        await graded(make(), lease(workloads=SIZES[:count]))
    limits = [spec.limits for spec in boxes.runs]
    assert limits[0] == limits[1] and limits[0].wall_s == PROFILE.run.wall_s + PROFILE.sweep_s
