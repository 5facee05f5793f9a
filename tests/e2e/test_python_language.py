"""Python submissions on the emulated device in real boxes: right, wrong and hostile ones, and what a careless grader makes of those."""

from __future__ import annotations

import json
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from grader.dispatch.local_fleet import LocalFleet
from grader.formats import native
from grader.model import Problem, Report, Verdict
from grader.verdict.timing_audit import median
from sandbox.protocol import wire
from tests import local_grading
from tests.run_files import artifact_cache, cache_directory, make_once

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
EXAMPLES = Path(__file__).parents[2] / "kernels_examples"
KERNELS = sorted(path for path in EXAMPLES.glob("*/*.py") if path.name != "reference.py" and path.read_text().startswith("# expect:"))
SIZES = ("n1024", "n65536", "n4099")
PLAIN = "import torch\n\ndef solution(a, b):\n    return a + b\n"


@pytest_asyncio.fixture(
    loop_scope="module",
    scope="module",
    params=[pytest.param("process"), pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)],
)
async def fleet(request: pytest.FixtureRequest) -> AsyncIterator[LocalFleet]:
    """A judge for all that is graded on one isolation."""
    async with local_grading.local_fleet(request.param, hidden=(EXAMPLES, cache_directory()), cache=artifact_cache()) as started:
        yield started


def of_sizes(problem: Problem, names: tuple[str, ...]) -> Problem:
    """The problem with few workloads."""
    workloads = tuple(workload for workload in problem.spec.workloads if workload.workload_id in names)
    return replace(problem, spec=replace(problem.spec, workloads=workloads))


async def graded(
    fleet: LocalFleet, text: str, *, problem: str = "vector_add", sizes: tuple[str, ...] = SIZES, mode: wire.Mode = wire.Mode.TEST
) -> Report:
    """The report of one module."""
    example = native.load(EXAMPLES / problem)
    example = replace(example, spec=replace(example.spec, trial_s=60.0))  # 3.5 s for a million of Numba's threads, alone on the machine
    example = of_sizes(example, sizes) if sizes else example
    report, _ = await local_grading.graded(fleet, example, {"kernel.py": text}, mode=mode, skip_sanitizer=False)
    return report


@contextmanager
def limits(fleet: LocalFleet, **changes: object) -> Iterator[None]:
    """Other limits for what is graded inside."""
    usual = fleet.profile
    fleet.profile = replace(usual, **changes)  # type: ignore[arg-type]
    try:
        yield
    finally:
        fleet.profile = usual


def verdict(report: Report) -> str:
    return f"{report.verdict.value} {report.reason}".strip()


def log(report: Report) -> str:
    return report.build.log if report.build else ""


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
async def test_an_example_gets_the_verdict_of_its_first_line(fleet: LocalFleet, path: Path) -> None:
    """torch, load_inline, Triton, Numba and a model: each right one is accepted, and each lesson fails for its own reason."""
    text = path.read_text("utf-8")
    expected = text.splitlines()[0].removeprefix("# expect:").strip()
    sizes = () if not fleet.isolation.SAFE or path.parent.name != "vector_add" else SIZES  # all of them once
    report = await graded(fleet, text, problem=path.parent.name, sizes=sizes)
    assert verdict(report).startswith(expected), f"{report.summary}\n{report.build.log}"


async def test_a_module_that_never_ends_its_import_is_stopped(fleet: LocalFleet) -> None:
    """At the build's limit."""
    with limits(fleet, build=replace(fleet.profile.build, wall_s=3.0)):
        report = await graded(fleet, "while True:\n    pass\n")
    assert verdict(report) == "TIME_LIMIT_EXCEEDED BUILD"


async def test_a_kernel_that_computes_nothing_is_unwritten(fleet: LocalFleet) -> None:
    """NaN lies in what torch allocates."""
    report = await graded(fleet, "import torch\ndef solution(a, b):\n    return torch.empty_like(a)\n")
    assert verdict(report) == "WRONG_ANSWER UNWRITTEN_OUTPUT"


BAD_LAUNCH = """
import torch
from torch.utils.cpp_extension import load_inline
CUDA = '''
__global__ void add(const float* a, const float* b, float* c) { c[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x]; }
torch::Tensor add_of(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    add<<<1, THREADS>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>());
    return c;
}
'''
module = load_inline("bad", "torch::Tensor add_of(torch::Tensor, torch::Tensor);", CUDA, functions=["add_of"])
def solution(a, b):
    return module.add_of(a, b)
"""


async def test_a_launch_that_failed_is_named(fleet: LocalFleet) -> None:
    """With the runtime's error, though the host code never asked for it. Control: a launch of half the elements has none."""
    for threads, failed in ((2048, True), (512, False)):
        report = await graded(fleet, BAD_LAUNCH.replace("THREADS", str(threads)), sizes=("n1024",))
        assert verdict(report) == "WRONG_ANSWER UNWRITTEN_OUTPUT"
        assert ("A CUDA call of the kernel failed (cudaError" in report.summary) is failed, report.summary


