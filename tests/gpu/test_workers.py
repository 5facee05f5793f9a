"""A server that grades nothing itself, and two workers on two GPUs: the same verdicts, twice the jobs, and how alike the two GPUs are."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from grader.api.client import GraderClient
from grader.v1 import report_pb2, submission_pb2
from tests.gpu.conftest import count_of, one_at_a_time, show_flow_only
from tests.gpu.report import Section
from tests.gpu.test_examples import Example, all_examples
from tests.gpu.test_lanes import JOB_COUNT, MIX
from tests.harness.grading import ROOT, usable_gpus
from tests.harness.programs import program

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

STORY = ("correct_2d", "correct_unrolled", "divergent_sync", "zeros", "stale_memory", "wmma_float")
SAME_PROBLEM = "vector_add/float4_with_tail.cu"
RATIO_LIMIT = 1.2  # two workers with twice the jobs, against one
AWAY_COUNT = 4
DIFFERENCE_LIMIT, LONG_US = 0.1, 100.0  # shorter kernels differ by more, for the time is mostly that of a launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A server's client and state directory, and the device that each worker has."""

    client: GraderClient
    state_dir: Path
    devices: Sequence[str]

    async def grade(self, example: Example, device: str, mode: int) -> submission_pb2.Submission:
        """Submit a kernel and wait for its end."""
        made = await self.client.submit(
            submission_pb2.Submission(
                problem=f"problems/{example.problem.problem_id}",
                language=example.language,
                mode=mode,  # type: ignore[arg-type]
                device_kind=device,
                sources=[submission_pb2.SourceFile(path=Path(example.name).name, content=example.source)],
            )
        )
        async for _ in self.client.watch(made.name):
            pass
        return await self.client.get_submission(made.name, full=True)

    def admin(self, *words: str) -> None:
        """Run an administrator's command."""
        command = [sys.executable, "-m", "grader.server.main", "admin", "lanes", "--state-dir", str(self.state_dir), *words]
        subprocess.run(command, check=True, capture_output=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(request: pytest.FixtureRequest, device: str) -> AsyncIterator[Fleet]:
    """Both workers have joined over a socket of this host."""
    gpus = usable_gpus((0, 1)) if device == "cuda" else ()
    if device == "cuda" and len(gpus) < 2:
        pytest.skip(f"this host has {len(gpus)} usable GPUs; two are needed")
    devices = [f"cuda:{gpu.index}" for gpu in gpus] or ["emulated", "emulated"]
    with ExitStack() as stack:
        for gpu in gpus:
            stack.enter_context(one_at_a_time(gpu.uuid))
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gw-")))  # a socket's path is short
        ports = ["--listen", "127.0.0.1:0", "--fleet-listen", f"unix:{place}/fleet"]
        sandbox = ["--sandbox", request.config.getoption("gpu_isolation")]
        state_dir, problems = place / "server", ROOT / "kernels_examples"
        server = stack.enter_context(
            program("grader.server.main", "--state-dir", state_dir, "--problems", problems, "--fleet", "remote", *ports, *sandbox)
        )
        join = server.until("fleet_listening")["address"]
        address = server.until("serving")["address"]
        for number, name in enumerate(devices):
            own = ["--join", join, "--name", f"gpu-{number}", "--state-dir", place / f"worker-{number}", "--device", name]
            worker = stack.enter_context(program("grader.worker.main", *own, *sandbox))
            worker.until("joined")
        async with GraderClient(address) as client:
            yield Fleet(client=client, state_dir=state_dir, devices=devices)


async def test_the_story_has_its_verdicts_at_workers(fleet: Fleet, section: Section) -> None:
    """Several at once, on whichever GPU has room."""
    examples = [one for one in all_examples() if one.name in {f"tril_matmul/{name}.cu" for name in STORY}]
    ended = await asyncio.gather(*(fleet.grade(one, _kind(fleet), submission_pb2.MODE_TEST) for one in examples))
    for example, one in zip(examples, ended, strict=True):
        section.table("kernel", "verdict", "expected", "GPU").add(
            example.name, _verdict(one), example.expected, one.report.environment.device_uuid[:12]
        )
    assert [_is_expected(one, example) for one, example in zip(ended, examples, strict=True)] == [True] * len(STORY)


async def test_two_gpus_of_one_type_are_alike(fleet: Fleet, section: Section, device: str) -> None:
    """A kernel timed on both at once: the ratio of its times, and of PyTorch's."""
    example = next(one for one in all_examples() if one.name == SAME_PROBLEM)
    first, second = await asyncio.gather(*(fleet.grade(example, name, submission_pb2.MODE_BENCHMARK) for name in fleet.devices))
    assert (_verdict(first), _verdict(second)) == ("ACCEPTED", "ACCEPTED")
    show_flow_only(device)
    assert first.report.environment.device_uuid != second.report.environment.device_uuid
    ratios = []
    for one, other in zip(first.report.measurements, second.report.measurements, strict=True):
        baselines = [(name, one.baselines[name], other.baselines[name]) for name in one.baselines]
        timed = [("kernel", one.certified, other.certified), *baselines]
        for name, *samples in timed:
            times = [_median_us(each) for each in samples]
            section.table("workload", "what", "GPU 0, us", "GPU 1, us", "ratio").add(
                one.workload_id, name, f"{times[0]:.2f}", f"{times[1]:.2f}", f"{times[1] / times[0]:.4f}"
            )
            ratios.append((max(times), times[1] / times[0]))
    assert [ratio for time_us, ratio in ratios if time_us >= LONG_US and abs(ratio - 1) > DIFFERENCE_LIMIT] == []


async def test_two_workers_do_twice_the_jobs_of_one(fleet: Fleet, request: pytest.FixtureRequest, section: Section, device: str) -> None:
    """2N jobs on two take little longer than N on one, and every verdict is right."""
    examples = {one.name: one for one in all_examples()}
    count, walls_s = count_of(request.config, JOB_COUNT), list[float]()
    mix = [examples[name] for name in MIX][:count]
    for name in dict.fromkeys(fleet.devices):  # each worker builds
        await asyncio.gather(*(fleet.grade(one, name, submission_pb2.MODE_TEST) for one in mix))
    for workers, wanted in ((1, fleet.devices[0]), (2, _kind(fleet))):
        jobs = [mix[at % len(mix)] for at in range(count)] * workers
        begun = time.monotonic()
        ended = await asyncio.gather(*(fleet.grade(one, wanted, submission_pb2.MODE_TEST) for one in jobs))
        walls_s.append(time.monotonic() - begun)
        right = sum(_is_expected(one, example) for one, example in zip(ended, jobs, strict=True))
        section.table("workers", "jobs", "wall time, s", "jobs a minute", "verdicts as expected").add(
            workers, len(jobs), f"{walls_s[-1]:.1f}", f"{60 * len(jobs) / walls_s[-1]:.1f}", f"{right} of {len(jobs)}"
        )
        assert right == len(jobs)
    section.raw["wall_s"] = walls_s
    show_flow_only(device)
    assert walls_s[1] / walls_s[0] <= RATIO_LIMIT


async def test_a_cordoned_gpu_gets_nothing_and_its_neighbour_all(fleet: Fleet, section: Section, device: str) -> None:
    """And both get work again afterwards."""
    example = next(one for one in all_examples() if one.name == SAME_PROBLEM)
    lane = f"local-1/gpu-0/{fleet.devices[0].partition(':')[0]}:0"
    used = []
    for word in ("cordon", "uncordon"):
        fleet.admin(word, lane)
        await asyncio.sleep(3.0)  # the server looks each second, and the worker answers
        ended = await asyncio.gather(*(fleet.grade(example, _kind(fleet), submission_pb2.MODE_TEST) for _ in range(AWAY_COUNT)))
        assert [_verdict(one) for one in ended] == ["ACCEPTED"] * AWAY_COUNT
        used.append({one.report.environment.device_uuid for one in ended})
    section.notes.append(f"GPUs that graded {AWAY_COUNT} submissions: {len(used[0])} with one cordoned, {len(used[1])} afterwards")
    show_flow_only(device)
    assert len(used[0]) == 1 and len(used[1]) == 2


def _kind(fleet: Fleet) -> str:
    return fleet.devices[0].partition(":")[0]


def _verdict(submission: submission_pb2.Submission) -> str:
    return report_pb2.Verdict.Name(submission.report.verdict).removeprefix("VERDICT_")


def _is_expected(submission: submission_pb2.Submission, example: Example) -> bool:
    verdict, *reason = example.expected.split()
    return _verdict(submission) == verdict and (not reason or submission.report.reason == reason[0])


def _median_us(samples: report_pb2.Samples) -> float:
    return samples.median_duration.ToNanoseconds() / 1000


async def test_a_ranked_submission_is_right_on_both(fleet: Fleet, section: Section) -> None:
    """At once, in several processes each, with hidden workloads."""
    example = next(one for one in all_examples() if one.name == SAME_PROBLEM)
    ended = await asyncio.gather(*(fleet.grade(example, name, submission_pb2.MODE_RANKED) for name in fleet.devices))
    for one in ended:
        section.table("kernel", "GPU", "verdict", "processes").add(
            example.name, one.report.environment.device_uuid[:12], _verdict(one), str(one.report.process_count)
        )
    assert all(_verdict(one) == "ACCEPTED" and one.report.process_count > 1 for one in ended)
