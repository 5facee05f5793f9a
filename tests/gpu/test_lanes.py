"""Several lanes on the GPUs of one host: how much more they grade, how alike the GPUs are, and what one of them sees of another.

Lanes that a case does not use are cordoned. A lane's time is from having the device to giving it back.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from grader.observability.observer import LaneState
from grader.server.wiring import WARM_MORE
from sandbox.protocol import wire
from tests.exploits.attack_files import Kernel, attacks_on_a_gpu
from tests.gpu.conftest import count_of, measure_s, show_flow_only
from tests.gpu.figures import saturated_rate
from tests.gpu.kernels.files import Example
from tests.gpu.report import Report, Section
from tests.gpu.test_examples import all_examples
from tests.gpu.test_exploits import complaints, problem_of
from tests.harness.grading import Conditions, Graded, Grading, grader, usable_gpus

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

MIX = (
    "vector_add/float4_with_tail.cu",
    "row_softmax/warp_per_row.cu",
    "tril_matmul/shared_tiles.cu",
    "row_softmax/torch_online_block.cu",
    "vector_add/off_by_one.cu",
    "row_softmax/block_tree.cu",
)
LANE_COUNTS = (1, 2, 4, 8)
JOB_COUNT = 12
SCALE_SHARE = 0.925  # of what so many single lanes would grade: 3.7 times with four
MEASURE_S = 1.0
AHEAD = 2  # jobs a lane that build, or have a box made ready, while it is taken
WORK = (wire.Step.VERIFY, wire.Step.MEASURE, wire.Step.BASELINE)
ATTACK_SLICE = 8  # every so manieth of the attacks that no one accepts
AWAY_COUNT = 8
LOOK_AGAIN_S, BACK_S = 10.0, 120.0  # a quarantined lane is looked at again; how long until it is back
HOLD = "import torch, time; kept = torch.ones(1 << 20, device='cuda'); print('held', flush=True); time.sleep(600)"
REACHES = """
import ctypes, os

