"""Whether a problem tells right answers from wrong ones.

`python -m sandbox.judge.admission.check KIND`: jobs in, findings out, as JSON lines.

A process of its own, as a judge is: it executes the problem's reference, and nothing that anybody submitted.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import torch

from sandbox.devices import Device, open_device
from sandbox.judge.admission.case import AdmissionCase
from sandbox.judge.admission.idle import Idle
from sandbox.judge.admission.kinds import accepted_everywhere, narrow_columns
from sandbox.judge.admission.mutants import Mutant, mutants
from sandbox.judge.parent import end_with_parent
from sandbox.judge.references import ReferenceFailed, Task, load_task
from sandbox.judge.run.placement import byte_count
from sandbox.protocol import wire

PASSED, FAILED, UNKNOWN = wire.FindingOutcome.PASSED, wire.FindingOutcome.FAILED, wire.FindingOutcome.UNKNOWN
DRAWS = 3  # a mutant has to get through all of them, as a submission through its trials
INPUT_FACTOR, OUTPUT_FACTOR = 10, 40  # what a byte of the inputs and of the outputs takes here: draws, copies, double, masks
MEMORY_SHARE = 0.7
GUESS_FACTOR = 4.0  # a workload's time is measured unless what the last one took says that it is so far out of reach
SMALL_BYTES = 16 << 20  # what is smaller takes no less time
MEMORY_VARIABLE = "GRADER_CHECK_MEMORY_BYTES"  # what the box has, where there is one
ELSEWHERE = "make the workload smaller, or check on a larger device"


def admit(spec: wire.ProblemSpec, device: Device, budget_s: float) -> Iterator[wire.Finding]:
    """Every finding of a problem, whose code is executed here."""
    try:
        task = load_task(spec, device.TORCH)
    except ReferenceFailed as failure:
        yield wire.Finding(check="runs", workload_id="", outcome=FAILED, message=f"{failure}; fix the reference")
        return
    yield from examine(task, device, budget_s)


def examine(task: Task, device: Device, budget_s: float) -> Iterator[wire.Finding]:
    """Each workload that there is memory and time for, the small ones first, and then all of them together."""
    examiner = _Examiner(task=task, device=device, end_s=time.monotonic() + budget_s)
    for workload in sorted(task.spec.workloads, key=lambda one: working_bytes(task.spec, one)):
        for finding in examiner.examine(workload):
            examiner.seen.append(finding)
            yield finding
    yield from examiner.conclude()


def working_bytes(spec: wire.ProblemSpec, workload: wire.Workload) -> int:
    """How much memory checking a workload takes, the reference's own apart."""
    inputs, outputs = (sum(byte_count(one, workload.axes) for one in tensors) for tensors in (spec.inputs, spec.outputs))
    return INPUT_FACTOR * inputs + OUTPUT_FACTOR * outputs


def free_bytes(device: Device) -> int:
    """How much memory there is for it."""
    if (on_device := device.free_bytes()) is not None:
        return on_device
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    return min(available, int(os.environ.get(MEMORY_VARIABLE, available)))


