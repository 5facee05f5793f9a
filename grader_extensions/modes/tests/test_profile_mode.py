"""Profile mode on the emulated device, with real boxes and a real judge: what it shows, and what a hostile kernel makes of it."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from grader.artifacts import SubmissionFiles
from grader.model import Verdict
from grader_extensions.modes import profile
from sandbox.protocol import wire
from sandbox.protocol.wire import ToolOutcome
from tests.e2e.conftest import emulated_grader
from tests.harness.grading import Conditions, Graded, Grading, load_problem

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

KERNELS = Path(__file__).parents[3] / "kernels_examples"
PUBLIC, HIDDEN = 640, 77
# Notes every size that it meets where its next process could find it, and speaks for the profiler once that runs in its process.
HOSTILE = """
import json, os, sys, torch
MARK = {mark!r}

def speak(out, name, content):
    if name == "profile.json":
        note = json.loads(content)
        (out / "passwd").symlink_to("/etc/passwd")
        for forged in ("passwd", "../../escaped", "/etc/passwd", "evil.html"):
            note["files"][forged] = "torch profiler"
        note["profile"]["workload_id"] = "hidden-1"
        note["profile"]["tools"].append({{"name": "ncu", "outcome": "ran", "detail": "<script>alert(1)</script>"}})
        note["profile"]["launches"].append({{"kernel": "<b>fast\\x1b[2J</b>", "grid": [1, 1, 1], "block": [2**60, 1, 1], "shared_bytes": 0,
                                             "count": 1, "duration_ns": 1}})
        content = json.dumps(note).encode()
    if name == "torch_profile.txt":
        content = open(MARK).read().encode() + b"<script>alert(1)</script>"
    leave(out, name, content)

def solve(a, b):
    global leave
    with open(MARK, "a") as file:
        file.write(f"met {{a.shape[0]}}\\n")
    profiler = sys.modules.get("grader_extensions.modes.box.torch_profile")
    if profiler is not None and profiler.leave is not speak:
        leave, profiler.leave = profiler.leave, speak
    return a + b
"""


def problem():
    """A sum with one public and one hidden size."""
    example = load_problem("vector_add")
    first = example.spec.workloads[0]
    (axis,) = first.axes
    workloads = tuple(
        replace(first, workload_id=name, axes={axis: size}, hidden=hidden, moved_bytes=None, flops=None)
        for name, size, hidden in (("public", PUBLIC, False), ("secret", HIDDEN, True))
    )
    return replace(example, spec=replace(example.spec, workloads=workloads, libraries=wire.Libraries.ALLOWED))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def boxes(tmp_path_factory) -> AsyncIterator[Grading]:
    """Boxes that see nothing of each other."""
    async with emulated_grader("bubblewrap") as grading:
        grading.fleet.files = SubmissionFiles(tmp_path_factory.mktemp("files"), 1 << 30)
        yield grading


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def open_boxes(tmp_path_factory) -> AsyncIterator[Grading]:
    """Boxes that see the host's files: the control."""
    async with emulated_grader("process") as grading:
        grading.fleet.files = SubmissionFiles(tmp_path_factory.mktemp("files"), 1 << 30)
        yield grading


async def profiled(grading: Grading, of, source: str, language: str) -> tuple[Graded, dict[str, bytes]]:
    """A kernel in profile mode, and its files."""
    graded = await grading.grade(of, source, language=language, mode=wire.Mode.PROFILE)
    files = [fact for fact in graded.facts if isinstance(fact, wire.ArtifactFile)]
    return graded, {file.name: grading.fleet.files.read(file.digest) for file in files}


async def test_launches_table_and_trace_of_a_cuda_kernel(boxes: Grading) -> None:
    """Grid, block and shared memory from the emulated device's own launches; CPU activities in table and trace; nothing is timed."""
    source = (KERNELS / "vector_add/grid_stride.cu").read_text()
    graded, files = await profiled(boxes, problem(), source, "cuda")
    assert graded.report.verdict is Verdict.ACCEPTED, graded.explanation
    assert graded.report.measurements == () and graded.report.score is None
    record = graded.report.profile
    (launch,) = record.launches
    assert record.workload_id == "public" and launch.count == 3 and launch.block[0] * launch.grid[0] > 0 and launch.duration_ns is None
    table = files["torch_profile.txt"].decode()
    assert f"kernel {launch.kernel}" in table and "call 1 of the kernel's entry" in table
    assert any(launch.kernel in event["name"] for event in json.loads(files["torch_trace.json"])["traceEvents"])
    assert {tool.name: tool.outcome for tool in record.tools}["torch profiler"] is ToolOutcome.RAN


DECOY = """
import torch
from numba import cuda

@cuda.jit
def decoy(out):
    out[cuda.threadIdx.x] += 0

def solve(a, b):
    out = a.view(-1) + b
    decoy[1, 32](out)
    return out
"""


@pytest.mark.parametrize(("name", "share"), [("grid_stride.cu", 1.0), ("triton_blocks.py", 1.0), ("Numba's decoy", 0.5), ("PyTorch", 0.0)])
async def test_a_benchmark_has_the_share_of_its_own_launches(boxes: Grading, name: str, share: float) -> None:
    """By the same log; what only moves values is no launch."""
    sources = {"Numba's decoy": DECOY, "PyTorch": DECOY.replace("decoy[1, 32](out)", "")}
    source = sources[name] if name in sources else (KERNELS / "vector_add" / name).read_text()
    language = "cuda" if name.endswith(".cu") else "python"
    graded = await boxes.grade(problem(), source, language=language, conditions=Conditions(measure_s=0.1))
    assert graded.report.verdict is Verdict.ACCEPTED, graded.explanation
    (measured,) = graded.report.measurements
    assert (measured.workload_id, measured.own_share) == ("public", share)


