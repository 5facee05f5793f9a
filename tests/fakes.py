"""Fakes that tests pass in where the real thing needs a device or a box."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from grader import extensions
from grader.config import Settings
from grader.dispatch.gpus import Gpu
from grader.dispatch.lanes import JudgeProcess
from grader.errors import SandboxBroken
from grader.formats import formats
from grader.isolation import Availability, Box, BoxExit, BoxSpec, GpuAccess, Limits, Purpose
from grader.isolations import isolations
from grader.ledger import Ledger
from grader.ledger.statements import QUEUED_COUNT
from grader.model import Lease, NewSubmission, Problem, Report, SourceFile, Submission, SubmissionState, Verdict
from grader.server.wiring import Grading
from sandbox.protocol import wire
from sandbox.protocol.box_files import READY
from sandbox.protocol.box_modules import box_modules
from sandbox.protocol.languages import languages
from sandbox.protocol.wire import BoxCause

ENVIRONMENT = wire.Environment(device="fake", device_kind="emulated", clock=wire.Clock.HOST, isolation="fake", versions={"fake": "1"})
# Of a box with a small program.
LIMITS = Limits(
    wall_s=120.0,
    cpu_s=20.0,
    memory_bytes=128 << 20,
    process_count=24,
    output_bytes=1 << 20,
    file_bytes=16 << 20,
    tmp_bytes=8 << 20,
    open_file_count=64,
)
SOURCE = 'extern "C" void solve(const float* a, float* c, long n, void* stream) { /* grade: accept */ }\n'


def source(order: str) -> str:
    """A source that orders the fake grade: accept, wrong, fault, bug, hang, slow, or held (until a file `go` is beside `counted`)."""
    return SOURCE.replace("grade: accept", f"grade: {order}")


def new_submission(order: str = "accept", problem_id: str = "sum", language: str = "cuda", **fields: str) -> NewSubmission:
    """A submission that passed the intake."""
    return NewSubmission(problem_id=problem_id, language=language, sources=(SourceFile(path="kernel.cu", content=source(order)),), **fields)


def submission(draft: NewSubmission | None = None, **fields: object) -> Submission:
    """A submission that runs, unless the fields say otherwise."""
    submitted = Submission(
        submission_id="s1", new=draft or new_submission(), problem_digest="d", state=SubmissionState.RUNNING, create_time=datetime.now(UTC)
    )
    return replace(submitted, **fields)  # type: ignore[arg-type]


def lease(draft: NewSubmission | None = None, of: Problem | None = None, **fields: object) -> Lease:
    """A first attempt at a submission with these fields."""
    return Lease(submission=submission(draft, **fields), problem=of or problem(), attempt=1, worker_id="w")


def problem(problem_id: str = "sum", digest: str = "d" * 64) -> Problem:
    """A problem with one public and two hidden workloads."""
    tensor = wire.TensorSpec(name="a", dtype="float32", shape=("n",))
    return Problem(
        problem_id=problem_id,
        title="A sum",
        languages=("torch_extension", "cuda"),
        statement="Add.",
        spec=wire.ProblemSpec(
            problem_id=problem_id,
            format="native",
            entry="solve",
            inputs=(tensor, wire.TensorSpec(name="alpha", dtype="float32", shape=())),
            outputs=(wire.TensorSpec(name="c", dtype="float32", shape=("n",)),),
            workloads=(
                wire.Workload(workload_id="n64", axes={"n": 64}),
                wire.Workload(workload_id="secret33", axes={"n": 33}, hidden=True),
                wire.Workload(workload_id="secret97", axes={"n": 97}, hidden=True),
            ),
            tolerance=wire.Tolerance(),
            reference="def reference(a, alpha, n): ...",
            axes=("n",),
            digest=digest,
        ),
    )


async def queued_count(ledger: Ledger) -> int:
    """How many wait; runs of rejudges take nobody's room."""
    return int(await ledger.database.read(lambda connection: QUEUED_COUNT.run(connection)[0][0]))


