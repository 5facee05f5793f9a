"""Profile mode in the pipeline: verified first, then looked at in boxes with no more rights, and never scored."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from grader.errors import JudgeBroken
from grader.isolation import Box, BoxSpec, Purpose
from grader.model import Lease, Ranking, Verdict
from grader.verdict.fold import fold
from grader_extensions.modes import profile
from sandbox.protocol import wire
from sandbox.protocol.wire import ToolOutcome
from tests import fakes
from tests.unit import pipeline_fleets
from tests.unit.pipeline_fleets import graded, workloads_of

USE = wire.KernelUse(name="square", registers=30)
LAUNCH = wire.KernelLaunch(kernel="square", grid=(4, 1, 1), block=(256, 1, 1), count=3)


def ran(name: str) -> wire.ProfileTool:
    return wire.ProfileTool(name=name, outcome=ToolOutcome.RAN)


class Boxes(fakes.FakeBoxes):
    """The boxes of profile mode leave a note and files, each of them also what only the other one may claim."""

    leaves = True

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        async with super().start(spec) as box:
            if spec.out_dir is not None and self.leaves:
                kernel_profile = wire.KernelProfile(
                    tools=(ran("nvcc"), ran("torch profiler"), ran("ncu")),
                    workload_id="hidden",
                    architecture="sm_90a",
                    kernels=(USE,),
                    launches=(LAUNCH,),
                )
                files = {"a.ptx": "nvcc", "torch_trace.json": "torch profiler", "ncu.ncu-rep": "ncu", "x.ncu-rep": "ncu"}
                for name in files:
                    (spec.out_dir / name).write_text(name)
                (spec.out_dir / "profile.json").write_bytes(wire.encode(wire.ProfileNote(profile=kernel_profile, files=files)))
            yield box

    @property
    def profilers(self) -> tuple[BoxSpec, ...]:
        """The static box and the run boxes under profilers."""
        static = next(spec for spec in self.specs if "grader_extensions.modes.box.static_profile" in " ".join(spec.argv))
        return (static, *(spec for spec in self.runs if spec.out_dir is not None))


@pytest.fixture
def boxes() -> Boxes:
    return Boxes()


def lease(mode: wire.Mode = wire.Mode.PROFILE, *, hidden_only: bool = False, device_kind: str = "") -> Lease:
    sizes = workloads_of(("n64", 64, hidden_only), ("n8", 8, hidden_only), ("secret", 33, True))
    return pipeline_fleets.lease(mode=mode, device_kind=device_kind, workloads=sizes)


def of(facts: list[wire.Fact], kind: type) -> list:
    return [fact for fact in facts if isinstance(fact, kind)]


async def test_it_is_verified_then_profiled_and_its_files_are_kept(make) -> None:
    fleet = make()
    facts = await graded(fleet, lease())
    assert [fact.workload_id for fact in of(facts, wire.Trial)] == ["n64", "n8", "secret"]  # those of the profiled run are not passed on
    report = fold(facts)
    assert report.verdict is Verdict.ACCEPTED and report.measurements == () and report.score is None and report.speedups == ()
    assert [(file.name, file.tool) for file in of(facts, wire.ArtifactFile)] == [("a.ptx", "nvcc"), ("torch_trace.json", "torch profiler")]
    assert [fleet.files.read(file.digest) for file in of(facts, wire.ArtifactFile)] == [b"a.ptx", b"torch_trace.json"]
    outcomes = {tool.name: tool.outcome for tool in report.profile.tools}
    assert outcomes == {
        "nvcc": ToolOutcome.RAN, "torch profiler": ToolOutcome.RAN,
        "ncu": ToolOutcome.UNAVAILABLE, "compute-sanitizer": ToolOutcome.UNAVAILABLE,
    }  # fmt: skip
    assert fact_stages(facts)[-1] == (wire.Stage.PROFILING, None)


def fact_stages(facts: list[wire.Fact]) -> list[tuple[wire.Stage, str | None]]:
    return [(fact.stage, fact.workload_id) for fact in of(facts, wire.Progress)]


async def test_each_box_claims_only_what_it_can_know(make) -> None:
    """The static box no launches, the run box no resources, neither of them another tool; the workload is named by the server."""
    merged = fold(await graded(make(), lease())).profile
    assert merged.workload_id == "n8" and merged.launches == (LAUNCH,) and merged.kernels == (USE,) and merged.architecture == "sm_90a"
    assert [tool.name for tool in merged.tools].count("ncu") == 1


@pytest.fixture
def nsight(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where ncu lies; and the fake boxes end at once."""
    ncu, *gpu_tools = profile.GPU_TOOLS
    place = tmp_path / "nsight"
    place.mkdir()
    monkeypatch.setattr(profile, "GPU_TOOLS", (replace(ncu, directory=place), *gpu_tools))
    monkeypatch.setattr(profile, "TOOL_END_S", 0.01)
    return place


async def test_a_gpu_has_tools_of_its_own_one_after_the_other(make, boxes, judges, nsight) -> None:
    """Each in a fresh box, whose runner the tool launches; ncu at the largest public size, compute-sanitizer at the smallest."""
    facts = await graded(make(gpus=(fakes.gpu(0),)), lease(device_kind="cuda"))
    _, _, ncu, sanitizer = boxes.profilers
    for spec, name in ((ncu, "ncu"), (sanitizer, "compute-sanitizer")):
        assert "grader_extensions.modes.box.nvidia_tools" in spec.argv[3] and spec.argv[5:7] == (name, "{out}")
        assert "sandbox.runner.run" in spec.argv[10] and "grader_extensions.modes.box.torch_profile" not in spec.argv
    assert ncu.tool_dir == nsight and sanitizer.tool_dir is None and ncu.argv[-1] == "grader_extensions.modes.box.nvidia_tools"
    outcomes = {tool.name: tool.outcome for tool in fold(facts).profile.tools}
    assert outcomes["ncu"] is ToolOutcome.RAN and outcomes["compute-sanitizer"] is ToolOutcome.FAILED  # it left no note of its own
    assert [file.name for file in of(facts, wire.ArtifactFile) if file.tool == "ncu"] == ["ncu.ncu-rep"]
    profiled = [stage for stage in fact_stages(facts) if stage[0] is wire.Stage.PROFILING]
    assert len(profiled) >= 1 and fold(facts).profile.workload_id == "n64"


