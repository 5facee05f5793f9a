"""Examines a problem at each of its workloads that there is memory and time for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from sandbox.devices import Device
from sandbox.judge.admission.attempts import DRAWS, FAILED, UNKNOWN, WARNING, Draws, controls, finding, try_mutant
from sandbox.judge.admission.idle import Idle
from sandbox.judge.admission.kinds import accepted_everywhere, narrow_columns
from sandbox.judge.admission.mutants import mutants
from sandbox.judge.references import ReferenceFailed, ReferenceTooLarge, Task
from sandbox.judge.run.placement import memory_bytes
from sandbox.protocol import wire

INPUT_FACTOR, OUTPUT_FACTOR = 10, 40  # what a byte of the inputs and of the outputs takes here: draws, copies, double, masks
MEMORY_SHARE = 0.7
GUESS_FACTOR = 4.0  # a workload's time is measured unless what the last one took says that it is so far out of reach
SMALL_BYTES = 16 << 20  # what is smaller takes no less time
MEMORY_VARIABLE = "GRADER_CHECK_MEMORY_BYTES"  # what the box has, where there is one
ELSEWHERE = "make the workload smaller, or check on a larger device"
MORE_TIME = "make the workload smaller, or give the check more time with --budget"


def examine(task: Task, device: Device, budget_s: float, clock: Callable[[], float] = time.monotonic) -> Iterator[wire.Finding]:
    """Each workload that there is memory and time for, the small ones first, and then all of them together."""
    examiner = _Examiner(task=task, device=device, end_s=clock() + budget_s, clock=clock)
    for workload in sorted(task.spec.workloads, key=lambda one: working_bytes(task.spec, one)):
        for one in examiner.examine(workload):
            examiner.seen.append(one)
            yield one
    yield from examiner.conclude()


def working_bytes(spec: wire.ProblemSpec, workload: wire.Workload) -> int:
    """How much memory checking a workload takes, the reference's own apart."""
    inputs, outputs = (sum(memory_bytes(one, workload) for one in tensors) for tensors in (spec.inputs, spec.outputs))
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
    clock: Callable[[], float]
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
            share = f"{MEMORY_SHARE * free / 1e9:.3g} GB, which is {MEMORY_SHARE:.0%} of the {free / 1e9:.3g} GB that are free"
            yield finding("fits", workload, UNKNOWN, f"not checked: it would take {needed / 1e9:.3g} GB, and may take {share}; {ELSEWHERE}")
            return
        try:
            yield from self._examine(workload, needed)
        except torch.AcceleratorError:  # the device is gone with it, and with it this process
            raise
        except Exception as error:  # noqa: BLE001  the problem's own code: whatever it raises, its author has to know
            if is_out_of_memory(error):
                yield finding("fits", workload, UNKNOWN, f"not checked: there is not enough memory for it here; {ELSEWHERE}")
            else:
                text = str(error) if isinstance(error, ReferenceFailed) else f"its comparison raised {type(error).__name__}: {error}"
                yield finding("runs", workload, FAILED, f"{text}; fix the reference, or the distributions of its inputs")

    def conclude(self) -> Iterator[wire.Finding]:
        """What is to be said of all workloads together."""
        if not self.done and not any(one.outcome is FAILED for one in self.seen):
            yield wire.Finding(check="fits", workload_id="", outcome=UNKNOWN, message=f"no workload could be checked; {ELSEWHERE}")
        for mutant in mutants(self.task):
            outcomes = {one.outcome for one in self.seen if one.check == mutant.check}
            if mutant.vital and outcomes == {UNKNOWN}:
                text = f"{mutant.cheat} gives the right answer at every workload; {mutant.remedy}"
                yield wire.Finding(check=mutant.check, workload_id="", outcome=FAILED if mutant.needs_no_input else WARNING, message=text)
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
        begun_s = self.clock()
        draws = Draws(task=self.task, workload=workload, device=self.device)
        case, drawn_s = draws[0], self.clock()
        found = list(controls(case))
        ended_s = self.clock()
        # Mostly comparing, of which the controls did three.
        todo = list(mutants(self.task))
        expected_s = (DRAWS - 1) * (drawn_s - begun_s) + len(todo) * (ended_s - drawn_s) / 3
        self.rate = (ended_s - begun_s + expected_s) / max(size, SMALL_BYTES)
        if self.done and self._too_long(expected_s):  # the first one is tried as far as the time goes: the telling mutants come first
            yield self._slow(workload, expected_s)
            return
        yield from found
        if any(one.outcome is FAILED for one in found):  # what judges a right answer wrong says nothing of a wrong one
            return
        for count, mutant in enumerate(todo):
            if self._too_long(0.0):
                tried = f"{count} of {len(todo)} wrong answers were tried, and all would take about {expected_s:.0f} s"
                yield finding("time", workload, UNKNOWN, f"not checked to the end: the time is over, {tried}; {MORE_TIME}")
                return
            yield from try_mutant(mutant, draws)
        self.idle.see(draws[0], draws[1])
        self.done += 1
        self.examined.add(workload.workload_id)

    def _too_long(self, expected_s: float) -> bool:
        return self.clock() + expected_s > self.end_s

    def _slow(self, workload: wire.Workload, expected_s: float) -> wire.Finding:
        left_s = max(0.0, self.end_s - self.clock())
        text = f"not checked: it would take {expected_s:.0f} s here, and {left_s:.0f} s are left; {MORE_TIME}"
        return finding("time", workload, UNKNOWN, text)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Whether this machine's memory was the reason, which says nothing of the problem."""
    while error is not None:
        if isinstance(error, (MemoryError, torch.OutOfMemoryError, ReferenceTooLarge)) or "can't allocate memory" in str(error):
            return True
        error = error.__cause__
    return False
