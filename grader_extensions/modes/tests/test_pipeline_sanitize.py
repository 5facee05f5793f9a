"""Mode sanitize in the pipeline: verified first, then looked at by a sanitizer in a box with no more rights, whatever the verdict is."""

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace

import pytest
from rich.console import Console

from grader.api.conversion import to_message
from grader.cli.report import render_profile
from grader.errors import SandboxBroken
from grader.isolation import Box, BoxExit, BoxSpec, IsolationBroken, Purpose
from grader.model import Lease, Verdict
from grader.v1 import report_pb2
from grader.verdict.fold import fold
from grader.views import access_counts
from grader_extensions.modes.sanitize import sanitizer_follows
from sandbox.protocol import wire
from sandbox.protocol.box_files import EMULATED_SANITIZER
from sandbox.protocol.wire import BoxCause, SanitizerKind, SanitizerSeverity, ToolOutcome
from tests import fakes
from tests.unit import pipeline_fleets
from tests.unit.pipeline_fleets import graded, workloads_of

RACE = wire.SanitizerFinding(
    kind=SanitizerKind.RACE,
    severity=SanitizerSeverity.ERROR,
    message="thread 3 reads what thread 2 writes, without a barrier between them",
    path="kernel.cu",
    line=31,
    other_path="kernel.cu",
    other_line=27,
)
UNWRITTEN = replace(RACE, kind=SanitizerKind.UNINITIALISED_READ)
BARRIER = replace(RACE, kind=SanitizerKind.DIVERGENT_BARRIER, severity=SanitizerSeverity.WARNING, message="threads 0..15 wait", line=25)
STRIDED = wire.LineCounts(
    path="kernel.cu",
    line=12,
    access=wire.MemoryAccess.GLOBAL_LOAD,
    requests=8,
    transactions=256,
    least_transactions=32,
    active_lanes=256,
    requested_bytes=1024,
)
COUNTS = wire.AccessCounts(lines=(STRIDED,), counted_blocks=4, blocks=16)


class Boxes(fakes.FakeBoxes):
    """A run box with a place for results leaves what a sanitizer found."""

    findings: tuple[wire.SanitizerFinding, ...] = (RACE,)
    access_counts: wire.AccessCounts | None = COUNTS
    tool = EMULATED_SANITIZER

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        async with super().start(spec) as box:
            if spec.out_dir is not None and spec.purpose is Purpose.RUN:
                tool = wire.ProfileTool(name=self.tool, outcome=ToolOutcome.RAN, detail="found 1 error")
                use = wire.KernelUse(name="k", registers=1)
                profile = wire.KernelProfile(tools=(tool,), findings=self.findings, kernels=(use,), access_counts=self.access_counts)
                (spec.out_dir / "profile.json").write_bytes(wire.encode(wire.ProfileNote(profile=profile)))
                yield fakes.EndedBox(BoxExit(cause=BoxCause.EXITED, exit_code=0))
            else:
                yield box


@pytest.fixture
def boxes() -> Boxes:
    return Boxes()


def is_second_build(spec: BoxSpec, boxes: Boxes) -> bool:
    """Return whether a box that is to start is that of the sanitizer's build."""
    return spec.purpose is Purpose.BUILD and any(earlier.purpose is Purpose.BUILD for earlier in boxes.specs)


def look_at_starts(boxes: Boxes, look: Callable[[BoxSpec], Awaitable[object]]) -> None:
    """Let the test look at each box before it starts."""

    @asynccontextmanager
    async def start(spec: BoxSpec) -> AsyncIterator[Box]:
        await look(spec)
        async with Boxes.start(boxes, spec) as box:
            yield box

    boxes.start = start  # type: ignore[method-assign]


def lease(mode: wire.Mode = wire.Mode.SANITIZE, *, language: str = "cuda", device_kind: str = "") -> Lease:
    sizes = workloads_of(("n64", 64, False), ("n8", 8, False), ("secret", 3, True))
    return pipeline_fleets.lease(mode=mode, language=language, device_kind=device_kind, workloads=sizes)


def profile_of(facts: list[wire.Fact]) -> wire.KernelProfile:
    (profile,) = (fact for fact in facts if isinstance(fact, wire.KernelProfile))
    return profile