async def test_a_tool_whose_runner_never_comes_has_failed_and_the_kernel_has_not(make, boxes, judges, nsight) -> None:
    """Elsewhere a box without a runner is the grader's own fault, as in the control: the box of torch's profiler."""
    judges.order("0", "well", "well", "absent", "absent")
    report = fold(await graded(make(gpus=(fakes.gpu(0),)), lease(device_kind="cuda")))
    assert report.verdict is Verdict.ACCEPTED
    judges.order("0", "well", "absent")
    with pytest.raises(JudgeBroken):
        await graded(make(gpus=(fakes.gpu(0),)), lease(device_kind="cuda"))


async def test_profilers_get_no_more_rights_than_the_kernel(make, boxes, nsight) -> None:
    """The static box is a build box, the others run boxes like the one before: limits, GPU and all; but with a place to write to."""
    fleet = make(gpus=(fakes.gpu(0),))
    await graded(fleet, lease(device_kind="cuda"))
    (static, run, *tools), verified = boxes.profilers, replace(boxes.runs[0], fork_argv=(), fork_arguments=())
    built = next(spec for spec in boxes.specs if spec.purpose is Purpose.BUILD)
    assert replace(static, box_id="", argv=(), out_dir=None) == replace(built, box_id="", argv=(), out_dir=None) and static.gpu is None
    assert verified.out_dir is None
    assert replace(run, box_id="", argv=(), out_dir=None) == replace(verified, box_id="", argv=(), out_dir=None)
    assert run.argv[-3:] == ("--instrument", "grader_extensions.modes.box.torch_profile", "{out}") and "--instrument" not in verified.argv
    for spec in tools:
        assert replace(spec, box_id="", argv=(), out_dir=None, tool_dir=None) == replace(verified, box_id="", argv=(), out_dir=None)
    assert len({spec.out_dir for spec in (built, static, run, *tools)}) == 5  # nothing that one box left is in the next


async def test_a_kernel_that_is_wrong_is_not_profiled(make, boxes, judges) -> None:
    judges.order("emulated", "wrong")
    facts = await graded(make(), lease())
    assert fold(facts).verdict is Verdict.WRONG_ANSWER and fold(facts).profile is None
    assert of(facts, wire.ArtifactFile) == [] and len(boxes.runs) == 1
    assert len([spec for spec in boxes.specs if spec.purpose is Purpose.BUILD]) == 1


@pytest.mark.parametrize("mode", [mode for mode in wire.Mode if mode not in (wire.Mode.PROFILE, wire.Mode.SANITIZE)])
async def test_other_modes_are_not_profiled(make, boxes, mode) -> None:
    facts = await graded(make(), lease(mode))
    assert of(facts, wire.KernelProfile) == of(facts, wire.ArtifactFile) == [] and all(spec.out_dir is None for spec in boxes.runs)


async def test_boxes_that_leave_nothing_are_failed_tools_and_no_other_verdict(make, boxes) -> None:
    boxes.leaves = False
    report = fold(await graded(make(), lease()))
    assert report.verdict is Verdict.ACCEPTED
    assert [(tool.name, tool.outcome) for tool in report.profile.tools][:2] == [
        ("compilers", ToolOutcome.FAILED), ("torch profiler", ToolOutcome.FAILED)
    ]  # fmt: skip


async def test_a_kernel_that_fails_when_it_is_profiled_stays_accepted(make, boxes, judges) -> None:
    boxes.leaves = False
    judges.order("emulated", "well", "wrong")
    report = fold(await graded(make(), lease()))
    assert report.verdict is Verdict.ACCEPTED
    assert {tool.name: tool.detail for tool in report.profile.tools}["torch profiler"] == "the kernel was not right again: mismatched"


async def test_no_hidden_workload_is_profiled(make, boxes) -> None:
    report = fold(await graded(make(), lease(hidden_only=True)))
    assert report.verdict is Verdict.ACCEPTED and report.profile.launches == () and report.profile.workload_id == ""
    assert {tool.name: tool.outcome for tool in report.profile.tools}["torch profiler"] is ToolOutcome.UNAVAILABLE
    assert [spec for spec in boxes.runs if spec.out_dir is not None] == []


@pytest.mark.parametrize(("largest", "chosen"), [(True, "n64"), (False, "n8")])
def test_the_profiled_problem_has_one_public_workload(largest, chosen) -> None:
    spec = profile.profiled_workload(lease().problem.spec, largest=largest)
    assert spec is not None and [workload.workload_id for workload in spec.workloads] == [chosen] and spec.trial_count == 1


async def test_what_has_no_verdict_of_its_own_is_never_scored(make) -> None:
    """A ranking folds no score out of the facts of a profile, and a report that is not accepted shows none of it."""
    facts = await graded(make(), lease())
    assert fold(facts, Ranking(process_count=1)).score is None
    violated = [*facts, wire.Violation(kind=wire.ViolationKind.PROTOCOL, detail="x")]
    assert fold(violated).verdict is Verdict.DISQUALIFIED and fold(violated).profile is None