@dataclass(slots=True, kw_only=True)
class _Examiner:
    """One problem under examination. rate: seconds a byte, as the last workload took."""

    task: Task
    device: Device
    end_s: float
    seen: list[wire.Finding] = field(default_factory=list)
    rate: float = 0.0
    done: int = 0  # workloads
    examined: set[str] = field(default_factory=set)  # their names
    idle: Idle = field(init=False)

    def __post_init__(self) -> None:
        self.idle = Idle(self.task.spec)

    def examine(self, workload: wire.Workload) -> Iterator[wire.Finding]:
        """The findings at one workload."""
        needed, free = working_bytes(self.task.spec, workload), free_bytes(self.device)
        if needed > MEMORY_SHARE * free:
            statement = f"not checked: it would take {needed / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free; {ELSEWHERE}"
            yield _finding("fits", workload, UNKNOWN, statement)
            return
        try:
            yield from self._examine(workload, needed)
        except torch.AcceleratorError:  # the device is gone with it, and with it this process
            raise
        except Exception as error:  # noqa: BLE001  the problem's own code: whatever it raises, its author has to be told
            if _out_of_memory(error):
                yield _finding("fits", workload, UNKNOWN, f"not checked: there is not memory enough for it here; {ELSEWHERE}")
            else:
                text = str(error) if isinstance(error, ReferenceFailed) else f"its comparison raised {type(error).__name__}: {error}"
                yield _finding("runs", workload, FAILED, f"{text}; fix the reference, or the distributions of its inputs")

    def conclude(self) -> Iterator[wire.Finding]:
        """What is to be said of all workloads together."""
        if not self.done and not any(one.outcome is FAILED for one in self.seen):
            yield wire.Finding(check="fits", workload_id="", outcome=FAILED, message=f"no workload could be checked; {ELSEWHERE}")
        for mutant in mutants(self.task):
            outcomes = {one.outcome for one in self.seen if one.check == mutant.check}
            if mutant.vital and outcomes == {UNKNOWN}:
                text = f"{mutant.cheat} gives the right answer at every workload; {mutant.remedy}"
                yield wire.Finding(check=mutant.check, workload_id="", outcome=FAILED, message=text)
            if mutant.one_rejects:
                yield from accepted_everywhere(mutant, self.task.spec, self.seen, self.examined)
        yield from narrow_columns(self.task.spec)
        if self.done:
            yield from self.idle.findings()

    def _examine(self, workload: wire.Workload, size: int) -> Iterator[wire.Finding]:
        guessed_s = self.rate * size
        if self._too_long(guessed_s / GUESS_FACTOR):
            yield self._slow(workload, guessed_s)
            return
        begun_s = time.monotonic()
        draws = _Draws(task=self.task, workload=workload, device=self.device)
        case, drawn_s = draws[0], time.monotonic()
        controls = list(_controls(case))
        ended_s = time.monotonic()
        # Mostly comparing, of which the controls did three.
        todo = list(mutants(self.task))
        expected_s = (DRAWS - 1) * (drawn_s - begun_s) + len(todo) * (ended_s - drawn_s) / 3
        self.rate = (ended_s - begun_s + expected_s) / max(size, SMALL_BYTES)
        if self._too_long(expected_s):
            yield self._slow(workload, expected_s)
            return
        yield from controls
        if any(one.outcome is FAILED for one in controls):  # what judges a right answer wrong says nothing of a wrong one
            return
        for mutant in todo:
            yield from _try(mutant, draws)
        self.idle.see(draws[0], draws[1])
        self.done += 1
        self.examined.add(workload.workload_id)

    def _too_long(self, expected_s: float) -> bool:
        return time.monotonic() + expected_s > self.end_s

    def _slow(self, workload: wire.Workload, expected_s: float) -> wire.Finding:
        left_s = max(0.0, self.end_s - time.monotonic())
        return _finding(
            "time", workload, UNKNOWN, f"not checked: it would take {expected_s:.0f} s here, {left_s:.0f} s are left; {ELSEWHERE}"
        )


@dataclass(slots=True, kw_only=True)
class _Draws:
    """A workload's draws, each made when it is asked for."""

    task: Task
    workload: wire.Workload
    device: Device
    made: list[AdmissionCase] = field(default_factory=list)

    def __getitem__(self, index: int) -> AdmissionCase:
        while len(self.made) <= index:
            self.made.append(AdmissionCase.draw(self.task, self.workload, len(self.made), self.device))
        return self.made[index]