# -- what a module does while it is imported ---------------------------------------------------------------------------------------------

NUISANCE = """
import os, socket, subprocess
for _ in range(200):
    print("x" * 1000)
subprocess.Popen(["sleep", "MARK"], start_new_session=True)
for path in ("/out/artifact", "/out/note.json", "/src/job.json", FILES):
    try:
        open(path, "w").write("mine")
    except OSError:
        pass
try:
    socket.create_connection(("127.0.0.1", PORT), 1).sendall(b"hello")
except OSError as error:
    print(error)
"""


async def test_a_nuisance_at_import_does_no_harm(fleet: LocalFleet) -> None:
    """A flood, a daemon, files where they do not belong, and the network: the kernel gets its verdict, and nothing of it is left.

    Only where nothing keeps the network away, which is the control, does somebody hear of it.
    """
    mark = f"{600 + secrets.randbelow(10**6) / 1e6:.6f}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.2)
        text = NUISANCE.replace("MARK", mark).replace("PORT", str(listener.getsockname()[1]))
        if not fleet.isolation.SAFE:  # its files are this host's
            text = text.replace("FILES", "")
        text = text.replace("FILES", '"/tmp/artifact", "/usr/bin/g++", __import__("torch").__file__')
        report = await graded(fleet, text + PLAIN)
        assert verdict(report) == "ACCEPTED", report.summary
        try:
            heard = bool(listener.accept())
        except TimeoutError:
            heard = False
        assert heard is not fleet.isolation.SAFE
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark in _read(path)]
    assert verdict(await graded(fleet, PLAIN)) == "ACCEPTED"


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


async def test_another_behaviour_where_it_runs_gains_nothing(fleet: LocalFleet) -> None:
    """Right in the build box and wrong in the run box is wrong; what was not compiled in the build box is not compiled."""
    in_build = "import os\nBUILDS = os.environ['OMP_NUM_THREADS'] == '1'\n"
    report = await graded(fleet, f"{in_build}def solution(a, b):\n    return a + b if BUILDS else a - b\n")
    assert verdict(report) == "WRONG_ANSWER MISMATCH"
    late = "from torch.utils.cpp_extension import load_inline\nif not BUILDS:\n"
    late += "    load_inline('x', 'int one() { return 1; }', functions='one')\n"
    report = await graded(fleet, f"{in_build}{late}{PLAIN}")
    assert verdict(report) == "RUNTIME_ERROR LOAD" and "'x' was not compiled" in report.summary


async def test_a_forged_artifact_is_refused(fleet: LocalFleet) -> None:
    """A module that leaves an artifact and ends the builder is not built; without ending it, it is built from what was submitted."""
    forge = """
import io, os, signal, tarfile
made = io.BytesIO()
with tarfile.open(fileobj=made, mode="w") as file:
    entry = tarfile.TarInfo("sources/../../x")
    file.addfile(entry, io.BytesIO())
places = ["/out"]
try:
    places.append(OUT)
except OSError:  # a forked run box sees no parent
    pass
for place in places:
    try:
        open(f"{place}/artifact", "wb").write(made.getvalue())
    except OSError:
        pass
"""
    # The builder's own arguments name the place: it is the importing process's parent.
    text = forge.replace("OUT", "open(f'/proc/{os.getppid()}/cmdline').read().split('\\0')[-2]")
    assert verdict(await graded(fleet, text + PLAIN)) == "ACCEPTED"
    report = await graded(fleet, f"{text}os.kill(os.getppid(), signal.SIGKILL)\n{PLAIN}")
    assert report.verdict is Verdict.COMPILE_ERROR, report.summary


# -- attacks of the kind that Python invites; each with what a grader in the same process makes of it -------------------------------------

