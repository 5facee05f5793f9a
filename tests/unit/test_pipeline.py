"""An attempt from its seat to the end of its box; judges and boxes follow a script."""

import asyncio
from dataclasses import replace

import pytest

from grader.dispatch.local_fleet import LocalFleet
from grader.errors import DeviceQuarantined, ProblemBroken
from grader.isolation import BoxExit, Purpose
from grader.model import Lease, Ranking
from grader.verdict.fold import fold
from sandbox.protocol import wire
from sandbox.protocol.wire import BoxCause
from tests import fakes
from tests.unit import pipeline_fleets
from tests.unit.pipeline_fleets import lease, until

H200, H100 = fakes.gpu(0), fakes.gpu(1, "NVIDIA H100")


def competing(of: Lease, competition_id: str, mode: wire.Mode) -> Lease:
    """Enter an attempt for a competition, or in its mode for none."""
    submission = replace(of.submission.new, mode=mode, competition_id=competition_id)
    problem = replace(of.problem, competition_id=competition_id, ranking=Ranking(process_count=1))
    return replace(of, submission=replace(of.submission, new=submission), problem=problem)


async def graded(fleet: LocalFleet, wanted: Lease | None = None) -> list[wire.Fact]:
    """All facts but for the timeline, which is the last."""
    *facts, timeline = await pipeline_fleets.graded(fleet, wanted or lease())
    assert isinstance(timeline, wire.AttemptTimeline)
    return facts


def workload(name: str, device_kind: str) -> wire.Workload:
    return wire.Workload(workload_id=name, axes={"n": 64}, device_kind=device_kind)


async def test_a_run_box_gets_the_gpu_of_its_lane(make, boxes) -> None:
    """Its access, its limits, and a runner that opens it early in every language; the build box gets nothing of it."""
    fleet = make(gpus=(H200, H100))
    await graded(fleet, lease(device_kind="cuda:h100"))
    build, run = boxes.specs if boxes.specs[0].purpose is Purpose.BUILD else boxes.specs[::-1]
    assert build.gpu is None and (run.gpu.index, run.gpu.minor, run.gpu.uuid) == (1, H100.minor, H100.uuid)
    assert run.limits.memory_bytes == fleet.profile.run_cuda.memory_bytes
    assert run.argv[-4:] == ("--preload", "torch", "--import-device", "cuda")


async def test_a_run_box_on_the_emulated_device_is_as_before(make, boxes) -> None:
    """No GPU, though the host has one; torch is loaded early where the kernel needs it."""
    fleet = make(gpus=(H200,))
    await graded(fleet, lease(device_kind="emulated"))
    await graded(fleet, lease("s2", device_kind="emulated", language="torch_extension"))
    plain, torch = boxes.runs
    assert plain.gpu is torch.gpu is None and plain.limits.memory_bytes == fleet.profile.run.memory_bytes
    assert plain.argv[-4:] == ("--language", "sandbox.languages.cuda", "--wait", "{link}") and torch.argv[-2:] == ("--preload", "torch")


@pytest.mark.parametrize("competition_id", ["", "spring"])
@pytest.mark.parametrize("mode", [wire.Mode.TEST, wire.Mode.BENCHMARK, wire.Mode.RANKED])
async def test_a_box_is_forked_neither_for_a_rank_nor_in_a_competition(make, boxes, mode, competition_id) -> None:
    """Where it may be, its parent imports what the box would, and then does the same."""
    await graded(make(), competing(lease(), competition_id, mode))
    for run in boxes.runs:
        assert bool(run.fork_argv) is (mode is not wire.Mode.RANKED and not competition_id)
        assert not run.fork_argv or run.fork_argv[6:] == ("sandbox.runner.run", *run.argv[5:], "--import-device", "emulated")


async def test_boxes_of_all_languages_next_to_a_gpu_have_one_parent(make, boxes) -> None:
    """The parent imports what takes seconds; its child is told which language a box is of."""
    fleet, names = make(gpus=(H200,)), ("cuda", "torch_extension", "python")
    for number, name in enumerate(names):
        await graded(fleet, lease(f"s{number}", device_kind="cuda", language=name))
    assert len({run.fork_argv for run in boxes.runs}) == 1
    for run in boxes.runs:
        assert sorted((*run.fork_argv[6:], *run.fork_arguments)) == sorted(("sandbox.runner.run", *run.argv[5:]))
    assert [run.fork_arguments[1].rpartition(".")[2] for run in boxes.runs] == list(names)


async def test_a_run_box_starts_while_its_judge_does(make, boxes, judges) -> None:
    """Each imports torch: of a server that has just been started nobody waits for one import after the other."""
    gate = judges.delay("emulated")
    job = asyncio.ensure_future(graded(make()))
    await until(lambda: boxes.runs)
    assert not job.done() and Purpose.BUILD not in {spec.purpose for spec in boxes.specs}
    await asyncio.to_thread(gate.write_text, "")
    assert isinstance((await job)[0], wire.Environment)