def sanitized(boxes: Boxes) -> list[BoxSpec]:
    """The run boxes of sanitizers."""
    return [spec for spec in boxes.runs if spec.out_dir is not None]


@pytest.mark.parametrize(
    ("mode", "order", "verdict", "workload_id"),
    [
        (wire.Mode.SANITIZE, "well", Verdict.ACCEPTED, "n8"),
        (wire.Mode.SANITIZE, "wrong", Verdict.WRONG_ANSWER, "n64"),
        (wire.Mode.TEST, "wrong", Verdict.WRONG_ANSWER, "n64"),
    ],
)
async def test_a_sanitizer_looks_whatever_the_verdict_is(make, boxes, judges, mode, order, verdict, workload_id) -> None:
    """At the public workload that failed, or the smallest; after a failed test, too. The verdict stays; of a wrong kernel its sentence has
    the likeliest cause."""
    judges.order("emulated", order)
    report = fold(await graded(make(), lease(mode)))
    assert report.verdict is verdict and report.profile is not None
    assert report.profile.findings == (RACE,) and report.profile.workload_id == workload_id
    named = f"The sanitizer reports: kernel.cu:31: {RACE.message}" in report.summary
    assert named is (verdict is Verdict.WRONG_ANSWER)
    assert report.profile.kernels == ()  # another tool's to say
    assert report.profile.access_counts == (COUNTS if mode is wire.Mode.SANITIZE else None)


async def test_it_is_built_once_more_for_the_sanitizer(make, boxes) -> None:
    """By a build box of its own, with the sanitizer's flags; the box that runs it has a place for results, and is no other."""
    jobs = []

    async def look(spec: BoxSpec) -> None:
        if spec.purpose is Purpose.BUILD:
            assert spec.src_dir is not None
            jobs.append(wire.decode((spec.src_dir / "job.json").read_bytes()))

    look_at_starts(boxes, look)
    await graded(make(), lease())
    assert [job.sanitize for job in jobs] == [False, True]
    (run,) = sanitized(boxes)
    assert "grader_extensions.emulated_cuda.sanitizer'" in " ".join(run.argv)
    assert run.argv[-2:] == ("--instrument", "grader_extensions.emulated_cuda.sanitizer")


@pytest.mark.parametrize(
    ("mode", "order", "changes"),
    [
        (wire.Mode.BENCHMARK, "wrong", {}),
        (wire.Mode.TEST, "well", {}),
        (wire.Mode.TEST, "late", {}),
        (wire.Mode.TEST, "wrong", {"skip_sanitizer": True}),
        (wire.Mode.TEST, "wrong", {"competition_id": "c"}),
        (wire.Mode.TEST, "wrong", {"language": "python"}),
        (wire.Mode.TEST, "wrong", {"device_kind": "cuda"}),
    ],
)
async def test_nothing_else_is_followed_by_it(make, boxes, judges, mode, order, changes) -> None:
    """Not a right kernel, nor one without an end, nor another mode; not in a competition, and not where the submission does not want it."""
    judges.order("emulated", order)
    judges.order("GPU-0", order)
    wanted = lease(mode)
    submission = replace(wanted.submission, new=replace(wanted.submission.new, **changes))
    facts = await graded(make(gpus=[fakes.gpu()]), replace(wanted, submission=submission))
    assert any(isinstance(fact, wire.Trial) for fact in facts)
    assert sanitized(boxes) == [] and not any(isinstance(fact, wire.KernelProfile) for fact in facts)


@pytest.mark.parametrize("mode", [wire.Mode.TEST, wire.Mode.SANITIZE])
async def test_a_kernel_that_broke_a_rule_is_not_looked_at(make, boxes, judges, mode) -> None:
    """Nothing of it would be shown."""
    judges.order("emulated", "forbidden")
    assert fold(await graded(make(), lease(mode))).verdict is Verdict.DISQUALIFIED
    assert sanitized(boxes) == []


EXPLAINED = ("mismatched", "unwritten", "non_finite", "input_modified", "out_of_bounds", "device_fault")