def job(**changes: object) -> wire.Job:
    """A job of the problem, in mode TEST."""
    plain = wire.Job(
        job_id="job",
        problem=problem().spec,
        language="cuda",
        entry="solve",
        mode=wire.Mode.TEST,
        link_path="",
        artifact_path="",
        artifact_digest="",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def trial(workload_id: str = "n64", *, hidden: bool = False, outcome: wire.TrialOutcome = wire.TrialOutcome.PASSED) -> wire.Trial:
    """A trial with every number set."""
    return wire.Trial(
        workload_id=workload_id,
        phase=wire.TrialPhase.VERIFY,
        index=0,
        outcome=outcome,
        hidden=hidden,
        key="ab" * 16,
        element_count=33,
        mismatched_count=3,
        unwritten_count=2,
        nonfinite_count=1,
        max_absolute_error=float("inf"),
        max_relative_error=0.5,
        budget_ratio=0.25,
        message="33 elements",
        duration_ns=1_500,
    )


def measurement(workload_id: str = "n64", *, hidden: bool = False) -> wire.Measurement:
    """A measurement with everything set."""
    speedup = wire.Speedup(baseline="eager", ratio=2.0, ratio_low=1.9, ratio_high=2.1)
    return wire.Measurement(
        workload_id=workload_id,
        clock=wire.Clock.HOST,
        certified=wire.Samples(durations_ns=(100, 200, 300, 400)),
        bound_ns=260,
        floor_ns=40,
        hidden=hidden,
        reported=wire.Samples(durations_ns=(150,)),
        reported_confirmed=True,
        baselines={"eager": wire.Samples(durations_ns=(500, 500))},
        speedups=(speedup,),
    )


def report() -> Report:
    """A report with everything set."""
    return Report(
        verdict=Verdict.ACCEPTED,
        reason="",
        summary="Right.",
        speedups=(wire.Speedup(baseline="eager", ratio=2.0, ratio_low=1.9, ratio_high=2.1),),
        build=wire.Build(
            outcome=wire.BuildOutcome.BUILT,
            log="warning",
            duration_ns=5,
            artifact_digest="e" * 64,
            cached=True,
            headers="full",
            fallback="why",
        ),
        trials=(trial(), trial("secret33", hidden=True)),
        measurements=(measurement(), measurement("secret97", hidden=True)),
        environment=ENVIRONMENT,
        output="hello",
        flags=("REPORTED_TIME_NOT_CONFIRMED",),
    )


class FakeGrade:
    """Grades by what the source says, without a device. `counted` gets a line for every attempt, for other processes to read."""

    def __init__(self, counted: Path | None = None) -> None:
        self.attempts: list[tuple[str, int]] = []
        self.stopped: list[str] = []
        self.running = 0
        self.running_most = 0
        self._counted = counted

    async def __call__(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        submission_id = lease.submission.submission_id
        self.attempts.append((submission_id, lease.attempt))
        if self._counted is not None:
            with self._counted.open("a") as file:
                file.write(f"{submission_id} {lease.attempt}\n")
        self.running += 1
        self.running_most = max(self.running_most, self.running)
        try:
            async for fact in self._facts(lease):
                yield fact
        except (asyncio.CancelledError, GeneratorExit):
            self.stopped.append(submission_id)
            raise
        finally:
            self.running -= 1

    async def _facts(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        match = re.search(r"grade: (\w+)", lease.submission.new.sources[0].content)
        order = match.group(1) if match else "accept"
        yield ENVIRONMENT
        yield wire.Progress(stage=wire.Stage.BUILDING)
        yield wire.Build(outcome=wire.BuildOutcome.BUILT, duration_ns=1, artifact_digest="e" * 64)
        if order == "fault":
            raise SandboxBroken("the fake was told to break")
        if order == "bug":
            raise KeyError("secret detail")
        if order == "hang":
            await asyncio.Event().wait()
        while order == "held" and self._counted is not None and not self._counted.with_name("go").exists():
            await asyncio.sleep(0.02)
        if order == "slow":
            await asyncio.sleep(0.3)
        if lease.submission.new.mode is wire.Mode.SWEEP:
            for fact in self._sweep(lease, order):
                yield fact
            return
        count = lease.ranking.process_count if lease.ranking else 1
        for index in range(count):
            if lease.ranking:
                yield wire.Round(index=index, count=count)
            for fact in self._process(lease, order, index):
                yield fact
            if order == "wrong":
                return

    def _sweep(self, lease: Lease, order: str) -> Iterator[wire.Fact]:
        """Every size of a sweep; wrong: all but the first are. Larger sizes take longer, in proportion."""
        workloads = lease.problem.spec.workloads
        yield wire.Load(outcome=wire.LoadOutcome.LOADED)
        yield wire.Plan(trials=(), sweep=tuple(entry.workload_id for entry in workloads))
        for number, workload in enumerate(workloads):
            name, wrong = workload.workload_id, order == "wrong" and number > 0
            yield wire.Plan(trials=((name, wire.TrialPhase.VERIFY, 1),), measured=(name,))
            yield wire.Progress(stage=wire.Stage.VERIFYING, workload_id=name)
            yield trial(name, outcome=wire.TrialOutcome.MISMATCHED if wrong else wire.TrialOutcome.PASSED)
            if not wrong:
                scale = max(workload.axes.values())
                times = wire.Samples(durations_ns=tuple(scale * base_ns for base_ns in (90, 100, 110)))
                eager = wire.Samples(durations_ns=tuple(scale * base_ns for base_ns in (190, 200, 210)))
                yield replace(
                    measurement(name), certified=times, reported=times, baselines={"eager": eager}, moved_bytes=workload.moved_bytes
                )
        yield wire.Finished(job_id="job")

    def _process(self, lease: Lease, order: str, index: int) -> Iterator[wire.Fact]:
        """Grade one process; in ranked mode with times, faster than eager by what the source says behind `speedup:`, and 1 % about."""
        workloads = lease.problem.spec.workloads
        measured = tuple(entry.workload_id for entry in workloads) if lease.ranking else ()
        yield wire.Load(outcome=wire.LoadOutcome.LOADED)
        yield wire.Plan(trials=tuple((entry.workload_id, wire.TrialPhase.VERIFY, 1) for entry in workloads), measured=measured)
        for workload in workloads:
            yield wire.Progress(stage=wire.Stage.VERIFYING, workload_id=workload.workload_id)
            outcome = wire.TrialOutcome.MISMATCHED if order == "wrong" else wire.TrialOutcome.PASSED
            yield trial(workload.workload_id, hidden=workload.hidden, outcome=outcome)
            if order == "wrong":
                break
        else:
            match = re.search(r"speedup: ([0-9.]+)", lease.submission.new.sources[0].content)
            ratio = (float(match.group(1)) if match else 2.0) * (0.999, 1.0, 1.001)[index % 3]
            speedup = wire.Speedup(baseline="eager", ratio=ratio, ratio_low=ratio * 0.99, ratio_high=ratio * 1.01)
            for workload in workloads if lease.ranking else ():
                yield replace(measurement(workload.workload_id, hidden=workload.hidden), speedups=(speedup,))
        yield wire.Finished(job_id="job")


PROFILE = wire.KernelProfile(
    tools=(wire.ProfileTool(name="sanitizer", outcome=wire.ToolOutcome.RAN, detail="found 1 error"),),
    findings=(
        wire.SanitizerFinding(
            kind=wire.SanitizerKind.RACE, severity=wire.SanitizerSeverity.ERROR, message="two threads write", path="k.cu", line=3
        ),
    ),
)


class LateFindings(FakeGrade):
    """Has its verdict, waits until it is told, and then says this."""

    def __init__(self, *late: wire.Fact | Exception) -> None:
        super().__init__()
        self.late, self.go = late, asyncio.Event()

    async def _facts(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        async for fact in super()._facts(lease):
            yield fact
        yield wire.Progress(stage=wire.Stage.PROFILING)
        yield wire.AttemptTimeline(spans=())
        await self.go.wait()
        for fact in self.late:
            if isinstance(fact, Exception):
                raise fact
            yield fact


def wiring(
    grade: FakeGrade | None = None,
    *,
    capacity: int = 4,
    safe: bool = True,
    device_kinds: Sequence[str] = ("emulated",),
    lanes=tuple,
    cordon=lambda _: None,
    fault=str,
):
    """A wiring that grades with a fake. lanes: what its lanes are said to be doing. cordon: takes the names of those that are cordoned.
    fault: why nothing can be graded."""

    @asynccontextmanager
    async def wired(settings: Settings) -> AsyncIterator[Grading]:
        kinds = tuple(device_kinds)
        yield Grading(
            grade=grade or FakeGrade(),
            capacity=lambda: capacity,
            device_kinds=lambda: kinds,
            isolation="fake",
            safe=safe,
            lanes=lanes,
            cordon=cordon,
            fault=fault,
        )

    return wired


PROBLEM_TOML = """
name = "{name}"
title = "A sum"
axes = ["n"]
inputs = [{{ name = "a", shape = ["n"] }}]
outputs = [{{ name = "c", shape = ["n"] }}]
workloads = [{{ id = "n64", axes = {{ n = 64 }} }}, {{ id = "secret33", axes = {{ n = 33 }}, hidden = true }}]
"""


def write_problem(root: Path, name: str = "sum", text: str = PROBLEM_TOML) -> Path:
    """A native problem's directory below root."""
    directory = root / name
    with contextlib.suppress(FileExistsError):
        directory.mkdir(parents=True)
    (directory / "problem.toml").write_text(text.format(name=name) if text is PROBLEM_TOML else text)
    (directory / "reference.py").write_text("def reference(a):\n    return a\n")
    return directory


class EndedBox:
    """A box that has ended by itself."""

    uid, ended = -1, True

    def __init__(self, end: BoxExit) -> None:
        self._end = end

    async def wait(self) -> BoxExit:
        return self._end

    kill = wait


def gpu(index: int = 0, name: str = "NVIDIA H200") -> Gpu:
    """A GPU that is not there."""
    return Gpu(index=index, uuid=f"GPU-{index:04}", name=name, minor=index + 1, memory_bytes=1 << 37, driver="580.1")


# A judge without torch: what it does with the next job or check is the first line of `orders`, which it removes; "well" without one.
_JUDGE = """
import os, pathlib, sys, time
from sandbox.protocol import wire

place, kind = pathlib.Path(sys.argv[1]), sys.argv[2]
orders = place / "orders"


def order():
    lines = orders.read_text().splitlines() if orders.exists() else []
    orders.write_text("\\n".join(lines[1:]))
    return lines[0] if lines else "well"


def say(fact):
    sys.stdout.buffer.write(wire.encode(fact))
    sys.stdout.buffer.flush()


with (place / "log").open("a") as log:
    uuid = os.environ.get("CUDA_VISIBLE_DEVICES", "") if kind == "cuda" else ""
    log.write("start " + uuid + "\\n")
    log.flush()
    if (place / "sick").exists():
        raise SystemExit(7)
    if (place / "gate").exists():
        (place / "gate").read_text()
    say(wire.Environment(device="fake " + kind, device_kind=kind, clock=wire.Clock.HOST, device_uuid=uuid, architecture="sm_90"))
    for line in sys.stdin.buffer:
        message, todo = wire.decode(line), order()
        log.write(type(message).__name__ + " " + todo + (" own share" if getattr(message, "own_share", None) == 0.25 else "") + "\\n")
        log.flush()
        if todo == "die":
            raise SystemExit(9)
        elif todo == "hush":
            time.sleep(600)
        elif isinstance(message, wire.Check):
            say(wire.Health(job_id=message.job_id, healthy=todo == "well", detail="" if todo == "well" else "the canary is " + todo))
        elif isinstance(message, wire.Prepare):
            log.write(f"baselines of {','.join(one.workload_id for one in message.problem.workloads)}\\n")
            log.flush()
            say(wire.Progress(stage=wire.Stage.BASELINE))
            if todo == "well":
                say(wire.Finished(job_id=message.job_id))
            else:
                say(wire.Broken(job_id=message.job_id, message=todo, problem_at_fault=True))
        elif todo == "linked":
            while not pathlib.Path(message.link_path + ".closed").exists():
                time.sleep(0.01)
            say(wire.Broken(job_id=message.job_id, message="the box ended before its runner connected"))
        elif todo == "absent":
            say(wire.Broken(job_id=message.job_id, message="the box ended before its runner connected"))
        elif todo == "lost":
            say(wire.Broken(job_id=message.job_id, message="the context is lost", device_lost=True))
        elif message.mode is wire.Mode.SWEEP:
            log.write(f"sweep of {','.join(one.workload_id for one in message.problem.workloads)} for {message.measure_s:g} s each\\n")
            log.flush()
            say(wire.Load(outcome=wire.LoadOutcome.LOADED))
            say(wire.Plan(trials=(), sweep=tuple(one.workload_id for one in message.problem.workloads)))
            for one in message.problem.workloads:
                say(wire.Plan(trials=((one.workload_id, wire.TrialPhase.VERIFY, 1),), measured=(one.workload_id,)))
                outcome = wire.TrialOutcome.DEVICE_FAULT if todo == "fault" else wire.TrialOutcome.PASSED
                say(wire.Trial(workload_id=one.workload_id, phase=wire.TrialPhase.VERIFY, index=0, outcome=outcome))
                if todo == "fault":
                    break
                times = wire.Samples(durations_ns=(1000, 1100))
                say(wire.Measurement(workload_id=one.workload_id, clock=wire.Clock.HOST, certified=times, bound_ns=1000, floor_ns=1))
            say(wire.Finished(job_id=message.job_id))
        else:
            say(wire.Load(outcome=wire.LoadOutcome.LOADED))
            plan = tuple((one.workload_id, wire.TrialPhase.VERIFY, 1) for one in message.problem.workloads)
            say(wire.Plan(trials=plan))
            outcome = wire.TrialOutcome.MISMATCHED if todo in ("wrong", "forbidden") else wire.TrialOutcome.PASSED
            outcome = wire.TrialOutcome.TIMED_OUT if todo == "late" else outcome
            if todo == "forbidden":
                say(wire.Violation(kind=wire.ViolationKind.PROTOCOL, detail="it wrote to the gate"))
            for one in message.problem.workloads:
                if one.hidden and message.mode is wire.Mode.RANKED:
                    say(wire.Progress(stage=wire.Stage.VERIFYING, workload_id=one.workload_id, hidden_at_ns=time.monotonic_ns()))
                say(wire.Trial(workload_id=one.workload_id, phase=wire.TrialPhase.VERIFY, index=0, outcome=outcome))
                if outcome is not wire.TrialOutcome.PASSED:
                    break
            if todo == "restart" and message.kept_times:
                say(wire.Restart(job_id=message.job_id, cause=wire.RestartCause.NOT_TIMED, own_share=0.25))
            else:
                say(wire.Finished(job_id=message.job_id))
"""


class Judges:
    """Makes judges that are processes and do as told, by lane: "emulated", or a GPU's index."""

    def __init__(self, root: Path, *, check_s: float = 30.0) -> None:
        self._root, self.check_s = root, check_s

    def __call__(self, device_kind: str, gpu: GpuAccess | None, cache_dir: Path | None, /) -> JudgeProcess:
        place = self._place(device_kind if gpu is None else str(gpu.index))
        return JudgeProcess(device_kind, gpu, cache_dir, command=(sys.executable, "-c", _JUDGE, str(place)), check_s=self.check_s)

    def order(self, lane: str, *orders: str) -> None:
        """The lane's judge's next answers, message by message: well, unwell, wrong, late, forbidden, fault (of a sweep), absent (the
        runner), linked (waits for the runner until its box is gone), lost, die, hush, restart (where it may)."""
        (self._place(lane) / "orders").write_text("\n".join(orders))

    def sicken(self, lane: str) -> None:
        """Let the lane's judge not start any more."""
        (self._place(lane) / "sick").touch()

    def delay(self, lane: str) -> Path:
        """Let the lane's judge say nothing until this pipe is written to."""
        os.mkfifo(gate := self._place(lane) / "gate")
        return gate

    def log(self, lane: str) -> list[str]:
        """The calls that the lane's judges got."""
        path = self._place(lane) / "log"
        return path.read_text().splitlines() if path.exists() else []

    def _place(self, lane: str) -> Path:
        place = self._root / f"judge-{lane}"
        place.mkdir(parents=True, exist_ok=True)
        return place


class FakeBox:
    """A box that runs until it is killed."""

    uid = -1

    def __init__(self) -> None:
        self._killed = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self._killed.is_set()

    async def wait(self) -> BoxExit:
        await self._killed.wait()
        return BoxExit(cause=BoxCause.KILLED)

    def begin(self, wall_s: float) -> None:
        self.began_with_s = wall_s

    async def kill(self) -> BoxExit:
        self._killed.set()
        return await self.wait()


def say_imported(spec: BoxSpec) -> None:
    """Answer as a run box that has imported everything, at once."""
    if spec.link_dir is not None and (spec.link_dir / READY).is_fifo():
        (spec.link_dir / READY).write_bytes(b"r")


class FakeBoxes:
    """An isolation whose build boxes leave an artifact, unless told to wait or to refuse, and whose run boxes do nothing."""

    NAME, SAFE = "fake", True

    def __init__(self) -> None:
        self.specs: list[BoxSpec] = []
        self.open: list[BoxSpec] = []
        self.builds = asyncio.Event()  # build boxes end only while it is set
        self.builds.set()
        self.build_end = BoxExit(cause=BoxCause.EXITED, exit_code=0)
        self.before_close = asyncio.Event()
        self.before_close.set()
        self.toolchain: Path | None = None  # the copy that boxes see
        self.adopted_fingerprint = ""

    @asynccontextmanager
    async def start(self, spec: BoxSpec) -> AsyncIterator[Box]:
        self.specs.append(spec)
        self.open.append(spec)
        try:
            if spec.purpose is Purpose.BUILD:
                await self.builds.wait()
                assert spec.out_dir is not None
                (spec.out_dir / "artifact").write_bytes(b"artifact")
                yield EndedBox(self.build_end)
            else:
                say_imported(spec)
                yield FakeBox()
                await self.before_close.wait()
        finally:
            self.open.remove(spec)

    async def check(self) -> Availability:
        """Say that boxes work."""
        return Availability(usable=True, detail="fake")

    async def fingerprint(self, *, fresh: bool = False) -> str:
        return "toolchain"

    async def adopt(self, memory_toolchain_dir: Path, fingerprint: str) -> None:
        self.toolchain, self.adopted_fingerprint = memory_toolchain_dir, fingerprint

    async def close(self) -> None:
        """Hang up nothing."""

    async def sweep(self) -> int:
        return 0

    @property
    def runs(self) -> list[BoxSpec]:
        """The run boxes that were started, in order."""
        return [spec for spec in self.specs if spec.purpose is Purpose.RUN]


def forget_installed_parts() -> None:
    """Let the next look read the parts of installed packages anew."""
    for read in (box_modules, extensions.modes, formats, isolations, languages):
        read.cache_clear()
