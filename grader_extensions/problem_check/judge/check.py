"""Checks that a problem tells right answers from wrong ones.

`python -m grader_extensions.problem_check.judge.check KIND JOBS FINDINGS`: files of JSON lines. The second one is made here.

A process of its own, as a judge is: it executes the problem's reference, and nothing that anybody submitted.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import torch

from grader_extensions.problem_check.judge.examination import FAILED, UNKNOWN, examine, finding, free_bytes, is_out_of_memory
from sandbox.devices import Device, open_device
from sandbox.judge import end_with_parent
from sandbox.judge.references import ReferenceFailed, ReferenceTooLarge, blamed, half_of, load_task, register
from sandbox.protocol import wire

GRACE_SHARE, LEAST_GRACE_S = 0.2, 1.0  # of the budget: how much longer the process may take to find that the time is over


def admit(
    spec: wire.ProblemSpec, device: Device, budget_s: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[wire.Finding | wire.Described]:
    """Every finding of a problem, whose code is executed here, after what was learned of its arguments, if its file does not say that."""
    end_s = clock() + budget_s
    try:
        task = load_task(spec, device.TORCH)
    except ReferenceFailed as failure:
        if isinstance(failure, ReferenceTooLarge):
            yield from arguments_of(spec, device)
        if is_out_of_memory(failure):
            yield finding("fits", None, UNKNOWN, f"not checked: {failure}")
        else:
            yield finding("runs", None, FAILED, f"{failure}; fix the reference")
        return
    if task.described is not None:
        yield task.described
    yield from examine(task, device, end_s - clock(), clock)


def arguments_of(spec: wire.ProblemSpec, device: Device) -> Iterator[wire.Described]:
    """Describe a problem's arguments, without making anything large; nothing where its files say it all, or where that fails."""
    with suppress(ReferenceFailed), blamed("the file"):
        if (describe := getattr(half_of(spec.format), "describe", None)) is not None:
            yield describe(spec, device.TORCH)


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """End this process by SIGALRM after so long, wherever it is then: the host sees the signal, and keeps what was reported before."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def main() -> None:
    """Examine problem after problem."""
    end_with_parent(0)
    kind, jobs, findings = sys.argv[1:]
    with open(findings, "xb", buffering=0, opener=partial(os.open, mode=0o644)) as statement:
        _examine(kind, Path(jobs), statement)
    os._exit(0)  # threads that a reference has left do not keep anybody waiting


def _examine(kind: str, jobs: Path, statement: BinaryIO) -> None:
    torch.backends.cudnn.allow_tf32 = False
    try:
        device = open_device(kind)
        if device.TORCH == "cpu":
            # Threads that wait for a busy core take many times longer than fewer threads.
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // 2))
            # Memory that is not there is then an error in the reference, and not the end of some process.
            resource.setrlimit(resource.RLIMIT_DATA, (free_bytes(device), resource.RLIM_INFINITY))
    except Exception as error:  # noqa: BLE001  whatever it is, it has to be reported
        statement.write(wire.encode(wire.Broken(job_id="", message=f"the device can't be used: {type(error).__name__}: {error}")))
        return
    for line in jobs.read_bytes().splitlines():
        job: wire.AdmissionJob = wire.decode(line)
        try:
            with time_limit(job.budget_s + max(LEAST_GRACE_S, GRACE_SHARE * job.budget_s)):
                if job.reference_module:
                    register(job.problem.format, job.reference_module)
                answers = arguments_of(job.problem, device) if job.describe_only else admit(job.problem, device, job.budget_s)
                for answer in answers:
                    statement.write(wire.encode(answer))
            statement.write(wire.encode(wire.Finished(job_id=job.job_id)))
        except Exception as error:  # noqa: BLE001  the same, and this process is not to be trusted with another
            traceback.print_exc()
            message = f"the check itself failed: {type(error).__name__}: {error}"
            statement.write(wire.encode(wire.Broken(job_id=job.job_id, message=message)))
            return


if __name__ == "__main__":
    main()
