"""A sweep from its build to the end of its last box: which sizes are run in which process, and what bounds it; judges follow a script."""

from dataclasses import replace

import pytest_asyncio

from grader.dispatch.local_fleet import PROFILES, LocalFleet, read_profile
from grader.isolation.settings import BoxSettings
from grader.model import Verdict
from grader.verdict.fold import fold
from sandbox.protocol import wire
from tests import fakes
from tests.unit import pipeline_fleets

PROFILE = read_profile(PROFILES / "limits.toml")
SIZES = tuple(wire.Workload(workload_id=f"n-{size}", axes={"n": size}) for size in (1, 2, 3, 4, 5, 6))
HIDDEN = wire.Workload(workload_id="secret33", axes={"n": 33}, hidden=True)


@pytest_asyncio.fixture
async def make(tmp_path):
    """Makes a fleet with one emulated lane, its judges, and its boxes."""
    made = []

    def fleet(**profile):
        judges, boxes = fakes.Judges(tmp_path / str(len(made))), fakes.FakeBoxes()
        settings = BoxSettings(state_id="fleet", runtime_dir=tmp_path)
        made.append(LocalFleet(isolation=boxes, settings=settings, make_judge=judges, profile=replace(PROFILE, **profile)))
        return made[-1], judges, boxes

    yield fleet
    for one in made:
        await one.__aexit__()


def lease(*, mode=wire.Mode.SWEEP, workloads=SIZES, measure_s=None):
    first = pipeline_fleets.lease(mode=mode, workloads=workloads)
    return replace(first, problem=replace(first.problem, swept_axis="n", sweep_measure_s=measure_s))


async def graded(fleet, wanted=None):
    return await pipeline_fleets.graded(fleet, wanted or lease())


def tried(facts):
    return [fact.workload_id for fact in facts if isinstance(fact, wire.Trial)]


async def test_all_sizes_are_run_in_one_process(make):
    """One build, one box, one job, and a point for each size."""
    fleet, judges, boxes = make()
    facts = await graded(fleet)
    report = fold(facts)
    assert report.verdict is Verdict.ACCEPTED and len(report.measurements) == len(SIZES) == len(tried(facts))
    assert len(boxes.runs) == 1 and judges.log("emulated")[1:3] == ["Job well", "sweep of n-1,n-2,n-3,n-4,n-5,n-6 for 2 s each"]


async def test_a_size_that_ends_the_process_is_followed_by_the_others_in_a_fresh_one(make):
    """It is not run again, and the others keep their points."""
    fleet, judges, boxes = make()
    judges.order("emulated", "fault", "well")
    facts = await graded(fleet)
    assert tried(facts) == [one.workload_id for one in SIZES] and len(boxes.runs) == 2
    report = fold(facts)
    assert report.verdict is Verdict.RUNTIME_ERROR and [one.workload_id for one in report.measurements] == [
        f"n-{n}" for n in (2, 3, 4, 5, 6)
    ]


async def test_a_kernel_that_always_crashes_gets_no_more_processes_than_the_limit(make):
    """The rest is counted as not run."""
    fleet, judges, boxes = make()
    judges.order("emulated", *["fault"] * 10)
    facts = await graded(fleet)
    assert len(boxes.runs) == PROFILE.sweep_process_count == len(tried(facts))
    assert fold(facts).summary.endswith("Right at 0 of 6 sizes; 2 were not run, because the time or the processes of a sweep were used up.")


async def test_without_that_limit_it_gets_one_for_every_size(make):
    """The control."""
    fleet, judges, boxes = make(sweep_process_count=100)
    judges.order("emulated", *["fault"] * 10)
    assert len(tried(await graded(fleet))) == len(SIZES) == len(boxes.runs)


async def test_when_the_time_is_over_no_other_process_begins(make):
    """The control is the test above: with time left, there is one."""
    fleet, judges, boxes = make(sweep_s=0.0)
    judges.order("emulated", *["fault"] * 10)
    assert len(tried(await graded(fleet))) == 1 == len(boxes.runs)


async def test_no_hidden_workload_reaches_a_sweep(make):
    """Whatever problem it is judged by; the control: in another mode it does."""
    fleet, judges, _ = make()
    facts = await graded(fleet, lease(workloads=(*SIZES, HIDDEN)))
    assert HIDDEN.workload_id not in tried(facts) and not any(HIDDEN.workload_id in line for line in judges.log("emulated"))
    other, _, _ = make()
    assert HIDDEN.workload_id in tried(await graded(other, lease(mode=wire.Mode.BENCHMARK, workloads=(*SIZES, HIDDEN))))


async def test_a_submission_may_ask_for_another_time_at_each_size(make):
    """The grader's own is in limits.toml."""
    fleet, judges, _ = make()
    await graded(fleet, lease(measure_s=0.5))
    assert judges.log("emulated")[2].endswith("for 0.5 s each")


async def test_a_box_of_a_sweep_lives_as_long_whatever_the_number_of_sizes(make):
    """Its time is the sweep's, not so much more for each size."""
    limits = []
    for count in (1, 6):
        fleet, _, boxes = make()
        await graded(fleet, lease(workloads=SIZES[:count]))
        limits.append(boxes.runs[0].limits)
    assert limits[0] == limits[1] and limits[0].wall_s == PROFILE.run.wall_s + PROFILE.sweep_s
