"""A server that grades nothing itself, and a worker for each GPU, started here or by Ray: the same verdicts, N times the jobs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from grader.api.client import GraderClient
from grader.dispatch.gpus import Gpu
from grader.v1 import report_pb2, submission_pb2
from tests.gpu.conftest import count_of, one_at_a_time, show_flow_only
from tests.gpu.figures import saturated_rate
from tests.gpu.report import Section
from tests.gpu.test_examples import Example, all_examples
from tests.gpu.test_lanes import JOB_COUNT, MIX, SCALE_SHARE
from tests.harness.grading import ROOT, usable_gpus
from tests.harness.programs import program

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

STORY = ("correct_2d", "correct_unrolled", "divergent_sync", "zeros", "stale_memory", "wmma_float")
SAME_PROBLEM = "vector_add/float4_with_tail.cu"
AWAY_EACH = 3  # submissions for each GPU while one is cordoned
TEST, BENCHMARK, RANKED = submission_pb2.MODE_TEST, submission_pb2.MODE_BENCHMARK, submission_pb2.MODE_RANKED
MEASURE_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A server's client and state directory, the device that each worker has, and the first worker's name."""

    client: GraderClient
    state_dir: Path
    devices: Sequence[str]
    worker: str

    async def grade(self, example: Example, device: str, mode: int) -> submission_pb2.Submission:
        """Submit a kernel and wait for its end."""
        made = await self.client.submit(
            submission_pb2.Submission(
                problem=f"problems/{example.problem.problem_id}",
                language=example.language,
                mode=mode,  # type: ignore[arg-type]
                device_kind=device,
                measure_duration=Duration(seconds=round(MEASURE_S)) if mode == BENCHMARK else None,
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


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["processes", "ray"])
async def fleet(request: pytest.FixtureRequest, device: str) -> AsyncIterator[Fleet]:
    """A worker for each GPU has joined over a socket of this host, started here or by Ray."""
    gpus = usable_gpus() if device == "cuda" else ()
    if device == "cuda" and len(gpus) < 2:
        pytest.skip(f"this host has {len(gpus)} usable GPUs; two are needed")
    if request.param == "ray" and not find_spec("ray"):
        pytest.skip("Ray is not installed")
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
        start = placed_by_ray if request.param == "ray" else started_here
        first = stack.enter_context(start(devices, gpus, place, join, sandbox))
        await asyncio.to_thread(server.until, "worker_joined", len(devices))
        async with GraderClient(address) as client:
            yield Fleet(client=client, state_dir=state_dir, devices=devices, worker=f"local/{first}")


@contextmanager
def started_here(devices: Sequence[str], gpus: Sequence[Gpu], place: Path, join: str, sandbox: Sequence[str]) -> Iterator[str]:
    """A process for each; the first one's name."""
    with ExitStack() as stack:
        for number, name in enumerate(devices):
            own = ["--join", join, "--name", f"gpu-{number}", "--state-dir", place / f"worker-{number}", "--device", name]
            stack.enter_context(program("grader.worker.main", *own, *sandbox))
        yield "gpu-0"


@contextmanager
def placed_by_ray(devices: Sequence[str], gpus: Sequence[Gpu], place: Path, join: str, sandbox: Sequence[str]) -> Iterator[str]:
    """An actor for each, on a node that has all GPUs; the first one's name."""
    from grader.worker.ray_placement import TYPE_LABEL
    from tests.harness.ray_cluster import RayCluster

    kind = gpus[0].name.split()[1] if gpus else "emulated"
    os.environ["GRADER_STATE_DIR"] = str(place / "workers")
    cluster = RayCluster(0)
    try:
        cluster.add_node(num_gpus=len(gpus), labels={TYPE_LABEL: kind})
        asked = ["--ray", cluster.address, "--lanes", f"{kind}={len(devices)}", "--join", join, "--", *sandbox]
        subprocess.run([sys.executable, "-m", "grader.worker.main", "place", *asked], check=True)
        yield f"{kind.lower()}-0"
    finally:
        cluster.close()
        os.environ.pop("GRADER_STATE_DIR")


async def test_the_story_has_its_verdicts_at_workers(fleet: Fleet, section: Section) -> None:
    """Several at once, on whichever GPU has room."""
    examples = [one for one in all_examples() if one.name in {f"tril_matmul/{name}.cu" for name in STORY}]
    ended = await asyncio.gather(*(fleet.grade(one, _kind(fleet), TEST) for one in examples))
    for example, one in zip(examples, ended, strict=True):
        section.table("kernel", "verdict", "expected", "GPU").add(
            example.name, _verdict(one), example.expected, one.report.environment.device_uuid[:12]
        )
    assert [_is_expected(one, example) for one, example in zip(ended, examples, strict=True)] == [True] * len(STORY)


async def test_workers_grade_side_by_side(fleet: Fleet, request: pytest.FixtureRequest, section: Section, device: str) -> None:
    """N times as many jobs a minute on N workers at saturation, less 7.5 %, and every verdict is right."""
    examples = {one.name: one for one in all_examples()}
    count, rates = count_of(request.config, JOB_COUNT), list[float]()
    mix = [examples[name] for name in MIX][:count]
    # Each worker builds, and compiles and times the baselines.
    await asyncio.gather(*(fleet.grade(one, name, BENCHMARK) for name in dict.fromkeys(fleet.devices) for one in mix))
    for workers, wanted in ((1, fleet.devices[0]), (len(fleet.devices), _kind(fleet))):
        jobs = [mix[at % len(mix)] for at in range(count)] * workers
        begun, ends = time.monotonic(), list[float]()
        ended = await asyncio.gather(*(_timed(fleet, one, wanted, ends) for one in jobs))
        wall_s = time.monotonic() - begun
        rates.append(saturated_rate(ends, workers))
        right = sum(_is_expected(one, example) for one, example in zip(ended, jobs, strict=True))
        figures = (
            f"{wall_s:.1f}",
            f"{60 * len(jobs) / wall_s:.1f}",
            f"{rates[-1]:.1f}",
            f"{rates[-1] / rates[0]:.2f}",
            f"{right} of {len(jobs)}",
        )
        section.table(
            "started by",
            "workers",
            "jobs",
            "wall time, s",
            "jobs a minute in all",
            "at saturation",
            "of one worker's",
            "verdicts as expected",
        ).add(request.node.callspec.params["fleet"], workers, len(jobs), *figures)
        assert right == len(jobs)
    show_flow_only(device)
    assert rates[1] >= SCALE_SHARE * len(fleet.devices) * rates[0]


async def test_a_cordoned_gpu_gets_nothing_and_the_others_all(fleet: Fleet, section: Section, device: str) -> None:
    """And all get work again afterwards."""
    example = next(one for one in all_examples() if one.name == SAME_PROBLEM)
    used, count = [], AWAY_EACH * len(fleet.devices)
    for word in ("cordon", "uncordon"):
        fleet.admin(word, fleet.worker)
        await asyncio.sleep(3.0)  # the server looks each second, and the worker answers
        ended = await asyncio.gather(*(fleet.grade(example, _kind(fleet), TEST) for _ in range(count)))
        assert [_verdict(one) for one in ended] == ["ACCEPTED"] * count
        used.append({one.report.environment.device_uuid for one in ended})
    section.notes.append(f"GPUs that graded {count} submissions: {len(used[0])} with one cordoned, {len(used[1])} afterwards")
    show_flow_only(device)
    assert len(used[0]) == len(fleet.devices) - 1 and len(used[1]) == len(fleet.devices)


async def _timed(fleet: Fleet, example: Example, device: str, ends: list[float]) -> submission_pb2.Submission:
    ended = await fleet.grade(example, device, BENCHMARK)
    ends.append(time.monotonic())
    return ended


def _kind(fleet: Fleet) -> str:
    return fleet.devices[0].partition(":")[0]


def _verdict(submission: submission_pb2.Submission) -> str:
    return report_pb2.Verdict.Name(submission.report.verdict).removeprefix("VERDICT_")


def _is_expected(submission: submission_pb2.Submission, example: Example) -> bool:
    verdict, *reason = example.expected.split()
    return _verdict(submission) == verdict and (not reason or submission.report.reason == reason[0])


async def test_a_ranked_submission_is_right_on_every_gpu(fleet: Fleet, section: Section) -> None:
    """At once, in several processes each, with hidden workloads."""
    example = next(one for one in all_examples() if one.name == SAME_PROBLEM)
    ended = await asyncio.gather(*(fleet.grade(example, name, RANKED) for name in fleet.devices))
    for one in ended:
        section.table("kernel", "GPU", "verdict", "processes").add(
            example.name, one.report.environment.device_uuid[:12], _verdict(one), str(one.report.process_count)
        )
    assert all(_verdict(one) == "ACCEPTED" and one.report.process_count > 1 for one in ended)