def reached():
    own = {line.split()[-1] for line in open("/proc/self/maps") if "/dev/nvidia" in line}
    own |= {os.readlink(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{one}")}
    found = []
    for number in range(16):
        place = f"/dev/nvidia{number}"
        if place not in own:
            try:
                os.close(os.open(place, os.O_RDWR))
                found.append(place)
            except OSError:
                pass
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuInit(0)
        driver.cuDeviceGetCount(ctypes.byref(count))
    except OSError:
        pass
    return found + [f"GPU {number}" for number in range(1, count.value)]

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The fleet of this host, and the device of each of its lanes."""

    grading: Grading
    devices: tuple[str, ...]
    gpus: tuple[Gpu, ...]
    mix: tuple[Example, ...]
    conditions: Conditions

    @contextmanager
    def only(self, count: int) -> Iterator[None]:
        """Use so many of the lanes."""
        names = [lane.name for lane in self.grading.fleet.lanes()] if self.gpus else []
        self.grading.fleet.cordon({name for name in names if name not in self.devices[:count]})
        try:
            yield
        finally:
            self.grading.fleet.cordon(())

    async def grade(self, example: Example, device: str = "", mode: wire.Mode = wire.Mode.BENCHMARK) -> Graded:
        """Grade on a device, by default on any."""
        return await example.grade(self.grading, mode=mode, device=device or None, conditions=self.conditions)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def host(request: pytest.FixtureRequest, gpu_report: Report, device: str) -> AsyncIterator[Host]:
    """All GPUs of this host; everything is built, and each lane's judge has compiled and timed the baselines."""
    gpus = usable_gpus() if device == "cuda" else ()
    if device == "cuda" and len(gpus) < 2:
        pytest.skip(f"this host has {len(gpus)} usable GPUs; two are needed")
    examples = {example.name: example for example in all_examples()}
    isolation, mix = request.config.getoption("gpu_isolation"), tuple(examples[name] for name in MIX)
    lanes, warm = tuple(range(len(gpus))), (len(gpus) or 2) + WARM_MORE
    async with grader(
        isolation=isolation, lanes=lanes, emulated_count=2, device=device, warm_count=warm, look_again_s=LOOK_AGAIN_S
    ) as grading:
        gpu_report.describe(await grading.environment())
        instance = Host(
            grading=grading,
            devices=tuple(f"cuda:{gpu.index}" for gpu in gpus) or (device, device),
            gpus=gpus,
            mix=mix,
            conditions=Conditions(measure_s=measure_s(request.config, MEASURE_S)),
        )
        await grading.prebuild(example.build for example in mix)
        of_problems = {job.problem.problem_id: job for job in mix if job.expected == ("ACCEPTED",)}.values()
        await asyncio.gather(*(instance.grade(job, lane) for job in of_problems for lane in dict.fromkeys(instance.devices)))
        yield instance


@pytest.fixture(scope="module")
def rates() -> dict[int, float]:
    """Jobs a minute by the number of lanes."""
    return {}


@pytest.mark.parametrize("lanes", LANE_COUNTS)
async def test_lanes_grade_side_by_side(
    request: pytest.FixtureRequest, host: Host, rates: dict[int, float], section: Section, device: str, lanes: int
) -> None:
    """N times as many jobs a minute on N lanes at saturation, less 7.5 %, and every verdict is right."""
    if lanes > len(host.devices):
        pytest.skip(f"this host has {len(host.devices)} lanes")
    jobs = [host.mix[at % len(host.mix)] for at in range(count_of(request.config, JOB_COUNT) * lanes)]
    free, begun, ends = asyncio.Semaphore(lanes * (1 + AHEAD)), time.monotonic(), list[float]()

    async def grade(example: Example) -> Graded:
        async with free:
            graded = await host.grade(example)
        ends.append(time.monotonic())
        return graded

    with host.only(lanes):
        graded = await asyncio.gather(*map(grade, jobs))
    wall_s = time.monotonic() - begun
    rates[lanes] = saturated_rate(ends, lanes)
    right = sum(result.is_one_of(job.expected) for result, job in zip(graded, jobs, strict=True))
    speedup = f"{rates[lanes] / rates[1]:.2f}" if 1 in rates else "-"
    spans = [lane_spans(result.report.timeline, wire.Step.DEVICE) for result in graded]
    share = _seconds(spans, WORK) / (wall_s * lanes)
    section.table(
        *("lanes", "jobs", "wall time, s", "jobs a minute in all", "at saturation", "of one lane's"),
        *("of the lanes' time verifying or timing", "verdicts as expected"),
    ).add(
        lanes,
        len(jobs),
        f"{wall_s:.1f}",
        f"{60 * len(jobs) / wall_s:.1f}",
        f"{rates[lanes]:.1f}",
        speedup,
        f"{100 * share:.0f} %",
        f"{right} of {len(jobs)}",
    )
    steps = [step for step in wire.Step if _seconds(spans, (step,)) > 0]
    for step in steps:
        mean_s = _seconds(spans, (step,)) / len(jobs)
        section.table("lanes", "step", "s a job", title="What a lane's time goes into").add(lanes, step.value, f"{mean_s:.2f}")
    assert right == len(jobs)
    show_flow_only(device)
    assert lanes == 1 or rates[lanes] >= SCALE_SHARE * lanes * rates[1]


async def test_attacks_on_all_lanes_at_once(host: Host, section: Section, device: str) -> None:
    """A slice of the attacks, each on every GPU at the same time: none is accepted anywhere, and a right kernel is afterwards."""
    kernels = [candidate for candidate in attacks_on_a_gpu() if not candidate.no_gain][::ATTACK_SLICE]
    wrong: list[str] = []

    async def attack(kernel: Kernel, lane: str) -> str:
        graded = await host.grading.grade(
            problem_of(kernel), kernel.sources(), language=kernel.language, mode=wire.Mode.RANKED, device=lane, conditions=host.conditions
        )
        wrong.extend(f"{kernel.name} on {lane}: {text}" for text in complaints(kernel, graded))
        return graded.verdict

    await host.grading.prebuild((problem_of(entry), entry.sources(), entry.language) for entry in kernels)
    for kernel in kernels:
        verdicts = await asyncio.gather(*(attack(kernel, lane) for lane in host.devices))
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        section.table("attack", "verdicts", title="Attacks on all lanes at once").add(kernel.name, counts)
    after = await asyncio.gather(*(host.grade(host.mix[0], lane, wire.Mode.TEST) for lane in host.devices))
    assert [result.verdict for result in after] == ["ACCEPTED"] * len(host.devices)
    assert wrong == []


async def test_a_box_reaches_no_other_gpu(host: Host, section: Section, device: str) -> None:
    """The box finds the nodes of no other GPU, and the driver shows it one. The control: this process finds the others."""
    source = f"{REACHES}\nprint(f'reached: {{reached()}}')\n\ndef solve(a, b):\n    return a + b\n"
    example = replace(host.mix[0], source=source, language="python")
    graded = await asyncio.gather(*(host.grade(example, lane, wire.Mode.TEST) for lane in host.devices))
    assert [result.verdict for result in graded] == ["ACCEPTED"] * len(graded), graded[0].explanation
    section.notes.append(f"What a box reaches of other GPUs: {'; '.join(result.output.strip() for result in graded)}")
    assert all("reached: []" in result.output for result in graded)
    show_flow_only(device)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", f"{REACHES}\nprint(reached())", stdout=asyncio.subprocess.PIPE)
    printed, _ = await process.communicate()
    assert printed.decode().count("/dev/nvidia") >= len(host.devices)


async def test_a_quarantined_lane_is_left_out_and_comes_back(host: Host, section: Section, device: str) -> None:
    """While a process that is not ours sits on the first GPU, the others grade; once it has gone, the lane is back."""
    show_flow_only(device)
    first, name = host.gpus[0], host.devices[0]
    await host.grade(host.mix[0], name, wire.Mode.TEST)
    environment = {"CUDA_VISIBLE_DEVICES": first.uuid, "PATH": "/usr/bin:/bin"}
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, env=environment) as stranger:
        try:
            assert stranger.stdout is not None
            await asyncio.to_thread(stranger.stdout.readline)
            last = await host.grade(host.mix[0], name, wire.Mode.TEST)
            took_s = await _until(host, name, LaneState.QUARANTINED)
            graded = await asyncio.gather(*(host.grade(host.mix[0], mode=wire.Mode.TEST) for _ in range(AWAY_COUNT)))
        finally:
            stranger.kill()
    back_s = await _until(host, name, LaneState.FREE)
    again = await host.grade(host.mix[0], name, wire.Mode.TEST)
    used = {result.report.environment.device_uuid for result in graded if result.report.environment}
    section.notes.append(
        f"With a stranger on {name}: quarantined {took_s:.0f} s after a job, {AWAY_COUNT} submissions on {len(used)} other GPUs; back "
        f"{back_s:.0f} s after the stranger had gone."
    )
    assert {result.verdict for result in (last, *graded, again)} == {"ACCEPTED"}
    assert first.uuid not in used


async def _until(host: Host, name: str, state: LaneState) -> float:
    """How many seconds it takes until a lane is in this state."""
    begun = time.monotonic()
    async with asyncio.timeout(BACK_S):
        while next(lane.state for lane in host.grading.fleet.lanes() if lane.name == name) is not state:
            await asyncio.sleep(0.2)
    return time.monotonic() - begun


def lane_spans(spans: Sequence[wire.Span], device_step: wire.Step) -> Sequence[wire.Span]:
    """The steps of a timeline after the last time that it had the device; none where it never had it."""
    start = max((index for index, span in enumerate(spans) if span.step == device_step), default=len(spans))
    return spans[start + 1 :]


def _seconds(spans: Sequence[Sequence[wire.Span]], steps: Sequence[wire.Step]) -> float:
    return sum(span.duration_ns for job_spans in spans for span in job_spans if span.step in steps) / 1e9