@pytest.mark.parametrize("device_kind", ["cuda", "emulated"])
async def test_a_box_lives_as_long_as_many_workloads_may_take(make, boxes, device_kind: str) -> None:
    """A hundred sizes, each timed and each compiled for the first time, end no honest kernel; one that is not timed gets no more."""
    fleet = make(gpus=(H200,))
    many = lease(device_kind=device_kind, workloads=tuple(workload(f"n{number}", "") for number in range(100)))
    timed = replace(many, submission=replace(many.submission, new=replace(many.submission.new, mode=wire.Mode.BENCHMARK)))
    autotuned = replace(timed, problem=replace(timed.problem, spec=replace(timed.problem.spec, baselines=("max-autotune",))))
    untimed = replace(many, submission=replace(many.submission, new=replace(many.submission.new, mode=wire.Mode.TEST)))
    for wanted in (untimed, timed, autotuned):
        await graded(fleet, wanted)
    tested, measured, tuned = (run.limits for run in boxes.runs)
    usual = fleet.profile.run if device_kind == "emulated" else fleet.profile.run_cuda
    assert tested == usual
    assert measured.wall_s >= usual.wall_s + 100 * 2 * fleet.profile.measure_s and measured.cpu_s >= measured.wall_s
    assert replace(measured, wall_s=usual.wall_s, cpu_s=usual.cpu_s) == usual
    assert (tuned.wall_s > measured.wall_s + 100 * 600) == (device_kind == "cuda")


async def test_a_device_gets_the_workloads_that_are_meant_for_it(make) -> None:
    workloads = (workload("both", ""), workload("large", "cuda"), workload("small", "emulated"))
    fleet = make(gpus=(H200,))
    for kind, expected in (("cuda", ["both", "large"]), ("emulated", ["both", "small"])):
        facts = await graded(fleet, lease(device_kind=kind, workloads=workloads))
        assert [fact.workload_id for fact in facts if isinstance(fact, wire.Trial)] == expected


@pytest.mark.parametrize("mode", [wire.Mode.TEST, wire.Mode.BENCHMARK, wire.Mode.RANKED])
@pytest.mark.parametrize("competition_id", ["spring", ""])
async def test_only_a_ranked_kernel_meets_the_secret_sizes_of_a_competition(make, mode: wire.Mode, competition_id: str) -> None:
    """Else nine tests tell a size by how long each took. The control: outside of a competition every mode meets hidden sizes."""
    workloads = (workload("public", ""), replace(workload("secret", ""), hidden=True))
    wanted = competing(lease(workloads=workloads), competition_id, mode)
    workload_ids = [fact.workload_id for fact in await graded(make(), wanted) if isinstance(fact, wire.Trial)]
    assert workload_ids == (["public"] if competition_id and mode is not wire.Mode.RANKED else ["public", "secret"])


async def test_a_kernel_that_meets_secret_sizes_waits_until_no_other_code_runs(make, judges) -> None:
    """Until then it is not judged, though its device is free. The control: a kernel outside of the competition is."""
    fleet, facts = make(), list[wire.Fact]()

    async def grade() -> None:
        async for fact in fleet.grade(competing(lease(), "spring", wire.Mode.RANKED)):
            facts.append(fact)

    async with asyncio.timeout(300), fleet.turn(secret=False):
        await graded(fleet, competing(lease("s0"), "", wire.Mode.RANKED))
        waiting = asyncio.create_task(grade())
        await until(lambda: any(isinstance(fact, wire.Round) for fact in facts))
        for _ in range(20):
            await asyncio.sleep(0.01)
        assert sum(line.startswith("Job") for line in judges.log("emulated")) == 1
    await waiting
    assert [fact.workload_id for fact in facts if isinstance(fact, wire.Trial)][-1] == "secret97"


async def test_nothing_is_built_while_a_kernel_meets_secret_sizes(make, boxes) -> None:
    """Of the build that waits there is no box. The control is the build that ends once the turn has."""
    fleet = make()
    async with asyncio.timeout(300), fleet.turn(secret=True):
        waiting = asyncio.create_task(graded(fleet))
        await until(lambda: boxes.runs)  # started early, without a job
        assert [spec.purpose for spec in boxes.specs] == [Purpose.RUN]
    await waiting
    assert {spec.purpose for spec in boxes.specs} == {Purpose.RUN, Purpose.BUILD}


async def test_a_problem_without_a_workload_for_the_device_is_its_authors_to_mend(make, boxes) -> None:
    with pytest.raises(ProblemBroken, match="'sum' has no workload for the device 'emulated'; add one") as broken:
        await graded(make(), lease(workloads=(workload("large", "cuda"),)))
    assert broken.value.final and boxes.specs == []


