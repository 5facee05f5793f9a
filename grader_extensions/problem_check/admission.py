"""Asks whether a problem tells right answers from wrong ones, before anything is submitted to it.

The problem's code is executed by `judge/check.py`: in a box (`check_box`), or for a trusted problem in a process of
our own user. Both end with the check.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from grader import devices
from grader.cli.output import print_note
from grader.dispatch.gpus import Gpu
from grader.dispatch.lanes import END_S, judge_environment
from grader.errors import JudgeBroken
from grader.isolation import BoxExit
from grader.model import Problem
from grader.views.sanitize import one_line
from grader_extensions.problem_check.check_box import REPORT_LIMIT_BYTES, CheckBox, CheckReport
from sandbox.protocol import wire
from sandbox.protocol.signatures import C_TYPES
from sandbox.protocol.wire import BoxCause, FindingOutcome

DESCRIBE_BUDGET_S = 20.0  # of one problem; a second on an idle machine
TENSOR_LIMIT, RANK_LIMIT, SIZE_LIMIT, REASON_CHARS = 128, 8, 2**62, 300
FAILURE_LIMIT = 10  # boxes in a row of which none came to the end of one problem
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,79}")


def descriptions(content: bytes) -> dict[str, wire.Described]:
    """The descriptions in what a box has written, by the problems' digests. Lines that are none, or are not plain, are passed over."""
    return {message.digest: message for message in _messages(content) if isinstance(message, wire.Described) and is_sane(message)}


def is_sane(description: wire.Described) -> bool:
    """Return whether names are C names, dtypes known and numbers in range: a description holds whatever a file's author wrote."""
    tensors = (*description.inputs, *description.outputs, *description.weights)
    names = [tensor.name for tensor in tensors]
    ranks = {tensor.name: len(tensor.shape) for tensor in (*description.inputs, *description.outputs)}
    return (
        0 < len(description.outputs) <= len(tensors) <= TENSOR_LIMIT
        and len(set(names)) == len(names)
        and all(NAME.fullmatch(name) for name in (*names, *description.axes))
        and set(names).isdisjoint(description.axes)
        and all(0 <= size < SIZE_LIMIT for size in description.axes.values())
        and all(tensor.dtype in C_TYPES and tensor.distribution == wire.Distribution() for tensor in tensors)
        and all(len(tensor.shape) <= RANK_LIMIT and all(axis in description.axes for axis in tensor.shape) for tensor in tensors)
        and all(
            len(strides) == ranks.get(name) and all(0 <= stride < SIZE_LIMIT for stride in strides)
            for name, strides in description.strides.items()
        )
        and description.obstacle == one_line(description.obstacle, most_chars=REASON_CHARS)
    )


async def describe(problems: Sequence[Problem], box: CheckBox, budget_s: float) -> dict[str, wire.Described]:
    """Learn the arguments of problems, by their digests, for about budget_s together. What could not be learned is missing: a problem that
    ends the process, or takes its time, is passed over. JudgeBroken where no box can be had, or none can run a problem."""
    by_digest: dict[str, wire.Described] = {}
    waiting, left_s, failures = list(problems), budget_s, 0
    while waiting and left_s > 0 and failures < FAILURE_LIMIT:
        jobs = [
            wire.AdmissionJob(job_id=problem.digest, problem=problem.spec, budget_s=min(DESCRIBE_BUDGET_S, left_s), describe_only=True)
            for problem in waiting
        ]
        report = await box.run(jobs, None, left_s + PATIENCE_S)
        messages = list(_messages(report.content))
        if (broken := next((message for message in messages if isinstance(message, wire.Broken) and not message.job_id), None)) is not None:
            raise JudgeBroken(one_line(broken.message, most_chars=REASON_CHARS))
        by_digest |= descriptions(report.content)
        finished = {message.job_id for message in messages if isinstance(message, wire.Finished)}
        described_count = sum(problem.digest in finished for problem in waiting)
        waiting = waiting[described_count + 1 :]  # the one after those ended the process
        left_s -= report.ended.wall_ns / 1e9
        failures = 0 if described_count else failures + 1
    return by_digest


