"""Whose turn it is on a device, where a job sits down, and when a device is not used any more."""

import asyncio
import sys
from dataclasses import replace

import pytest

from grader.dispatch import lanes
from grader.dispatch.lanes import JudgeProcess, Lanes, judge_environment
from grader.dispatch.local_fleet import LocalFleet
from grader.errors import DeviceQuarantined, JudgeBroken
from grader.isolation import GpuAccess
from sandbox.protocol import wire
from tests import fakes

SMALL, LARGE = (wire.Workload(workload_id=name, axes={}) for name in ("small", "large"))
FOUR = (fakes.gpu(0), fakes.gpu(1), fakes.gpu(2, "NVIDIA H100"), fakes.gpu(3, "NVIDIA H100"))


async def settled(fleet: LocalFleet) -> None:
    lanes: Lanes = fleet._lanes
    while checks := [lane.health_check_task for lane in lanes._lanes.values() if lane.health_check_task is not None]:
        await asyncio.wait(checks)


async def judged(fleet: LocalFleet, choice: str = "") -> tuple[int | None, list[str]]:
    """The GPU that a job was judged on, and what was said of it."""
    with fleet.seat(choice) as seat:
        await seat.environment()
        async with seat.lane() as lane:
            return seat.gpu and seat.gpu.index, [type(fact).__name__ async for fact in lane.judge(fakes.job())]


async def test_as_many_jobs_as_lanes_are_on_the_device(make) -> None:
    """Two go at once, on judges of their own; the third waits for its turn."""
    fleet = make(lane_count=2)
    with fleet.seat("emulated") as first_seat, fleet.seat("") as second_seat, fleet.seat("") as third_seat:
        async with first_seat.lane() as first:
            async with second_seat.lane() as second:
                third = asyncio.ensure_future(third_seat.lane().__aenter__())
                await asyncio.sleep(0)
                assert first is not second and not third.done()
            assert await asyncio.wait_for(third, 300) is second


async def test_secrets_wait_for_the_copy_of_the_toolchain_and_shown_work_does_not(make) -> None:
    """A box with secrets would leave what it reads in the page cache of files on disk."""
    copied = asyncio.Event()
    fleet = make(before_secret=copied.wait)
    secret = asyncio.ensure_future(fleet.turn(secret=True).__aenter__())
    for _ in range(10):
        await asyncio.sleep(0)
    async with asyncio.timeout(300), fleet.turn(secret=False):
        assert not secret.done()
    copied.set()
    await asyncio.wait_for(secret, 300)


async def test_a_seat_is_where_the_fewest_sit(make) -> None:
    """Each GPU gets one job before any has two; a choice keeps to the GPUs that it means."""
    fleet = make(gpus=FOUR)
    with fleet.seat("cuda:h100") as first, fleet.seat("cuda") as second, fleet.seat("") as third, fleet.seat("cuda") as fourth:
        assert [seat.gpu.index for seat in (first, second, third, fourth)] == [2, 0, 1, 3]
        with fleet.seat("cuda:1") as fifth, fleet.seat("cuda:H200") as sixth, fleet.seat("emulated") as seventh:
            assert (fifth.gpu.index, sixth.gpu.index, seventh.gpu) == (1, 0, None)


