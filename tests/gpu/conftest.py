"""The fixtures of the GPU tests: the first GPU, one fleet a module, and gradings that are begun ahead of their tests."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest
import pytest_asyncio

from grader.dispatch.gpus import Gpu
from grader.isolation import processes
from grader.isolation.launch import STATE_LABEL
from grader.model import Verdict
from grader.server.wiring import WARM_MORE
from tests.exploits.attack_files import PROBLEM, PROBLEMS
from tests.gpu.report import Report
from tests.harness.grading import BUILDER_COUNT, Graded, Grading, grader, usable_gpus
from tests.harness.messages import SECRET
from tests.honest.kernel_files import HERE as HONEST

LOCKS = Path(tempfile.gettempdir()) / f"grader-gpu-tests-{os.geteuid()}"
HIDDEN = (PROBLEM, PROBLEMS, HONEST / "problems")  # from boxes
RUNNER = b"sandbox.runner.run"  # as the command line of a box has it, or of what forks one
# With more, the first test waits until the lane has served all others, and compilers take the cores of what is timed.
AHEAD = min(6, BUILDER_COUNT)
STARTED_S = 30.0  # until a box that starts either waits or has ended

GradedAhead = Mapping[str, asyncio.Task[Graded]]  # by the id of the case


def why_no_gpu() -> str | None:
    """Return what is missing here for grading on a GPU; None where nothing is."""
    if not usable_gpus():
        return "no NVIDIA GPU, or no driver and packages that can use it"
    if shutil.which("nvcc") is None and not (Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin" / "nvcc").exists():
        return "no nvcc on the PATH, in $CUDA_HOME or in /usr/local/cuda"
    return None


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """The device that the tests grade on: "cuda", or "emulated" to show the flow."""
    return str(request.config.getoption("gpu_device"))


@pytest.fixture(scope="session")
def maybe_gpu(device: str) -> Gpu | None:
    """The first GPU; None on the emulated device. Skips where there is neither."""
    if device == "emulated":
        return None
    missing = why_no_gpu()
    if missing is not None:
        pytest.skip(missing)
    return usable_gpus()[0]


@pytest.fixture(scope="session")
def gpu(maybe_gpu: Gpu | None) -> Gpu:
    """The first GPU, for tests that say nothing without one."""
    if maybe_gpu is None:
        pytest.skip("needs a GPU")
    return maybe_gpu


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grading(request: pytest.FixtureRequest, device: str, maybe_gpu: Gpu | None, gpu_report: Report) -> AsyncIterator[Grading]:
    """A fleet on the first GPU, with the isolation that --gpu-isolation names."""
    isolation, lanes = request.config.getoption("gpu_isolation"), () if maybe_gpu is None else (0,)
    option = request.config.getoption("gpu_warm_boxes")
    warm_count = option if option is not None else 0 if maybe_gpu is None else 1 + WARM_MORE
    with secret_in_environment(), nullcontext() if maybe_gpu is None else one_at_a_time(maybe_gpu.uuid):
        async with grader(isolation=isolation, lanes=lanes, hidden=HIDDEN, device=device, warm_count=warm_count) as instance:
            gpu_report.describe(await instance.environment())
            yield instance


@contextmanager
def one_at_a_time(uuid: str) -> Iterator[None]:
    """Wait until no other process runs these tests on this GPU: times and memory are of one lane alone."""
    with Path(f"{LOCKS}-{uuid}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def secret_in_environment() -> Iterator[None]:
    """Put something into the judge's environment that no kernel may find."""
    os.environ[SECRET] = "the server's own"
    try:
        yield
    finally:
        del os.environ[SECRET]


def measure_s(config: pytest.Config, own_s: float) -> float:
    """Seconds of measuring for each workload: what --gpu-measure-s says, else the test's own."""
    option = config.getoption("gpu_measure_s")
    return own_s if option is None else float(option)


def count_of(config: pytest.Config, default: int) -> int:
    """How many: what --gpu-count says, else the test's own."""
    return int(config.getoption("gpu_count") or default)


def show_flow_only(device: str) -> None:
    """End a test here without a GPU: times of the emulated device say nothing of a GPU."""
    if device == "emulated":
        pytest.skip("no GPU: the flow was run, no time is claimed")


def cases_of(request: pytest.FixtureRequest, test: str) -> dict[str, dict[str, Any]]:
    """The parameters of each case of one test of this module that this run has chosen, by the id of the case."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    return {item.nodeid: item.callspec.params for item in items if item.originalname == test}


@asynccontextmanager
async def graded_ahead(
    cases: Mapping[str, Mapping[str, Any]], grade: Callable[..., Awaitable[Graded]], at_a_time: int = AHEAD
) -> AsyncIterator[GradedAhead]:
    """Grade what cases ask for, in their order and several at a time: some build while another is on the device.

    grade takes a case's parameters by name. `seconds` of what comes back are the lane's, without the waiting for it.
    """
    free, last_end = asyncio.Semaphore(at_a_time), 0.0

    async def grade_case(parameters: Mapping[str, Any]) -> Graded:
        nonlocal last_end
        async with free:
            begun = time.monotonic()
            graded = await grade(**parameters)
            end = time.monotonic()
            if graded.report.verdict is Verdict.COMPILE_ERROR:  # it was never on the lane
                return graded
            begun, last_end = max(begun, last_end), end
            return replace(graded, seconds=end - begun)

    tasks = {name: asyncio.create_task(grade_case(parameters)) for name, parameters in cases.items()}
    try:
        yield tasks
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def left_boxes(grading: Grading) -> int:
    """How many boxes a fleet without a job has besides those that wait for one. A box that starts meanwhile is waited for."""
    end = time.monotonic() + STARTED_S
    while True:
        box_count = await asyncio.to_thread(boxes, grading.state_id) - grading.fleet.warm().waiting_count
        if box_count == 0 or time.monotonic() > end:
            return box_count
        await asyncio.sleep(0.5)


def boxes(state_id: str) -> int:
    """How many boxes there are: those with live processes, and containers, also dead ones."""
    environments = processes.labelled(**{processes.STATE_VARIABLE: state_id}).values()
    count = len({environment[processes.BOX_VARIABLE] for environment in environments})
    with suppress(docker.errors.DockerException, OSError), closing(docker.APIClient(version="auto", timeout=20)) as client:
        count += len(client.containers(all=True, filters={"label": f"{STATE_LABEL}={state_id}"}))
    return count


@pytest.fixture(scope="module")
def device_memory(grading: Grading, gpu: Gpu) -> Iterator[Callable[[], int]]:
    """How many bytes of the first GPU's memory are used, by all processes."""
    with nvml_memory(gpu) as read:
        yield read


@contextmanager
def nvml_memory(gpu: Gpu) -> Iterator[Callable[[], int]]:
    """Reads how many bytes of a GPU's memory are used."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)
    try:
        yield lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
    finally:
        pynvml.nvmlShutdown()