def _messages(content: bytes) -> Iterator[object]:
    for line in content.splitlines():
        with contextlib.suppress(wire.WireError):
            yield wire.decode(line)


BUDGET_S = 30.0
# Beyond the budget: importing torch, opening the device, and a reference that its own process can't end (`time_limit` in judge/check.py).
PATIENCE_S = 120.0
NOTICE_S = 30.0  # so often a check that takes long is said to go on
FINDING_LIMIT, MESSAGE_LIMIT_CHARS = 20_000, 2_000  # of what a box says
CHECK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_ -]{0,119}")  # an input's name is part of some
CAUSES = {
    BoxCause.OUTPUT_LIMIT: "prints without end",
    BoxCause.PROCESS_LIMIT: "starts more processes than the box may have",
    BoxCause.SANDBOX_VIOLATION: "makes a system call that is not allowed in a box",
}
SMALLER = "make the problem smaller (--set NAME=VALUE for a kernelbench file)"
COMMAND = (sys.executable, "-m", "grader_extensions.problem_check.judge.check")


class AdmissionOutcome(StrEnum):
    """Result of a check."""

    ADMITTED = "admitted"
    WARNED = "warned"  # admitted, with warnings
    UNCHECKED = "unchecked"  # there was not enough memory or time for any of its workloads
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Findings about a problem, check by check. described: what its code says of its arguments, where its files do not."""

    problem_id: str
    digest: str
    findings: tuple[wire.Finding, ...]
    described: wire.Described | None = None

    @property
    def outcome(self) -> AdmissionOutcome:
        """A workload counts only where it was checked to the end."""
        examined = {finding.workload_id for finding in self.findings if finding.outcome is FindingOutcome.PASSED}
        if self.refusals:
            return AdmissionOutcome.REFUSED
        if not examined - {finding.workload_id for finding in self.left_out}:
            return AdmissionOutcome.UNCHECKED
        return AdmissionOutcome.WARNED if self.warnings else AdmissionOutcome.ADMITTED

    @property
    def refusals(self) -> tuple[wire.Finding, ...]:
        """Why it is not admitted."""
        return tuple(finding for finding in self.findings if finding.outcome is FindingOutcome.FAILED)

    @property
    def warnings(self) -> tuple[wire.Finding, ...]:
        """Return what wrong kernel could pass although it is admitted."""
        return tuple(finding for finding in self.findings if finding.outcome is FindingOutcome.WARNING)

    @property
    def left_out(self) -> tuple[wire.Finding, ...]:
        """Which workloads were not checked, or not to the end, and why."""
        return tuple(
            finding for finding in self.findings if finding.outcome is FindingOutcome.UNKNOWN and finding.check in ("time", "fits")
        )

    @property
    def admitted(self) -> bool:
        """Return whether submissions may be made to it: something was checked, and nothing failed."""
        return self.outcome in (AdmissionOutcome.ADMITTED, AdmissionOutcome.WARNED)


async def check(
    problem: Problem,
    gpu: Gpu | None = None,
    budget_s: float = BUDGET_S,
    patience_s: float = PATIENCE_S,
    *,
    notice_s: float = NOTICE_S,
    waiting: Callable[[str], None] = print_note,
    box: CheckBox | None = None,
) -> Admission:
    """Check a problem, on the emulated device where gpu is None: at its workloads for other devices too, as far as budget_s goes.

    A GPU must not be one that a server grades on. waiting: called every notice_s until its end. JudgeBroken where the check itself fails.
    box: where the problem's code runs; None: as our own user, for a problem that is trusted.
    """
    limit_s = budget_s + patience_s
    job = wire.AdmissionJob(job_id="check", problem=problem.spec, budget_s=budget_s)
    with _announced(problem.problem_id, limit_s, notice_s, waiting):
        report = await (_trusted(job, gpu, limit_s) if box is None else box.run([job], gpu, limit_s))
    findings, described = reported(report, problem.spec, budget_s), descriptions(report.content).get(problem.digest)
    return Admission(problem_id=problem.problem_id, digest=problem.digest, findings=tuple(findings), described=described)


def reported(report: CheckReport, problem: wire.ProblemSpec, budget_s: float, *, limit: int = FINDING_LIMIT) -> list[wire.Finding]:
    """Return the findings of a report. Its reference may have written them itself, so each is bounded and free of control characters.

    JudgeBroken where the report says that the check itself failed.
    """
    findings: list[wire.Finding] = []
    workload_ids = {"", *(workload.workload_id for workload in problem.workloads)}
    for line in report.content.splitlines():
        try:
            statement = wire.decode(line)
        except wire.WireError:
            break
        match statement:
            case wire.Finished():
                return findings
            case wire.Described():  # read by `descriptions`
                continue
            case wire.Broken():
                raise JudgeBroken(one_line(statement.message, most_chars=MESSAGE_LIMIT_CHARS))
            case wire.Finding() if (
                statement.workload_id in workload_ids and CHECK_NAME.fullmatch(statement.check) and len(findings) < limit
            ):
                findings.append(replace(statement, message=one_line(statement.message, most_chars=MESSAGE_LIMIT_CHARS)))
            case _:
                break
    # The last workload that something was said of may be the one that was not checked to the end.
    workload_id, outcome, ended = findings[-1].workload_id if findings else "", FindingOutcome.UNKNOWN, report.ended
    if report.too_slow:
        check = "time"
        text = f"not checked to the end: it was not done within {budget_s:.0f} s; {SMALLER}, or give it more time (--budget)"
    elif ended.cause is BoxCause.MEMORY_LIMIT:
        check, text = "fits", f"not checked to the end: the reference takes more memory than the box has; {SMALLER}"
    else:
        check, workload_id, outcome = "ends", "", FindingOutcome.FAILED
        output = one_line(ended.output.decode(errors="replace").strip()[-300:])
        detail = f": {output}" if output and ended.exit_code else ""
        text = f"the process that ran the reference ended with {ended.exit_code} and left no whole report{detail}"
        text = f"{text}; does it take all memory, or end the process?"
        if ended.cause in CAUSES:
            text = f"the reference {CAUSES[ended.cause]}; the check ended without a result"
    return [*findings, wire.Finding(check=check, workload_id=workload_id, outcome=outcome, message=text)]


async def _trusted(job: wire.AdmissionJob, gpu: Gpu | None, limit_s: float) -> CheckReport:
    own_gpu = {} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu.uuid, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    with tempfile.TemporaryDirectory(prefix="problem-check-") as directory:
        jobs, findings = Path(directory) / "jobs", Path(directory) / "findings"
        jobs.write_bytes(wire.encode(job))
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            devices.EMULATED if gpu is None else gpu.kind,
            jobs,
            findings,
            stdin=asyncio.subprocess.PIPE,  # by which it sees that we are gone
            stdout=asyncio.subprocess.DEVNULL,  # what a reference prints; what matters is in the findings
            stderr=asyncio.subprocess.DEVNULL,
            env={**judge_environment(os.environ, None, None), **own_gpu},
            start_new_session=True,
        )
        cause = BoxCause.EXITED
        try:
            async with asyncio.timeout(limit_s):
                await process.wait()
        except TimeoutError:
            cause = BoxCause.WALL_LIMIT
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), END_S)
        code = process.returncode or 0
        ended = BoxExit(cause=cause, exit_code=code, signal=-code if code < 0 else None)
        return CheckReport(content=findings.read_bytes()[:REPORT_LIMIT_BYTES] if findings.exists() else b"", ended=ended)


@contextlib.contextmanager
def _announced(problem_id: str, limit_s: float, notice_s: float, waiting: Callable[[str], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    due: asyncio.TimerHandle

    def tell() -> None:
        nonlocal due
        waiting(f"still checking {problem_id!r}: {loop.time() - begun_s:.0f} s of at most {limit_s:.0f} s")
        due = loop.call_later(notice_s, tell)

    due = loop.call_later(notice_s, tell)
    try:
        yield
    finally:
        due.cancel()