@pytest.mark.parametrize("outcome", list(wire.TrialOutcome))
def test_only_a_wrong_access_is_looked_for_after_a_failed_test(outcome: wire.TrialOutcome) -> None:
    """A limit, an exception or a shape says all that there is to say. A crash is a wrong access where a signal ended the process."""
    trial = wire.Trial(workload_id="n8", phase=wire.TrialPhase.VERIFY, index=0, outcome=outcome)
    for cause in BoxCause:
        process = (wire.Load(outcome=wire.LoadOutcome.LOADED), trial, wire.RunEnd(cause=cause))
        crashed = outcome is wire.TrialOutcome.CRASHED and cause is BoxCause.SIGNALLED
        follows = sanitizer_follows(lease(wire.Mode.TEST).submission.new, process, on_gpu=False)
        assert follows is (crashed or outcome.value in EXPLAINED)


@pytest.mark.parametrize("mode", [wire.Mode.TEST, wire.Mode.SANITIZE])
async def test_nobody_waits_for_a_sanitizer_who_did_not_ask_for_one(make, boxes, judges, mode) -> None:
    """While another attempt has the only lane, it runs in its own mode alone; the report says why. The control: the test before."""
    judges.order("emulated", "wrong")
    fleet = make()
    with fleet.seat(""):
        facts = await graded(fleet, lease(mode))
    (tool,) = profile_of(facts).tools
    assert bool(sanitized(boxes)) is (mode is wire.Mode.SANITIZE)
    assert (tool.outcome is ToolOutcome.UNAVAILABLE and "others wait" in tool.detail) is (mode is wire.Mode.TEST)
    assert "sanitizer" not in fold(facts).summary or mode is wire.Mode.SANITIZE


@pytest.mark.parametrize("mode", [wire.Mode.TEST, wire.Mode.SANITIZE])
async def test_the_verdict_comes_before_the_sanitizer(make, boxes, judges, mode) -> None:
    """After a failed test. In its own mode the sanitizer is what was asked for."""
    judges.order("emulated", "wrong")
    facts = await graded(make(), lease(mode))
    kinds = [type(fact) for fact in facts]
    before = facts[: kinds.index(wire.AttemptTimeline)]
    assert any(isinstance(fact, wire.KernelProfile) for fact in before) is (mode is wire.Mode.SANITIZE) and wire.KernelProfile in kinds
    assert fold(before).verdict is Verdict.WRONG_ANSWER and wire.Progress(stage=wire.Stage.PROFILING) in before


async def test_who_comes_while_it_runs_gets_the_lane(make, boxes, judges) -> None:
    """The box is ended, and its judge goes on. The control is the box that ends by itself, in the tests above."""
    judges.order("emulated", "wrong", "well", "linked")
    fleet, seats = make(), ExitStack()

    @asynccontextmanager
    async def start(spec: BoxSpec) -> AsyncIterator[Box]:
        async with Boxes.start(boxes, spec) as box:
            if spec.out_dir is not None and spec.purpose is Purpose.RUN:
                (spec.out_dir / "profile.json").unlink()
                seats.enter_context(fleet.seat(""))
                box = fakes.FakeBox()  # until it is killed
            yield box

    boxes.start = start  # type: ignore[method-assign]
    with seats:
        (tool,) = profile_of(await graded(fleet, lease(wire.Mode.TEST))).tools
    assert "others wait" in tool.detail and judges.log("emulated").count("start ") == 1


async def test_who_comes_while_it_is_compiled_for_it_gets_the_lane(make, boxes, judges) -> None:
    judges.order("emulated", "wrong")
    fleet, seats = make(), ExitStack()

    async def look(_: BoxSpec) -> None:
        if len(boxes.specs) == 2:  # after the first build and the run
            seats.enter_context(fleet.seat(""))

    look_at_starts(boxes, look)
    with seats:
        (tool,) = profile_of(await graded(fleet, lease(wire.Mode.TEST))).tools
    assert "others wait" in tool.detail and sanitized(boxes) == []


@pytest.mark.parametrize(("mode", "limit_s"), [(wire.Mode.TEST, 10.0), (wire.Mode.SANITIZE, 120.0)])
async def test_a_sanitizer_is_bounded(make, boxes, judges, mode, limit_s) -> None:
    """By the limit of its box, less what the build took; the kernel's own box has the usual one."""
    judges.order("emulated", "wrong")
    await graded(make(), lease(mode))
    (run,) = sanitized(boxes)
    assert 0 < run.limits.wall_s <= limit_s < boxes.runs[0].limits.wall_s