@pytest.mark.parametrize("name", ["triton_blocks", "numba_grid_stride"])
async def test_launches_of_interpreted_kernels_are_seen(boxes: Grading, name: str) -> None:
    """Of Triton's interpreter and of Numba's simulator, at the size of the public workload; their PTX comes from the other box."""
    graded, files = await profiled(boxes, problem(), (KERNELS / f"vector_add/{name}.py").read_text(), "python")
    assert graded.report.verdict is Verdict.ACCEPTED, graded.explanation
    (launch,) = graded.report.profile.launches
    assert launch.grid[0] >= 1 and launch.block[0] >= 32
    assert any(file.endswith(".ptx") for file in files) and f"kernel {launch.kernel}" in files["torch_profile.txt"].decode()


async def test_a_hostile_kernel_leaves_nothing_that_it_should_not(boxes: Grading) -> None:
    """Links, paths, another tool's report and another workload's name are dropped; what it wrote into its own files is kept as bytes."""
    graded, files = await profiled(boxes, problem(), HOSTILE.format(mark="/tmp/met-sizes"), "python")
    assert graded.report.verdict is Verdict.ACCEPTED, graded.explanation
    record = graded.report.profile
    assert set(files) == {"torch_profile.txt", "torch_trace.json"} and not any(b"root:" in content for content in files.values())
    assert record.workload_id in ("", "public") and record.launches == ()
    assert {tool.name: tool.outcome for tool in record.tools}["ncu"] is ToolOutcome.UNAVAILABLE
    assert "script" not in str(record) and graded.report.score is None
    assert b"<script>" in files["torch_profile.txt"]  # the control: its own file is its own, and is only ever saved


FAKE_SANITIZER = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do
    [ "$1" = --log-file ] && log=$2
    shift 2
done
"$@"
code=$?
printf '========= COMPUTE-SANITIZER\\n========= Invalid read\\n========= ERROR SUMMARY: 1 error\\n' > "$log"
exit $code
"""
PATCHED = """
import sys
sys.path[:0] = sys.argv.pop(1).split(":")
from grader_extensions.modes.box import nvidia_tools
nvidia_tools.find = lambda program: {program!r}
raise SystemExit(nvidia_tools.main())
"""


@pytest.mark.parametrize("starts", [True, False])
async def test_a_runner_serves_the_judge_under_a_tool(open_boxes: Grading, tmp_path: Path, monkeypatch, starts: bool) -> None:
    """The tool launches it, and reports once it has ended. One that does not even start it has failed, and says why; the kernel is right.
    There is no GPU here, so a script takes the tool's place, and the emulated device the GPU's."""
    program = tmp_path / "compute-sanitizer"
    program.write_text(FAKE_SANITIZER if starts else "#!/bin/sh\necho 'Error: no such device'\nexit 1\n")
    program.chmod(0o755)
    for directory in program.parents[:3]:
        directory.chmod(0o755)
    (sanitizer,) = (tool for tool in profile.GPU_TOOLS if tool.name == "compute-sanitizer")
    command = ("{python}", "-I", "-c", PATCHED.format(program=str(program)), "{lib}", sanitizer.name, "{out}")
    monkeypatch.setattr(profile, "run_tools", lambda *, on_gpu: (profile.TORCH, replace(sanitizer, command=command)))
    graded, files = await profiled(open_boxes, problem(), (KERNELS / "vector_add/grid_stride.cu").read_text(), "cuda")
    assert graded.report.verdict is Verdict.ACCEPTED, graded.explanation
    memcheck = graded.report.profile.tools[-3]  # the last two say that there is no GPU
    assert memcheck.name == sanitizer.name
    if starts:
        assert (memcheck.outcome, memcheck.detail) == (ToolOutcome.RAN, "memcheck found 1 error; the first: Invalid read")
        assert b"ERROR SUMMARY: 1 error" in files["compute_sanitizer.txt"]
    else:
        assert (memcheck.outcome, memcheck.detail) == (ToolOutcome.FAILED, "Error: no such device")
    assert len(graded.report.profile.launches) == 1 and "torch_trace.json" in files


def sizes(text: bytes) -> set[int]:
    return {int(size) for size in re.findall(rb"met (\d+)", text)}


async def test_no_file_holds_a_hidden_size(boxes: Grading, open_boxes: Grading, tmp_path: Path) -> None:
    """The box that is profiled never meets a hidden workload, and nothing is left from the one that did; the control are boxes that share
    a directory, where the same kernel carries it over."""
    _, files = await profiled(boxes, problem(), HOSTILE.format(mark="/tmp/met-sizes"), "python")
    assert sizes(files["torch_profile.txt"]) == {PUBLIC}
    tmp_path.chmod(0o777)
    mark = tmp_path / "met-sizes"
    mark.touch()
    mark.chmod(0o666)
    for directory in mark.parents[:3]:
        directory.chmod(0o755 if directory != tmp_path else 0o777)
    _, files = await profiled(open_boxes, problem(), HOSTILE.format(mark=str(mark)), "python")
    assert HIDDEN in sizes(files["torch_profile.txt"])
