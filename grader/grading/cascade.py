"""Grades a kernel on the emulated device before it gets a GPU, and ends there where its answer is wrong (`Submission.cascade`).

Only an answer that was computed and is wrong ends a grading: rules of CUDA are the same on both devices. What the emulated device can't
compile or load, what crashes on it, a launch that it refuses, and what it does not end in time goes on to the GPU, which decides. So does
every right answer: this stage never accepts.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import cast

from grader import devices
from grader.errors import GraderFault, NoSuchDevice, ProblemBroken
from grader.extensions import CORE_MODES
from grader.grading import pipeline
from grader.grading.attempt import Host
from grader.model import Lease, Problem
from grader.verdict.fold import first_failure
from sandbox.protocol import wire
from sandbox.protocol.wire import ScreeningOutcome, Stage, Step, TrialOutcome

WORKLOAD_LIMIT, ELEMENT_LIMIT, FLOP_LIMIT = 3, 1 << 20, 1 << 29
TRIAL_LIMIT_S = 5.0
WRONG = frozenset(
    (
        TrialOutcome.MISMATCHED,
        TrialOutcome.UNWRITTEN,
        TrialOutcome.NON_FINITE,
        TrialOutcome.WRONG_SHAPE,
        TrialOutcome.WRONG_DTYPE,
        TrialOutcome.INPUT_MODIFIED,
        TrialOutcome.OUT_OF_BOUNDS,
    )
)

Grade = Callable[[Lease, Host], AsyncIterator[wire.Fact]]


async def grade(lease: Lease, host: Host, *, grade_on_device: Grade = pipeline.grade) -> AsyncGenerator[wire.Fact, None]:
    """Grade one attempt, after a stage on the emulated device where the submission asks for that. grade_on_device: grades on one device."""
    screening = None
    if is_screened(lease, host):
        begin_ns = time.monotonic_ns()
        yield wire.Progress(stage=Stage.SCREENING)
        async with aclosing(screened(lease, host, grade_on_device)) as facts:
            async for fact in facts:
                if isinstance(fact, wire.Screening):
                    fact = screening = replace(fact, duration_ns=time.monotonic_ns() - begin_ns)
                yield fact
    if screening is not None and screening.outcome is ScreeningOutcome.FAILED:
        return
    async with aclosing(cast(AsyncGenerator[wire.Fact, None], grade_on_device(lease, host))) as facts:
        async for fact in facts:
            yield fact if screening is None or not isinstance(fact, wire.AttemptTimeline) else with_screening(fact, screening.duration_ns)


def is_screened(lease: Lease, host: Host) -> bool:
    """Return whether a kernel is graded on the emulated device first. In a competition all are judged by one rule, on its device."""
    submission = lease.submission.new
    if not submission.cascade or submission.competition_id or submission.mode not in CORE_MODES:
        return False
    with host.seat(submission.device_kind) as seat:
        return seat.gpu is not None


async def screened(lease: Lease, host: Host, grade_on_device: Grade) -> AsyncGenerator[wire.Fact, None]:
    """Yield what the stage is about, then its Screening; of a wrong answer the facts that a report is drawn from, too."""
    facts, failed, problem = list[wire.Fact](), False, small(lease)
    test = replace(lease.submission.new, device_kind=devices.EMULATED, mode=wire.Mode.TEST)
    lease = replace(lease, problem=problem, submission=replace(lease.submission, new=test))
    count = len(problem.spec.workloads)
    obstacle = "" if count else "the problem has no workload that is small enough"
    if any("numba" in source.content for source in test.sources):
        obstacle = "Numba's simulator computes with integers of any size"
    if obstacle:
        yield wire.Screening(outcome=ScreeningOutcome.SKIPPED, detail=obstacle)
        return
    try:
        async with aclosing(cast(AsyncGenerator[wire.Fact, None], grade_on_device(lease, host))) as stage:
            async for fact in stage:
                if failed or isinstance(fact, wire.Progress):
                    yield fact
                    continue
                facts.append(fact)
                if (decision := first_failure((fact,))) is None:
                    continue
                # Where a call of CUDA failed, the launch may ask for more than the emulated device has.
                if not isinstance(fact, wire.Trial) or fact.outcome not in WRONG or fact.cuda_error:
                    detail = f"{decision[0]} {decision[1]}: {decision[2]}"
                    yield wire.Screening(outcome=ScreeningOutcome.INCONCLUSIVE, detail=detail, workload_count=count)
                    return
                failed = True
                for earlier in facts:
                    yield earlier
                yield wire.Screening(outcome=ScreeningOutcome.FAILED, workload_count=count)
    except (GraderFault, NoSuchDevice) as error:
        if failed:
            raise
        skipped = isinstance(error, ProblemBroken | NoSuchDevice)
        yield wire.Screening(outcome=ScreeningOutcome.SKIPPED if skipped else ScreeningOutcome.INCONCLUSIVE, detail=str(error))
        return
    if not failed:
        yield wire.Screening(outcome=ScreeningOutcome.PASSED, workload_count=count)


def small(lease: Lease) -> Problem:
    """Return the problem with its smallest workloads only, hidden ones among them, each of which may take TRIAL_LIMIT_S."""
    spec = lease.problem.spec
    sizes = {workload.workload_id: elements(spec, workload) for workload in spec.workloads}
    fitting = [
        workload
        for workload in spec.workloads
        if workload.device_kind in ("", devices.EMULATED)
        and sizes[workload.workload_id] <= ELEMENT_LIMIT
        and (workload.flops or 0) <= FLOP_LIMIT
    ]
    workloads = tuple(sorted(fitting, key=lambda workload: sizes[workload.workload_id])[:WORKLOAD_LIMIT])
    return replace(lease.problem, spec=replace(spec, workloads=workloads, trial_s=min(spec.trial_s, TRIAL_LIMIT_S)))


def elements(spec: wire.ProblemSpec, workload: wire.Workload) -> float:
    """Count the elements of inputs and outputs; infinite where only the problem's own code knows them."""
    tensors = (*spec.inputs, *spec.outputs)
    sizes = ([workload.axes[size] if isinstance(size, str) else size for size in tensor.shape] for tensor in tensors)
    return sum(map(math.prod, sizes)) if tensors else math.inf


def with_screening(timeline: wire.AttemptTimeline, duration_ns: int) -> wire.AttemptTimeline:
    """Put the stage before the steps of a timeline."""
    later = (replace(span, begin_ns=span.begin_ns + duration_ns) for span in timeline.spans)
    return wire.AttemptTimeline(spans=(wire.Span(step=Step.SCREEN, begin_ns=0, duration_ns=duration_ns), *later))