@pytest.fixture
async def pass_the_limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Awaitable[object]]:
    """Move the loop's clock by the limit, and wait for ever."""
    loop = asyncio.get_running_loop()
    clock, passed_s = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: clock() + passed_s[0])

    async def wait() -> None:
        passed_s[0] = 10.0
        await asyncio.Event().wait()

    return wait


@pytest.mark.parametrize(
    ("left_s", "runs"),
    [
        pytest.param(2.0, True, id="in time"),
        pytest.param(0.02, False, id="just before the limit"),
        pytest.param(-0.02, False, id="just after"),
    ],
)
async def test_a_build_may_end_with_the_limit(make, boxes, judges, monkeypatch, left_s, runs) -> None:
    """No box is started that could not even begin, and nobody waits for one."""
    judges.order("emulated", "wrong")
    loop = asyncio.get_running_loop()
    clock, passed_s = loop.time, [0.0]
    monkeypatch.setattr(loop, "time", lambda: clock() + passed_s[0])

    async def look(spec: BoxSpec) -> None:
        if is_second_build(spec, boxes):  # its limit began after the first
            passed_s[0] = 10.0 - left_s

    look_at_starts(boxes, look)
    (tool,) = profile_of(await graded(make(), lease(wire.Mode.TEST))).tools
    assert len(sanitized(boxes)) == runs and (tool.outcome is ToolOutcome.RAN) is runs


async def test_a_judge_does_not_wait_for_a_box_that_broke(make, boxes, judges) -> None:
    """As an engine may say of one that it removed before its first process reported. The judge waits until it is told."""
    judges.order("emulated", "wrong", "well", "linked")

    class LostBox(fakes.FakeBox):
        async def wait(self) -> BoxExit:
            raise IsolationBroken("a box's first process never reported")

    @asynccontextmanager
    async def start(spec: BoxSpec) -> AsyncIterator[Box]:
        async with Boxes.start(boxes, spec) as box:
            yield LostBox() if spec.out_dir is not None and spec.purpose is Purpose.RUN else box

    boxes.start = start  # type: ignore[method-assign]
    with pytest.raises(SandboxBroken, match="never reported"):
        await graded(make(), lease())
    assert "Job linked" in judges.log("emulated")


async def test_its_build_is_bounded(make, boxes, judges, pass_the_limit) -> None:
    judges.order("emulated", "wrong")

    async def look(spec: BoxSpec) -> None:
        if is_second_build(spec, boxes):
            await pass_the_limit()

    look_at_starts(boxes, look)
    (tool,) = profile_of(await graded(make(), lease(wire.Mode.TEST))).tools
    assert (tool.outcome, tool.detail) == (
        ToolOutcome.FAILED,
        "the kernel was not compiled for it within 10 s, waiting for a builder included",
    )
    assert sanitized(boxes) == []


@pytest.mark.parametrize("late", [True, False])
async def test_a_failed_test_does_not_wait_for_work_on_secrets(make, boxes, judges, monkeypatch, pass_the_limit, late) -> None:
    """With the lane in its hands. The control is the work that ends in time."""
    judges.order("emulated", "wrong")
    fleet = make()
    take = fleet.turn

    @asynccontextmanager
    async def turn(*, secret: bool) -> AsyncIterator[None]:
        builds = sum(spec.purpose is Purpose.BUILD for spec in boxes.specs)
        if builds == 2 and late:
            await pass_the_limit()
        async with take(secret=secret):
            yield

    monkeypatch.setattr(fleet, "turn", turn)
    (tool,) = profile_of(await graded(fleet, lease(wire.Mode.TEST))).tools
    assert len(sanitized(boxes)) == (not late)
    assert (tool.outcome is ToolOutcome.UNAVAILABLE and "other work" in tool.detail) is late