def _controls(case: AdmissionCase) -> Iterator[wire.Finding]:
    """What has to hold of the right answer itself."""
    workload = case.workload
    own = case.task.compare is not None  # it says which infinities are right
    odd = sum(int((one.isnan() if own else ~one.isfinite()).sum()) for one in case.right if one.is_floating_point())
    text = f"the right answer has {odd} elements that are {'NaN' if own else 'NaN or infinite'}; narrow the inputs (scale, low, high)"
    yield _finding("finite", workload, FAILED if odd else PASSED, text if odd else "")
    agrees = case.accepts(case.answer(case.inputs))
    text = "the reference answers the same inputs in two ways; take randomness and state out of it, or loosen the tolerance"
    yield _finding("repeatable", workload, PASSED if agrees else FAILED, "" if agrees else text)
    own_answer = case.accepts(case.right)
    text = "the reference's own answer is rejected; loosen the tolerance, or fix the comparison"
    yield _finding("reference", workload, PASSED if own_answer else FAILED, "" if own_answer else text)
    if case.exact is not None:
        pairs = zip(case.exact, case.right, strict=True)
        rounded = case.accepts([exact.to(right.dtype) if right.is_floating_point() else right for exact, right in pairs])
        text = "an answer computed in float64 and rounded is rejected, and with it every exact kernel; loosen the tolerance"
        yield _finding("float64", workload, PASSED if rounded else FAILED, "" if rounded else text)


def _try(mutant: Mutant, draws: _Draws) -> Iterator[wire.Finding]:
    """A mutant at every draw until one rejects it; nothing where it can't be made."""
    workload, right = draws.workload, 0
    for index in range(DRAWS):
        case = draws[index]
        outputs = mutant.make(case, draws[(index + 1) % DRAWS])
        if outputs is None:
            return
        if case.is_right(outputs):
            right += 1
        elif not case.accepts(outputs):
            yield _finding(mutant.check, workload, PASSED, "")
            return
    if right:
        yield _finding(mutant.check, workload, UNKNOWN, "cannot tell: it is the right answer here")
    elif mutant.one_rejects:
        yield _finding(mutant.check, workload, UNKNOWN, mutant.accepted_here)
    elif mutant.own_rule_may and draws.task.compare is not None:
        yield _finding(mutant.check, workload, UNKNOWN, f"{mutant.cheat} is accepted by the format's own rule")
    else:
        yield _finding(mutant.check, workload, FAILED, f"{mutant.cheat} would be accepted; {mutant.remedy}")


def _finding(check: str, workload: wire.Workload, outcome: wire.FindingOutcome, message: str) -> wire.Finding:
    return wire.Finding(check=check, workload_id=workload.workload_id, outcome=outcome, message=message)


def _out_of_memory(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error):
            return True
        error = error.__cause__
    return False


def main() -> None:
    """Examine problem after problem until standard input ends."""
    end_with_parent(1)
    statement = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a reference prints goes to the log, not among the findings
    torch.backends.cudnn.allow_tf32 = False
    try:
        device = open_device(sys.argv[1])
        if device.TORCH == "cpu":
            # Threads that wait for a busy core take many times longer than fewer threads.
            torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // 2))
            # Memory that is not there is then an error in the reference, and not the end of some process.
            resource.setrlimit(resource.RLIMIT_DATA, (free_bytes(device), resource.RLIM_INFINITY))
    except Exception as error:  # noqa: BLE001  whatever it is, anybody who asked has to be told
        _say(statement, wire.Broken(job_id="", message=f"the device can't be used: {type(error).__name__}: {error}"))
        return
    for line in sys.stdin.buffer:
        job: wire.AdmissionJob = wire.decode(line)
        try:
            for finding in admit(job.problem, device, job.budget_s):
                _say(statement, finding)
            _say(statement, wire.Finished(job_id=job.job_id))
        except Exception as error:  # noqa: BLE001  the same, and this process is not to be trusted with another
            traceback.print_exc()
            _say(statement, wire.Broken(job_id=job.job_id, message=f"the check itself failed: {type(error).__name__}: {error}"))
            return


def _say(statement: BinaryIO, message: wire.Finding | wire.Finished | wire.Broken) -> None:
    statement.write(wire.encode(message))
    statement.flush()


if __name__ == "__main__":
    main()