async def test_a_judges_variables_are_the_lanes(make, tmp_path) -> None:
    """The one GPU, Triton's directory, the cache of the baselines; and what the server itself was given."""
    access = GpuAccess(index=1, uuid="GPU-1", name="NVIDIA H200", minor=3, triton_dir=tmp_path)
    variables = judge_environment({"PYTHONPATH": "/carried", "HOME": "/h", "CUDA_VISIBLE_DEVICES": "0"}, access, tmp_path / "cache")
    assert variables["CUDA_VISIBLE_DEVICES"] == "GPU-1" and variables["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID" and variables["HOME"] == "/h"
    assert (variables["TRITON_CACHE_DIR"], variables["GRADER_COMPILE_CACHE"]) == (str(tmp_path), str(tmp_path / "cache"))
    assert variables["PYTHONPATH"].endswith(":/carried")
    assert "TRITON_CACHE_DIR" not in judge_environment({}, None, tmp_path)
    # Where the host's cores run kernels, threads that wait sleep, in the box as well; a GPU's host has cores for them.
    emulated = judge_environment({}, None, tmp_path)
    assert emulated["OMP_WAIT_POLICY"] == "PASSIVE" and "OMP_WAIT_POLICY" not in variables


async def test_every_gpu_has_a_triton_directory_that_boxes_can_read(make) -> None:
    fleet = make(gpus=FOUR[:2])
    with fleet.seat("cuda:0") as first, fleet.seat("cuda:1") as second:
        places = [first.gpu.triton_dir, second.gpu.triton_dir]
    assert len(set(places)) == 2 and {place.stat().st_mode & 0o777 for place in places} == {0o755}
    await fleet.__aexit__()
    assert not any(place.exists() for place in places)


@pytest.mark.parametrize("gpus", [FOUR[:1], ()])
async def test_a_device_is_not_kept_while_a_kernel_is_built(make, gpus) -> None:
    """A box that waits takes nothing of it, so that the kernel that is built first goes first."""
    fleet = make(gpus=gpus)
    with fleet.seat("") as slow, fleet.seat("") as quick:
        assert await slow.environment() and await quick.environment() and slow.idle and quick.idle
        async with asyncio.timeout(300), quick.lane():
            pass


@pytest.mark.parametrize("waits", [False, True])
async def test_who_comes_while_a_device_is_checked_has_it_next_unless_another_waits(make, monkeypatch, waits) -> None:
    """So that its box starts early, although the one before is still at the lane, which its sanitizer leaves to others."""
    monkeypatch.setattr(lanes, "CHECK_PATIENCE_S", 300.0)
    fleet = make()
    with fleet.seat("") as before, fleet.seat("") as between, fleet.seat("") as following:
        async with before.lane():
            turn = asyncio.ensure_future(between.lane().__aenter__()) if waits else None
            await asyncio.sleep(0)
        assert await following.environment() and following.idle is not waits
        if turn is not None:
            await turn


async def test_a_job_takes_the_lane_that_is_free_first(make) -> None:
    fleet = make(gpus=FOUR)
    with fleet.seat("cuda:0") as first, fleet.seat("cuda:1") as second, fleet.seat("cuda:H200") as waiting:
        async with first.lane():
            async with second.lane():
                assert waiting.gpu.index == 0
                turn = asyncio.ensure_future(waiting.lane().__aenter__())
                await asyncio.sleep(0)
            lane = await asyncio.wait_for(turn, 300)
            assert waiting.gpu.index == 1 and lane.environment.device_uuid == "GPU-0001"


@pytest.mark.parametrize(("patience_s", "first_served"), [(3600.0, 1), (0.0, 0)])
async def test_who_sits_at_a_lane_has_it_before_others(make, monkeypatch, patience_s, first_served) -> None:
    """Its box is for that GPU, and the other's would have to be replaced; a job that has waited for long takes what there is."""
    monkeypatch.setattr(lanes, "AFFINITY_TIMEOUT_S", patience_s)
    fleet = make(gpus=FOUR[:2])
    with fleet.seat("cuda:0") as first, fleet.seat("cuda:1") as second, fleet.seat("cuda") as early, fleet.seat("cuda") as late:
        async with first.lane():
            async with second.lane():
                assert (early.gpu.index, late.gpu.index) == (0, 1)
                entered = [seat.lane() for seat in (early, late)]  # kept: one that is forgotten gives its lane back
                turns = [asyncio.ensure_future(lane.__aenter__()) for lane in entered]
                await asyncio.sleep(0)
            await asyncio.wait(turns, timeout=300, return_when=asyncio.FIRST_COMPLETED)
            assert [turn.done() for turn in turns] == [first_served == 0, first_served == 1]
        await asyncio.wait(turns, timeout=300)
        assert {early.gpu.index, late.gpu.index} == {0, 1}


async def test_a_device_is_looked_at_after_every_job(make, judges) -> None:
    fleet = make(gpus=FOUR[:1])
    assert [await judged(fleet), await judged(fleet)] == [(0, ["Load", "Plan", "Trial", "Trial", "Trial", "Finished"])] * 2
    await settled(fleet)
    assert judges.log("0") == ["start GPU-0000", "Job well", "Check well", "Job well", "Check well"]


@pytest.mark.slow
@pytest.mark.parametrize("illness", ["unwell", "die", "hush"])
async def test_one_bad_answer_costs_a_judge_and_no_lane(make, judges, illness) -> None:
    if illness == "hush":
        judges.check_s = 5.0  # long enough for the fresh judge
    fleet = make(gpus=FOUR[:1])
    judges.order("0", "well", illness)
    first = await judged(fleet)
    assert await judged(fleet) == first
    assert judges.log("0")[:6] == ["start GPU-0000", "Job well", f"Check {illness}", "start GPU-0000", "Check well", "Job well"]


async def test_a_device_that_is_unwell_twice_is_quarantined(make, judges) -> None:
    """Jobs go to the others; a request for this one alone is refused with the reason."""
    fleet = make(gpus=FOUR[:2])
    judges.order("0", "well", "unwell", "unwell")
    assert (await judged(fleet))[0] == 0
    await settled(fleet)
    assert [(await judged(fleet))[0], (await judged(fleet, "cuda:H200"))[0]] == [1, 1]
    with pytest.raises(DeviceQuarantined, match=r"GPU 0 \(NVIDIA H200\) does not come back: the canary is unwell; restart the host"):
        await judged(fleet, "cuda:0")
    assert (await judged(fleet, "emulated"))[0] is None


async def test_a_device_that_comes_back_is_used_again(make, judges) -> None:
    fleet = make(gpus=FOUR[:1], look_again_s=0.0)
    judges.order("0", "well", "unwell", "unwell", "well")
    assert (await judged(fleet))[0] == 0
    await settled(fleet)
    assert (await judged(fleet, "cuda:0"))[0] == 0
    assert judges.log("0")[-2:] != ["Check unwell", "Check unwell"]


async def test_a_judge_that_lost_its_device_is_started_anew(make, judges) -> None:
    """The judge gets no second context in the same process; the next job has a fresh one and is right."""
    fleet = make(gpus=FOUR[:1])
    judges.order("0", "lost")
    assert await judged(fleet) == (0, ["Broken"])
    assert (await judged(fleet))[1][-1] == "Finished"
    assert judges.log("0")[:5] == ["start GPU-0000", "Job lost", "start GPU-0000", "Check well", "Job well"]


async def test_a_judge_that_dies_with_a_job_is_started_anew(make, judges) -> None:
    fleet = make()
    judges.order("emulated", "die")
    with pytest.raises(JudgeBroken, match="ended with 9"):
        await judged(fleet)
    assert (await judged(fleet))[1][-1] == "Finished"


async def test_a_judge_that_was_begun_is_the_one_that_is_used(judges) -> None:
    """So that it imports while its server does."""
    judge = judges("emulated", None, None)
    await judge.begin()
    assert not judge.running
    await judge.environment()
    assert judge.running and len(judges.log("emulated")) == 1
    await judge.close()
    await judge.environment()
    assert len(judges.log("emulated")) == 2
    await judge.close()


async def test_a_judge_that_died_before_it_was_used_is_started_anew(judges) -> None:
    judge = judges("emulated", None, None)
    await judge.begin()
    judge._process.kill()
    await judge._process.wait()
    await judge.environment()
    assert judge.running
    await judge.close()


async def test_a_line_that_does_not_fit_is_the_judges_fault() -> None:
    """The line is reported like every fault of a judge, and the process is ended."""
    judge = JudgeProcess("emulated", command=(sys.executable, "-c", f"print('x' * {2 * wire.LINE_LIMIT_BYTES})"))
    try:
        with pytest.raises(JudgeBroken, match=f"a line of over {wire.LINE_LIMIT_BYTES} bytes"):
            await judge.environment()
        assert not judge.running
    finally:
        await judge.close()


async def test_a_judge_that_does_not_start_takes_its_lane_along(make, judges) -> None:
    fleet = make(gpus=FOUR[:2])
    judges.sicken("0")
    with pytest.raises(JudgeBroken, match="ended with 7"):
        await judged(fleet)
    assert (await judged(fleet))[0] == 1
    await settled(fleet)
    assert (await judged(fleet))[0] == 1
    with pytest.raises(DeviceQuarantined):
        await judged(fleet, "cuda:0")


async def test_who_waits_for_a_quarantined_lane_moves_or_is_told(make, judges) -> None:
    """To another of the same choice and model; where there is none, the attempt ends as one of our faults."""
    fleet = make(gpus=FOUR[:2])
    judges.order("0", "unwell", "unwell")
    with fleet.seat("cuda:0") as sick, fleet.seat("cuda:1") as busy, fleet.seat("cuda:H200") as moves, fleet.seat("cuda:0") as stays:
        assert moves.gpu.index == stays.gpu.index == 0
        async with busy.lane():
            async with sick.lane():
                moved, stayed = (asyncio.ensure_future(seat.lane().__aenter__()) for seat in (moves, stays))
                await asyncio.sleep(0)
            with pytest.raises(DeviceQuarantined, match="GPU 0"):
                await asyncio.wait_for(stayed, 300)
            assert not moved.done()
        await asyncio.wait_for(moved, 300)
        assert moves.gpu.index == 1


async def test_what_was_built_for_one_model_does_not_move_to_another(make, judges) -> None:
    fleet = make(gpus=FOUR[1:3])
    judges.order("1", "unwell", "unwell")
    with fleet.seat("cuda:1") as sick, fleet.seat("cuda:2"), fleet.seat("cuda") as waits:
        assert waits.gpu.index == 1
        async with sick.lane():
            turn = asyncio.ensure_future(waits.lane().__aenter__())
        with pytest.raises(DeviceQuarantined):
            await asyncio.wait_for(turn, 300)
    assert (await judged(fleet, "cuda"))[0] == 2


async def test_who_stops_waiting_leaves_the_lane_to_others(make) -> None:
    fleet = make()
    with fleet.seat("") as first, fleet.seat("") as second:
        async with first.lane():
            turn = asyncio.ensure_future(second.lane().__aenter__())
            await asyncio.sleep(0)
            turn.cancel()
        await asyncio.wait([turn])
        assert turn.cancelled()
    assert (await asyncio.wait_for(judged(fleet), 300))[1][-1] == "Finished"


async def test_a_cordoned_lane_ends_its_job_and_gets_no_other(make) -> None:
    """The others of its kind get them; a request for it alone is refused, and it works again afterwards."""
    fleet = make(gpus=FOUR[:2])
    with fleet.seat("cuda:0") as first:
        async with first.lane():
            fleet.cordon({"cuda:0"})
            assert [lane.state.name for lane in fleet.lanes()][1:] == ["TAKEN", "FREE"]
            assert [(await judged(fleet, "cuda"))[0] for _ in range(2)] == [1, 1]
    await settled(fleet)
    assert [lane.state.name for lane in fleet.lanes()][1:] == ["CORDONED", "FREE"]
    with pytest.raises(DeviceQuarantined, match=r"GPU 0 .* is cordoned; `grader-server admin lanes uncordon`"):
        await judged(fleet, "cuda:0")
    assert "cuda:0" not in fleet.ready_kinds() and "cuda:0" in fleet.device_kinds()
    fleet.cordon(())
    assert (await judged(fleet, "cuda:0"))[0] == 0


async def test_a_host_without_a_usable_lane_takes_nothing(make) -> None:
    """So that submissions wait in the queue, and for the workers of other hosts."""
    fleet = make(lane_count=1, builder_count=2)
    assert (fleet.capacity, fleet.ready_kinds()) == (3, ("emulated",))
    fleet.cordon({"emulated:0"})
    assert (fleet.capacity, fleet.ready_kinds()) == (0, ())


@pytest.fixture
def prepared_at_once(monkeypatch) -> None:
    monkeypatch.setattr(lanes, "PREPARE_AFTER_S", 1e-6)
    monkeypatch.setattr(lanes, "PREPARE_LOOK_S", 0.01)


def with_workloads(problem_id: str, *workloads: wire.Workload) -> wire.ProblemSpec:
    return replace(fakes.problem(problem_id).spec, workloads=workloads)


async def test_an_idle_gpu_has_the_baselines_of_known_problems(make, judges, prepared_at_once) -> None:
    """Of every public workload that is meant for it. The emulated device compiles nothing."""
    skipped = replace(SMALL, workload_id="secret", hidden=True), replace(SMALL, workload_id="tiny", device_kind="emulated")
    fleet = make(gpus=FOUR[:1])
    fleet.prepare([with_workloads("a", SMALL, *skipped), with_workloads("b", LARGE)])
    await asyncio.wait_for(fleet._preparing, 300)
    assert judges.log("0") == ["start GPU-0000", "Prepare well", "baselines of small", "Prepare well", "baselines of large"]
    assert judges.log("emulated") == []
    assert (await judged(fleet))[0] == 0  # the lane is free again


async def test_nothing_is_prepared_while_a_lane_is_used(make, judges, prepared_at_once) -> None:
    fleet = make(gpus=FOUR[:1])
    with fleet.seat("cuda"):
        fleet.prepare([with_workloads("a", SMALL)])
        await asyncio.sleep(0.3)
        assert judges.log("0") == []
    await asyncio.wait_for(fleet._preparing, 300)
    assert judges.log("0")[1:] == ["Prepare well", "baselines of small"]


@pytest.mark.parametrize(("answer", "starts"), [("no such module", 1), ("die", 2)])
async def test_a_problem_that_cannot_be_prepared_stops_nothing(make, judges, prepared_at_once, answer, starts) -> None:
    judges.order("0", answer)
    fleet = make(gpus=FOUR[:1])
    fleet.prepare([with_workloads("a", SMALL, LARGE), with_workloads("b", SMALL)])
    await asyncio.wait_for(fleet._preparing, 300)
    log = judges.log("0")
    assert log.count("start GPU-0000") == starts and "baselines of large" not in log
    assert log[-3:] == ["Check well", "Prepare well", "baselines of small"]
    assert (await judged(fleet))[0] == 0
