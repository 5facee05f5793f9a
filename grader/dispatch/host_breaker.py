"""Stops a host from taking submissions while it can't grade, so that none is charged for its faults.

An attempt that the grader spoiled counts against its submission only where the host then proves to be well, and no other submission was
spoiled since the last verdict. Every other one ends as HostBroken, which counts nothing. A submission that is spoiled over and over on a
host that is well is charged in the end, so that it ends, too.
"""

from __future__ import annotations

import asyncio
import errno
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import cast

import structlog

from grader import devices
from grader.dispatch.dispatcher import Grade
from grader.dispatch.local_fleet import LocalFleet
from grader.errors import CallRefused, DeviceQuarantined, GraderFault, HostBroken, WorkerLost
from grader.model import Lease, NewSubmission, Problem, SourceFile, Submission, SubmissionState, Verdict
from grader.observability.observer import LaneState
from grader.verdict.fold import fold
from sandbox.protocol import wire

PROBE_S, PROBE_MOST_S = 5.0, 30.0  # between two probes of a host that can't grade: the first, and the most
IDLE_S = 25.0  # between two looks at the boxes of a host on which nothing runs
SPOILED_LIMIT = 20  # attempts at one submission that a host which is well may spoil without being charged
SUBMISSIONS_KEPT = 1000
UNPROVEN = "it has not graded a kernel of its own yet"
# The host has run out of something that every box needs.
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EROFS, errno.EIO})

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

Probe = Callable[[], Awaitable[str]]  # what is wrong with the host; "" where nothing is


class HostBreaker:
    """Watches the attempts of one host. Use as an async context. check: whether a trivial box starts. grade_own: whether every lane grades
    a kernel of the grader's own; None: that is not tried, and the host is taken for well at first. pause: sleeps."""

    def __init__(
        self, grade: Grade, check: Probe, grade_own: Probe | None, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._grade, self._check, self._grade_own, self._pause = grade, check, grade_own, pause
        self.fault = "" if grade_own is None else UNPROVEN  # why nothing may be taken now
        self._spoiled: set[str] = set()  # submissions, since the last verdict
        self._spoils: OrderedDict[str, int] = OrderedDict()  # how often each was spoiled without being charged
        self._running = 0
        self._proved = asyncio.Event()
        self._recovery: asyncio.Task[None] | None = None
        self._idle: asyncio.Task[None] | None = None

    async def __aenter__(self) -> HostBreaker:
        if self.fault:
            self._recovery = asyncio.create_task(self._recover())
        self._idle = asyncio.create_task(self._look_while_idle())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in (self._idle, self._recovery):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def proved(self) -> str:
        """Return the host's fault, once it was tried."""
        if self._grade_own is not None:
            await self._proved.wait()
        return self.fault

    async def grade(self, lease: Lease) -> AsyncIterator[wire.Fact]:
        """Grade one attempt; HostBroken where the host is at fault."""
        submission_id, judged = lease.submission.submission_id, False
        self._running += 1
        try:
            async with aclosing(cast(AsyncGenerator[wire.Fact, None], self._grade(lease))) as facts:
                async for fact in facts:
                    judged = judged or isinstance(fact, wire.Finished)
                    yield fact
            if judged:
                self._close(submission_id)
        except (CallRefused, DeviceQuarantined, HostBroken, WorkerLost):
            raise
        except Exception as error:
            if isinstance(error, GraderFault) and error.final:
                raise
            if (fault := await self._host_fault(submission_id, error)) is not None:
                raise HostBroken(fault) from error
            raise
        finally:
            self._running -= 1

    async def _host_fault(self, submission_id: str, error: Exception) -> str | None:
        """Return the host's fault that spoiled an attempt; None where the submission is charged."""
        self._spoiled.add(submission_id)
        if fault := await self._probe(whole=self._running == 1):
            self._open(fault)
            return fault
        # Boxes start, and yet: before more is taken, the host grades a kernel of its own. An error's text may quote a secret size.
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            self._open(f"the host has run out of something: {error.strerror}")
        elif len(self._spoiled) > 1:
            reason = error.reason if isinstance(error, GraderFault) else type(error).__name__
            self._open(f"{len(self._spoiled)} submissions in a row could not be graded, the last because of {reason}; see the log")
        elif not self.fault:
            return None
        count = self._spoils[submission_id] = self._spoils.pop(submission_id, 0) + 1
        while len(self._spoils) > SUBMISSIONS_KEPT:
            self._spoils.popitem(last=False)
        return self.fault if count <= SPOILED_LIMIT else None

    async def _probe(self, *, whole: bool) -> str:
        """Return the host's fault. whole: boxes that start are not enough."""
        try:
            return await self._check() or (await self._grade_own() if whole and self._grade_own is not None else "")
        except Exception as error:
            log.exception("host_probe_broke")
            return f"{type(error).__name__} while the host was tried; see the log"

    def _open(self, fault: str) -> None:
        if not self.fault:
            log.error("host_can_not_grade", reason=fault)
        self.fault = fault
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._recover())

    def _close(self, submission_id: str = "") -> None:
        """The host has graded: a submission, or a kernel of its own."""
        if self.fault:
            log.info("host_grades", before=self.fault)
        self.fault = ""
        self._spoiled.clear()
        self._spoils.pop(submission_id, None)

    async def _recover(self) -> None:
        pause_s = PROBE_S
        while self.fault:
            fault = await self._probe(whole=True)
            if not fault:
                self._close()
            self._proved.set()
            if fault:
                if fault != self.fault:
                    log.error("host_can_not_grade", reason=fault)
                self.fault = fault
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, PROBE_MOST_S)

    async def _look_while_idle(self) -> None:
        while True:
            await self._pause(IDLE_S)
            if not self.fault and not self._running and (fault := await self._probe(whole=False)):
                self._open(fault)


async def grade_own(host: LocalFleet) -> str:
    """Return why the own kernel fails on every lane in service, else ""; a GPU's lane on which alone it fails is quarantined."""
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
    """Return why it was not graded as it should be. Emulated lanes are alike: of several at once, each takes one."""
    kind = lane.partition(":")[0]
    kernel = NewSubmission(
        problem_id=NAME,
        language="cuda",
        sources=(SourceFile(path="kernel.cu", content=_SOURCE),),
        device_kind=kind if kind == devices.EMULATED else lane,
        mode=wire.Mode.TEST,
        skip_sanitizer=True,
    )
    submission = Submission(
        submission_id=NAME, new=kernel, problem_digest=NAME, state=SubmissionState.RUNNING, create_time=datetime.now(UTC)
    )
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
    return "".join(text.strip().splitlines()[-1:])[:SHOWN_CHARS]