@pytest.mark.parametrize(
    ("order", "language", "detail"),
    [
        pytest.param("late", "cuda", "did not end in time", id="without an end"),  # it takes longer, and what it saw by then is lost
        pytest.param("well", "python", "CUDA C++ only", id="in Python"),
    ],
)
async def test_a_kernel_that_no_sanitizer_can_look_at_is_not_run_again(make, boxes, judges, order, language, detail) -> None:
    """In its own mode neither; the report states why."""
    judges.order("emulated", order)
    (tool,) = profile_of(await graded(make(), lease(language=language))).tools
    assert (tool.outcome, tool.name) == (ToolOutcome.UNAVAILABLE, EMULATED_SANITIZER) and detail in tool.detail
    assert sanitized(boxes) == []


@pytest.mark.parametrize(
    ("findings", "cause"),
    [
        pytest.param((UNWRITTEN, BARRIER), "The sanitizer reports: kernel.cu:25: threads 0..15 wait", id="a barrier that threads skip"),
        pytest.param((replace(RACE, severity=SanitizerSeverity.WARNING),), "", id="a warning"),
    ],
)
async def test_a_verdict_is_explained_by_the_likeliest_cause(make, boxes, judges, findings, cause) -> None:
    """The others read what a barrier leaves unwritten. A warning makes no kernel wrong."""
    boxes.findings = findings
    judges.order("emulated", "wrong")
    summary = fold(await graded(make(), lease())).summary
    assert cause in summary and bool(cause) is ("sanitizer" in summary)


async def test_a_gpu_has_compute_sanitizer(make, boxes) -> None:
    """The kernel is not built again, and findings that only the emulated device's sanitizer has are not believed."""
    boxes.tool = "compute-sanitizer"
    profile = profile_of(await graded(make(gpus=[fakes.gpu()]), lease(device_kind="cuda")))
    assert [tool.name for tool in profile.tools] == ["compute-sanitizer"] and profile.findings == () and profile.access_counts is None
    (run,) = sanitized(boxes)
    assert "grader_extensions.modes.box.nvidia_tools" in " ".join(run.argv)


async def test_findings_are_bounded(make, boxes) -> None:
    """They come from the kernel's own process."""
    long = replace(RACE, message="m" * 800 + "\x1b[2J", path="p" * 300, memory="\x00" * 9)
    impossible = replace(RACE, block=(1, 2)), replace(RACE, count=2**40)
    boxes.findings = (*impossible, *(replace(long, line=line) for line in range(100)))
    findings = profile_of(await graded(make(), lease())).findings
    assert 0 < len(findings) <= 50 and all(finding.line >= 0 for finding in findings)
    assert all(len(finding.message) <= 400 and len(finding.path) <= 200 and finding.memory == "" for finding in findings)


async def test_counts_reach_the_report(make, boxes) -> None:
    """Of the workload that was run; the API has them too, and the command line and the report show what each request needs."""
    boxes.findings = ()
    profile = fold(await graded(make(), lease())).profile
    assert profile is not None and profile.access_counts == COUNTS and profile.workload_id == "n8"
    message = to_message(report_pb2.Profile, profile)
    counts = access_counts.table(message.access_counts, row_limit=1)
    assert counts is not None and counts.title == "Memory accesses per line, counted in 4 of 16 blocks"
    assert counts.rows == [("kernel.cu:12", "global load", "8", "32 sectors (least 4)", "32", "1.02 kB")]
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(*render_profile(message, "s1"))
    printed = console.export_text()
    assert "kernel.cu:12" in printed and "32 sectors (least 4)" in printed and "counted in 4 of 16 blocks" in printed


async def test_counts_are_bounded(make, boxes) -> None:
    impossible = (replace(STRIDED, line=0), replace(STRIDED, requests=0), replace(STRIDED, transactions=2**53))
    many = tuple(replace(STRIDED, path="p" * 300 + "\x1b", line=line + 1) for line in range(100))
    boxes.access_counts = replace(COUNTS, lines=(*impossible, *many))
    counts = profile_of(await graded(make(), lease())).access_counts
    assert counts is not None and 0 < len(counts.lines) <= 40
    assert all(line.line > 0 and line.requests > 0 and line.transactions < 2**53 and line.path == "p" * 200 for line in counts.lines)
    boxes.access_counts = replace(COUNTS, counted_blocks=17)
    assert profile_of(await graded(make(), lease())).access_counts is None
