"""Profile mode on a GPU: launches with their times out of the trace, CUDA activities in table and trace, PTX for this very GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.artifacts import SubmissionFiles
from grader.model import Verdict
from sandbox.protocol import wire
from sandbox.protocol.wire import ToolOutcome
from tests.gpu.report import Section
from tests.harness.grading import ROOT, Grading, load_problem

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]

KERNELS = (
    ("elementwise_square", "torch_block_per_row.cu", "torch_extension"),
    ("row_softmax", "triton_row.py", "python"),
    ("matmul_4092", "numba_typed_accumulator.py", "python"),
)
COLUMNS = ("kernel", "launched", "launches", "grid", "block", "shared", "time, us", "tools")


@pytest.mark.parametrize(("problem", "name", "language"), KERNELS, ids=[name for _, name, _ in KERNELS])
async def test_a_profile_has_launches_files_and_resources(
    grading: Grading, section: Section, tmp_path: Path, problem: str, name: str, language: str
) -> None:
    """Each launch has its grid, its block and, on a GPU, its time."""
    grading.fleet.files = SubmissionFiles(tmp_path / "files", 1 << 30)
    source = (ROOT / "kernels_examples" / problem / name).read_text("utf-8")
    graded = await grading.grade(load_problem(problem), source, language=language, mode=wire.Mode.PROFILE)
    assert graded.report.verdict is Verdict.ACCEPTED, graded.explanation
    profile = graded.report.profile
    assert profile is not None and profile.launches, graded.explanation
    files = {fact.name: grading.fleet.files.read(fact.digest) for fact in graded.facts if isinstance(fact, wire.ArtifactFile)}
    outcomes = {tool.name: tool.outcome for tool in profile.tools}
    section.notes.extend(f"{name}: {tool.name} {tool.outcome}: {tool.detail}" for tool in profile.tools if tool.detail)
    for launch in profile.launches:
        time_us = "-" if launch.duration_ns is None else f"{launch.duration_ns / 1000 / launch.count:.1f}"
        tools = ", ".join(f"{tool}: {outcome}" for tool, outcome in outcomes.items())
        shape = (str(launch.count), str(launch.grid), str(launch.block), str(launch.shared_bytes))
        section.table(*COLUMNS).add(name, launch.kernel, *shape, time_us, tools)
    assert ToolOutcome.FAILED not in outcomes.values()
    assert outcomes["torch profiler"] is ToolOutcome.RAN and any(file.endswith(".ptx") for file in files)
    trace = json.loads(files["torch_trace.json"] or b"{}")
    on_gpu = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    assert bool(on_gpu) is all(timed.duration_ns is not None for timed in profile.launches) is (grading.device != "emulated")
