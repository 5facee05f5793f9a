"""Grades a kernel of the grader's own on every lane of a host: built and run in boxes, and judged.

What it needs, submissions need.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Protocol

import structlog

from grader import devices
from grader.dispatch.dispatcher import Grade
from grader.errors import DeviceQuarantined
from grader.model import Lease, NewSubmission, Problem, SourceFile, Submission, SubmissionState, Verdict
from grader.observability.observer import LaneNow, LaneState
from grader.verdict.fold import fold
from sandbox.protocol import wire

NAME = "own_kernel"
SHOWN_CHARS = 300
# Raw CUDA C++: it imports the least, and an artifact in the cache makes it cheap.
_SOURCE = """\
#include <cstdint>
#include <cuda_runtime.h>

__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}

extern "C" void solve(const float* a, const float* b, float* c, int64_t n, cudaStream_t stream) {
    add<<<(n + 255) / 256, 256, 0, stream>>>(a, b, c, n);
}
"""
_TENSORS = tuple(wire.TensorSpec(name=name, dtype="float32", shape=("n",)) for name in "abc")
_PROBLEM = Problem(
    problem_id=NAME,
    title="Sum of two vectors",
    languages=("cuda",),
    spec=wire.ProblemSpec(
        problem_id=NAME,
        format="native",
        entry="solve",
        inputs=_TENSORS[:2],
        outputs=_TENSORS[2:],
        workloads=(wire.Workload(workload_id="n1000", axes={"n": 1000}),),
        tolerance=wire.Tolerance(),
        reference="def reference(a, b):\n    return a + b\n",
        axes=("n",),
        trial_count=1,
        digest=NAME,
    ),
)


log = structlog.get_logger()


class LaneHost(Protocol):
    """A host with lanes."""

    def grade(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        """Grade one attempt."""

    def lanes(self) -> Sequence[LaneNow]:
        """What each lane is doing."""

    async def quarantine(self, name: str, illness: str) -> None:
        """Give nothing more to the lane of this name until a look finds it well."""


async def grade_own(host: LaneHost) -> str:
    """Grade it on every lane that is in service.  The answer is why it fails on all of them, else
    ""; a GPU's lane on which alone it fails is quarantined."""
    lanes = [lane.name for lane in host.lanes() if lane.state not in (LaneState.QUARANTINED, LaneState.CORDONED)]
    failures = dict(zip(lanes, await asyncio.gather(*(_failure(host.grade, name) for name in lanes)), strict=True))
    broken = {name: failure for name, failure in failures.items() if failure}
    if broken and len(broken) == len(lanes):
        return f"a kernel of the grader's own can't be graded on {lanes[0]}: {broken[lanes[0]]}"
    for name, failure in broken.items():
        if not name.startswith(devices.EMULATED):  # of these nobody knows which one had it
            await host.quarantine(name, failure)
    return ""


async def _failure(grade: Grade, lane: str) -> str:
    """Why it was not graded as it should be.  Emulated lanes are alike: of several at once, each
    takes one."""
    kind = lane.partition(":")[0]
    new = NewSubmission(
        problem_id=NAME,
        language="cuda",
        sources=(SourceFile(path="kernel.cu", content=_SOURCE),),
        device_kind=kind if kind == devices.EMULATED else lane,
        mode=wire.Mode.TEST,
        skip_sanitizer=True,
    )
    submission = Submission(submission_id=NAME, new=new, problem_digest=NAME, state=SubmissionState.RUNNING, create_time=datetime.now(UTC))
    try:
        facts = [fact async for fact in grade(Lease(submission=submission, problem=_PROBLEM, attempt=1, worker_id=NAME))]
        report = fold(facts)
    except DeviceQuarantined:  # the lane says so itself
        return ""
    except Exception as error:  # noqa: BLE001  whatever it is, submissions would meet it too
        log.error("own_kernel_not_graded", lane=lane, detail=str(error))
        return f"{type(error).__name__}: {_last_line(str(error))}"
    if report.verdict is Verdict.ACCEPTED:
        return ""
    if report.build is not None and report.build.outcome is not wire.BuildOutcome.BUILT:
        log.error("own_kernel_not_built", lane=lane, log=report.build.log)
    return f"{report.verdict} {report.reason}: {_last_line(report.summary)}"


def _last_line(text: str) -> str:
    """Of a traceback, what was raised."""
    return "".join(text.strip().splitlines()[-1:])[:SHOWN_CHARS]