async def test_a_box_waits_on_its_gpu_while_the_kernel_is_built(make, boxes, judges) -> None:
    """The next job's waits too. To import for a GPU does not open it, so that box is not in the way of the check or of the first one's
    times (tests/gpu/test_waiting_boxes.py)."""
    fleet = make(gpus=(H200,))
    boxes.builds.clear()
    first, second = (asyncio.ensure_future(graded(fleet, lease(name))) for name in ("s1", "s2"))
    await until(lambda: [spec.purpose for spec in boxes.open].count(Purpose.BUILD) == 2)
    await until(lambda: len(boxes.runs) == 2)
    assert {spec.box_id: "--import-device" in spec.argv for spec in boxes.runs} == {"s1-1-run": True, "s2-1-run": True}
    boxes.builds.set()
    assert fold(await first).verdict == fold(await second).verdict
    assert [spec.box_id for spec in boxes.runs] == ["s1-1-run", "s2-1-run"]
    assert judges.log("0")[:4] == ["start GPU-0000", "Job well", "Check well", "Job well"]


async def test_a_box_that_waited_for_another_gpu_is_replaced(make, boxes) -> None:
    """With two GPUs of a model and both taken, nobody knows which one the third job gets: its box is begun for one of them all the same."""
    fleet = make(gpus=(H200, replace(H200, index=1, uuid="GPU-0001", minor=1)), builder_count=3)
    boxes.builds.clear()
    jobs = [asyncio.ensure_future(graded(fleet, lease(name))) for name in ("s1", "s2", "s3")]
    await until(lambda: [spec.purpose for spec in boxes.open].count(Purpose.BUILD) == 3 and len(boxes.runs) == 3)
    boxes.builds.set()
    for facts in await asyncio.gather(*jobs):
        assert isinstance(facts[-1], wire.RunEnd)
    third = [spec for spec in boxes.runs if spec.box_id == "s3-1-run"]
    assert len({spec.gpu.index for spec in third}) == len(third) and not boxes.open


async def test_the_device_is_looked_at_when_the_box_is_gone(make, boxes, judges) -> None:
    fleet = make(gpus=(H200,))
    boxes.before_close.clear()
    job = asyncio.ensure_future(graded(fleet))
    await until(lambda: "Job well" in judges.log("0"))
    await asyncio.sleep(0.1)
    assert boxes.open and not job.done() and "Check well" not in judges.log("0")
    boxes.before_close.set()
    await job
    await until(lambda: judges.log("0")[-1] == "Check well")


async def test_a_device_that_falls_ill_after_a_job_leaves_its_verdict(make, judges) -> None:
    fleet = make(gpus=(H200,))
    well = fold(await graded(fleet, lease("s0"))).verdict
    await until(lambda: judges.log("0")[-1] == "Check well")  # what is ordered now is for the next one
    judges.order("0", "well", "unwell", "unwell")
    assert fold(await graded(fleet)).verdict == well
    with pytest.raises(DeviceQuarantined, match="the canary is unwell"):
        await graded(fleet, lease("s2"))


async def test_a_kernel_that_is_not_built_leaves_its_gpu_to_the_next(make, boxes, judges) -> None:
    """Its waiting box is gone, and nothing had run on the device that would have to be checked."""
    fleet = make(gpus=(H200,))
    boxes.build_end = BoxExit(cause=BoxCause.EXITED, exit_code=7, output=b"error")
    facts = await graded(fleet)
    assert isinstance(facts[-1], wire.Build) and boxes.open == []
    boxes.build_end = BoxExit(cause=BoxCause.EXITED, exit_code=0)
    await graded(fleet, lease("s2"))
    assert judges.log("0")[:2] == ["start GPU-0000", "Job well"]


async def test_a_job_that_moves_says_where_it_was_judged(make, boxes, judges) -> None:
    fleet = make(gpus=(H200, fakes.gpu(1)))
    with fleet.seat("cuda:0") as first_seat, fleet.seat("cuda:1") as second_seat:
        await first_seat.environment(), await second_seat.environment()
        async with first_seat.lane():
            async with second_seat.lane():
                job = asyncio.ensure_future(graded(fleet, lease(device_kind="cuda:H200")))
                await until(lambda: Purpose.BUILD in {spec.purpose for spec in boxes.specs} - {spec.purpose for spec in boxes.open})
            facts = await job
    assert [fact.device_uuid for fact in facts if isinstance(fact, wire.Environment)] == ["GPU-0000", "GPU-0001"]
    assert [fact.isolation for fact in facts if isinstance(fact, wire.Environment)] == ["fake", "fake"]
    assert fold(facts).environment.device_uuid == boxes.runs[-1].gpu.uuid == "GPU-0001"


async def test_a_cancelled_job_leaves_a_device_that_was_looked_at(make, boxes, judges) -> None:
    fleet = make(gpus=(H200,))
    judges.order("0", "hush")
    job = asyncio.ensure_future(graded(fleet))
    await until(lambda: "Job hush" in judges.log("0"))
    job.cancel()
    await asyncio.wait([job])
    assert job.cancelled() and boxes.open == []
    assert isinstance((await graded(fleet, lease("s2")))[-1], wire.RunEnd)
    assert judges.log("0")[:5] == ["start GPU-0000", "Job hush", "start GPU-0000", "Check well", "Job well"]