NAIVE = """
import importlib.util, json, os, sys, time
import torch

def reference(a, b):
    return a + b

def load(path):
    spec = importlib.util.spec_from_file_location("submission", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

for path in sys.argv[1:]:
    child = os.fork()
    if child == 0:  # a grader of this module alone
        break
    os.waitpid(child, 0)
else:
    sys.exit()
module = load(path)
a, b = torch.randn(1024), torch.rand(1024)
expected = reference(a, b)
shared = os.memfd_create("expected")
os.write(shared, expected.numpy().tobytes())
begun = time.perf_counter()
out = module.solution(a, b)
seconds = time.perf_counter() - begun
print(json.dumps({"path": path, "accepted": bool(torch.allclose(out, expected)), "seconds": seconds}))
"""
ATTACKS = {
    # The comparison is a function like any other, in the kernel's own process.
    "patches_the_comparison": (
        """
import torch
torch.allclose = torch.equal = lambda *arguments, **named: True
torch.testing.assert_close = lambda *arguments, **named: None
def solution(a, b):
    return torch.zeros_like(a)
""",
        "WRONG_ANSWER MISMATCH",
    ),
    # Whoever has computed the answer before holds a tensor of it.
    "searches_the_collectors_objects": (
        """
import gc
import torch
def solution(a, b):
    known = {a.data_ptr(), b.data_ptr()}
    for one in gc.get_objects():
        if type(one) is torch.Tensor and one.shape == a.shape and one.data_ptr() not in known and not one.isnan().any():
            return one.clone()
    return torch.empty_like(a)
""",
        "WRONG_ANSWER UNWRITTEN_OUTPUT",
    ),
    # Whoever compares has the reference in a module or in a frame.
    "asks_modules_and_frames_for_the_reference": (
        """
import sys
import torch
def solution(a, b):
    found = [getattr(module, "reference", None) for module in list(sys.modules.values())]
    frame = sys._getframe(1)
    while frame is not None:
        found += [frame.f_locals.get("expected"), frame.f_globals.get("reference")]
        frame = frame.f_back
    for one in found:
        if isinstance(one, torch.Tensor) and one.shape == a.shape:
            return one.clone()
        if type(one).__name__ == "function":
            return one(a, b)
    return torch.empty_like(a)
""",
        "WRONG_ANSWER UNWRITTEN_OUTPUT",
    ),
    # What is shared with a judge is behind a descriptor.
    "reads_every_descriptor": (
        """
import os
import struct
import torch
def solution(a, b):
    first = [float(x) + float(y) for x, y in zip(a[:4], b[:4])]
    begin = struct.pack("4f", *first)
    for name in os.listdir("/proc/self/fd"):
        try:
            with open(f"/proc/self/fd/{name}", "rb") as file:
                content = file.read() if "memfd" in os.readlink(f"/proc/self/fd/{name}") else b""
        except OSError:
            continue
        at = content.find(begin)
        if at >= 0 and at % 4 == 0 and len(content) >= at + 4 * a.numel():
            return torch.frombuffer(bytearray(content[at : at + 4 * a.numel()]), dtype=torch.float32).clone()
    return torch.empty_like(a)
""",
        "WRONG_ANSWER UNWRITTEN_OUTPUT",
    ),
}
STOPS_THE_CLOCK = """
import time
import torch
sleep = time.sleep
time.perf_counter = time.monotonic = time.time = lambda: 0.0
time.perf_counter_ns = time.monotonic_ns = time.time_ns = lambda: 0
def solution(a, b):
    sleep(0.2)
    return a + b
"""


WRONG = "def solution(a, b):\n    return a - b\n"
NAIVELY_GRADED = {**{name: text for name, (text, _) in ATTACKS.items()}, "clock": STOPS_THE_CLOCK, "wrong": WRONG, "plain": PLAIN}


@pytest.fixture(scope="module")
def naive() -> dict[str, dict[str, object]]:
    """The conclusions of a grader that imports the module into its own process, about each of NAIVELY_GRADED."""
    return json.loads((make_once("naive_grader", grade_naively) / "found.json").read_text())


def grade_naively(place: Path) -> None:
    for name, text in NAIVELY_GRADED.items():
        (place / f"{name}.py").write_text(text)
    command = [sys.executable, "-c", NAIVE, *(str(place / f"{name}.py") for name in NAIVELY_GRADED)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=480, check=True)
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith('{"path": ')]
    (place / "found.json").write_text(json.dumps({Path(line["path"]).stem: line for line in lines}))


@pytest.mark.parametrize(("text", "expected"), ATTACKS.values(), ids=ATTACKS)
async def test_an_attack_on_a_judge_in_the_same_process_finds_none(fleet: LocalFleet, text: str, expected: str) -> None:
    """The judge's tensors, functions and answers are in another process."""
    assert verdict(await graded(fleet, text)) == expected


@pytest.mark.parametrize("name", ATTACKS)
async def test_the_same_attack_gets_through_where_the_judge_is_in_the_same_process(naive: dict[str, dict[str, object]], name: str) -> None:
    """The control."""
    assert naive[name]["accepted"] is True


async def test_the_naive_grader_rejects_what_is_wrong_without_guile(naive: dict[str, dict[str, object]]) -> None:
    """The control's control: it is no grader that accepts everything."""
    assert naive["wrong"]["accepted"] is False
    assert naive["plain"]["accepted"] is True


async def test_a_stopped_clock_stops_no_judge(fleet: LocalFleet, naive: dict[str, dict[str, object]]) -> None:
    """A kernel that takes 200 ms and says that it takes none is timed by another process; one in the same takes its word."""
    assert naive["clock"]["seconds"] == 0.0
    with limits(fleet, measure_s=1.0):
        report = await graded(fleet, STOPS_THE_CLOCK, sizes=("n1048576",), mode=wire.Mode.BENCHMARK)
    if report.verdict is Verdict.ACCEPTED:
        (measured,) = report.measurements
        assert median(measured.certified) > 100_000_000
        assert "REPORTED_TIME_NOT_CONFIRMED" in report.flags
    else:
        assert verdict(report) == "DISQUALIFIED TIMING_TAMPERED"
