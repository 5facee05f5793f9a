"""Examines a problem at each of its workloads that there is memory and time for.

The right answer has to pass, and every mutant has to be rejected at some workload of each kind of device. Whatever changes nothing at any
draw can be left out: an input that is always the same, such as a weight of ones; and an operation of the reference that gives back its
operand, such as the rectifier of positive values. Guards (`+ eps`, `clamp`) are meant to do nothing most of the time, so scalars and clamps
do not count.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from grader_extensions.problem_check.judge.case import AdmissionCase, equal
from grader_extensions.problem_check.judge.mutants import Mutant, mutants
from grader_extensions.problem_check.judge.numerics import FIRST_COLUMNS
from sandbox.devices import Device
from sandbox.judge.inputs import shape_of
from sandbox.judge.references import ReferenceFailed, ReferenceTooLarge, Task, Tensors, native
from sandbox.judge.references.dispatch_mode import DispatchMode
from sandbox.judge.tolerance import is_narrow, numbers
from sandbox.judge.trial import memory_bytes
from sandbox.protocol import wire
from sandbox.protocol.devices import DEVICES, DeviceKind

TILE = 16
_OF_ONE = frozenset(("abs", "elu", "gelu", "hardtanh", "leaky_relu", "relu", "silu", "sort", "tril", "triu"))
_OF_TWO = frozenset(("add", "bmm", "div", "mm", "mul", "sub"))
PASSED, FAILED = wire.FindingOutcome.PASSED, wire.FindingOutcome.FAILED
WARNING, UNKNOWN = wire.FindingOutcome.WARNING, wire.FindingOutcome.UNKNOWN
NATIVE = native.NAME  # of whose problems everything can be asked: their author is the one who checks them
DRAWS = 3  # a mutant has to get through all of them, as a submission through its trials
INPUT_FACTOR, OUTPUT_FACTOR = 10, 40  # what a byte of the inputs and of the outputs takes here: draws, copies, double, masks
MEMORY_SHARE = 0.7
GUESS_FACTOR = 4.0  # a workload's time is measured unless what the last one took says that it is so far out of reach
SMALL_BYTES = 16 << 20  # what is smaller takes no less time
MEMORY_VARIABLE = "GRADER_CHECK_MEMORY_BYTES"  # what the box has, where there is one
ELSEWHERE = "make the workload smaller, or check on a larger device"
MORE_TIME = "make the workload smaller, or give the check more time with --budget"


class EffectiveMutants:
    """Changes of a problem, and whether one had an effect at some draw of any workload."""

    def __init__(self, spec: wire.ProblemSpec) -> None:
        self._spec = spec
        self._done: dict[str, bool] = {}  # operation, such as "relu" or "mul 2": whether it has ever done something
        self._same = [tensor.distribution.kind == "constant" and bool(tensor.shape) for tensor in spec.inputs]

    def see(self, case: AdmissionCase, second: AdmissionCase) -> None:
        """Take two draws of one workload into account."""
        for draw in (case, second):
            watch = _IdleMode()
            with watch, suppress(ReferenceFailed):  # one that can't be watched has run without before
                draw.answer(draw.inputs)
            for operation, changed in watch.changed.items():
                self._done[operation] = self._done.get(operation, False) or changed
        for index, (mine, theirs) in enumerate(zip(case.inputs, second.inputs, strict=True)):
            self._same[index] &= mine.is_floating_point() and equal(mine, theirs)

    def findings(self) -> Iterator[wire.Finding]:
        """Yield the findings once every workload has been seen. A published set is as it is: there it is a warning."""
        is_native = self._spec.format == NATIVE
        outcome = FAILED if is_native else WARNING
        for tensor, same in zip(self._spec.inputs, self._same, strict=True):
            if same:
                text = f"{tensor.name!r} is the same in every trial, so that a kernel need not read it; draw it from another distribution"
                yield finding(f"input {tensor.name}", None, outcome, text)
        for operation in (operation for operation, changed in self._done.items() if not changed):
            text = f"the reference's {operation!r} changes nothing at any workload, so that a kernel need not do it; "
            text += "take it out of the reference, or draw inputs on which it does something"
            yield finding(f"idle {operation}", None, outcome, text)
        sizes = {size for workload in self._spec.workloads for size in workload.axes.values()}
        if is_native and all(size == 1 or size % TILE == 0 for size in sizes):
            text = (
                f"{TILE} divides every size at every workload: a kernel without the tails of its tiles is accepted; add odd sizes, hidden"
            )
            yield finding("sizes", None, WARNING, text)


class _IdleMode(DispatchMode):
    """Runs operations as they are, and notes of some whether the result is another than what went in."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: dict[str, bool] = {}
        self._count: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        plain = name.removesuffix("_")
        operands = _operands(plain, args)
        copies = [operand.clone() for operand in operands] if name != plain else operands  # relu_ writes to what it is given
        result = function(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple) else result
        if copies and isinstance(first, torch.Tensor) and first.numel() > 1:
            self._count[plain] += 1
            number = self._count[plain]
            operation = plain if number == 1 else f"{plain} {number}"
            self.changed[operation] = not any(operand.shape == first.shape and torch.equal(operand, first) for operand in copies)
        return result


def _operands(name: str, args: tuple[Any, ...]) -> Tensors:
    """The tensors that the result is compared with; none where the operation does not count."""
    wanted = 1 if name in _OF_ONE else 2 if name in _OF_TWO else 0
    operands = [
        argument for argument in args[:wanted] if isinstance(argument, torch.Tensor) and argument.dim() and argument.is_floating_point()
    ]
    return operands if len(operands) == wanted else []


Draws = Callable[[int], AdmissionCase]  # of a workload, each made at its first use


def controls(case: AdmissionCase) -> Iterator[wire.Finding]:
    """Check the right answer itself."""

    def control(check: str, passed: bool, text: str, failure: wire.FindingOutcome = FAILED) -> wire.Finding:
        return finding(check, case.workload, PASSED if passed else failure, "" if passed else text)

    own_rule = case.task.compare is not None  # it says which infinities are right
    floats = [numbers(tensor) if is_narrow(tensor.dtype) else tensor for tensor in case.right if tensor.is_floating_point()]
    odd = sum(int((tensor.isnan() if own_rule else ~tensor.isfinite()).sum()) for tensor in floats)
    text = f"the right answer has {odd} elements that are {'NaN' if own_rule else 'NaN or infinite'}; narrow the inputs (scale, low, high)"
    yield control("finite", not odd, text)
    text = "the reference answers the same inputs in two ways; take randomness and state out of it, or loosen the tolerance"
    yield control("repeatable", case.accepts(case.answer(case.inputs)), text)
    text = "the reference's own answer is rejected; loosen the tolerance, or fix the comparison"
    yield control("reference", case.accepts(case.right), text)
    if case.exact is not None:
        pairs = zip(case.exact, case.right, strict=True)
        rounded = case.accepts([exact.to(right.dtype) if right.is_floating_point() else right for exact, right in pairs])
        text = "an answer computed in float64 and rounded is rejected, and with it every exact kernel; loosen the tolerance"
        yield control("float64", rounded, text, FAILED if case.task.spec.format == NATIVE else WARNING)


def try_mutant(mutant: Mutant, draws: Draws) -> Iterator[wire.Finding]:
    """A mutant at every draw until one rejects it; nothing where it can't be made."""
    workload, task, right = draws(0).workload, draws(0).task, 0
    spec = task.spec
    if mutant.lowers_precision and (workload.tolerance or spec.tolerance).allow_lower_precision:
        yield finding(mutant.check, workload, UNKNOWN, "allowed: lower precision may be right here")
        return
    for index in range(DRAWS):
        case = draws(index)
        outputs = mutant.make(case, draws((index + 1) % DRAWS))
        if outputs is None:
            return
        if case.is_right(outputs):
            right += 1
        elif not case.accepts(outputs):
            yield finding(mutant.check, workload, PASSED, "")
            return
    if right and not mutant.right_by_inputs:
        yield finding(mutant.check, workload, UNKNOWN, "cannot tell: it is the right answer here")
    elif mutant.one_rejects:
        yield finding(mutant.check, workload, UNKNOWN, mutant.accepted_here)
    elif mutant.own_rule_may and task.compare is not None:
        yield finding(mutant.check, workload, WARNING, f"{mutant.cheat} is accepted by the format's own rule")
    else:
        # A published set is as it is: only what is no task at all is refused, an answer that needs no input.
        outcome = FAILED if spec.format == NATIVE or mutant.needs_no_input else WARNING
        yield finding(mutant.check, workload, outcome, f"{mutant.cheat} would be accepted; {mutant.remedy}")


def finding(check: str, workload: wire.Workload | None, outcome: wire.FindingOutcome, message: str) -> wire.Finding:
    """Return the finding of a check at a workload; None: at all of them."""
    return wire.Finding(check=check, workload_id=workload.workload_id if workload else "", outcome=outcome, message=message)


def examine(task: Task, device: Device, budget_s: float, clock: Callable[[], float] = time.monotonic) -> Iterator[wire.Finding]:
    """Each workload that there is memory and time for, the small ones first, and then all of them together."""
    spec, examiner, findings = task.spec, _Examiner(task, device, clock() + budget_s, clock), list[wire.Finding]()
    for workload in sorted(spec.workloads, key=lambda workload: working_bytes(spec, workload)):
        for result in examiner.examine(workload):
            findings.append(result)
            yield result
    if not examiner.examined and not any(result.outcome is FAILED for result in findings):
        yield finding("fits", None, UNKNOWN, f"no workload could be checked; {ELSEWHERE}")
    for mutant in mutants(task):
        outcomes = {result.outcome for result in findings if result.check == mutant.check}
        if mutant.vital and outcomes == {UNKNOWN}:
            text = f"{mutant.cheat} gives the right answer at every workload; {mutant.remedy}"
            yield finding(mutant.check, None, FAILED if mutant.needs_no_input else WARNING, text)
        if mutant.one_rejects:
            yield from accepted_everywhere(mutant, spec, findings, examiner.examined)
    yield from narrow_columns(spec)
    if examiner.examined:
        yield from examiner.idle.findings()


def working_bytes(spec: wire.ProblemSpec, workload: wire.Workload) -> int:
    """How much memory checking a workload takes, the reference's own apart."""
    inputs, outputs = (sum(memory_bytes(tensor, workload) for tensor in tensors) for tensors in (spec.inputs, spec.outputs))
    return INPUT_FACTOR * inputs + OUTPUT_FACTOR * outputs


def free_bytes(device: Device) -> int:
    """How much memory there is for it."""
    if (on_device := device.free_bytes()) is not None:
        return on_device
    lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    return min(available, int(os.environ.get(MEMORY_VARIABLE, available)))


class _Examiner:
    """A problem under examination."""

    def __init__(self, task: Task, device: Device, end_s: float, clock: Callable[[], float]) -> None:
        self.task, self.device, self.end_s, self.clock = task, device, end_s, clock
        self.examined, self.idle = set[str](), EffectiveMutants(task.spec)  # names of workloads
        self.rate = 0.0  # seconds a byte, as the last workload took

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

    def _examine(self, workload: wire.Workload, size: int) -> Iterator[wire.Finding]:
        guessed_s = self.rate * size
        if self._too_long(guessed_s / GUESS_FACTOR):
            yield self._slow(workload, guessed_s)
            return
        begun_s = self.clock()
        draws = cache(partial(AdmissionCase.draw, self.task, workload, device=self.device))
        case, drawn_s = draws(0), self.clock()
        findings = list(controls(case))
        ended_s = self.clock()
        # Mostly comparing, of which the controls did three.
        todo = list(mutants(self.task))
        expected_s = (DRAWS - 1) * (drawn_s - begun_s) + len(todo) * (ended_s - drawn_s) / 3
        self.rate = (ended_s - begun_s + expected_s) / max(size, SMALL_BYTES)
        if self.examined and self._too_long(expected_s):  # the first one is tried as far as the time goes: the telling mutants come first
            yield self._slow(workload, expected_s)
            return
        yield from findings
        if any(result.outcome is FAILED for result in findings):  # what judges a right answer wrong says nothing of a wrong one
            return
        for count, mutant in enumerate(todo):
            if self._too_long(0.0):
                tried = f"{count} of {len(todo)} wrong answers were tried, and all would take about {expected_s:.0f} s"
                yield finding("time", workload, UNKNOWN, f"not checked to the end: the time is over, {tried}; {MORE_TIME}")
                return
            yield from try_mutant(mutant, draws)
        self.idle.see(draws(0), draws(1))
        self.examined.add(workload.workload_id)

    def _too_long(self, expected_s: float) -> bool:
        return self.clock() + expected_s > self.end_s

    def _slow(self, workload: wire.Workload, expected_s: float) -> wire.Finding:
        left_s = max(0.0, self.end_s - self.clock())
        text = f"not checked: it would take {expected_s:.0f} s here, and {left_s:.0f} s are left; {MORE_TIME}"
        return finding("time", workload, UNKNOWN, text)


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether this machine's memory was the reason, which says nothing of the problem."""
    while error is not None:
        if isinstance(error, (MemoryError, torch.OutOfMemoryError, ReferenceTooLarge)) or "can't allocate memory" in str(error):
            return True
        error = error.__cause__
    return False


def accepted_everywhere(
    mutant: Mutant, spec: wire.ProblemSpec, findings: Iterable[wire.Finding], examined: set[str]
) -> Iterator[wire.Finding]:
    """A finding for the first kind of device on which no workload rejects the mutant, and one accepts it.

    It refuses a native problem whose workloads on that device were all examined. Another format's set is published as it is, and an
    unexamined workload might reject the mutant: there it is a warning.
    """
    about_mutant = [result for result in findings if result.check == mutant.check]
    accepting = {result.workload_id for result in about_mutant if result.message == mutant.accepted_here}
    rejecting = {result.workload_id for result in about_mutant if result.outcome is PASSED}
    for kind in DeviceKind:
        names = {workload.workload_id for workload in _workloads(spec, kind)}
        if names & accepting and not names & rejecting:
            complete = names <= examined
            scope = "" if complete else " that was checked"
            text = f"{mutant.cheat} would be accepted at every workload{scope} ({kind}); {mutant.remedy}"
            yield finding(mutant.check, None, FAILED if complete and spec.format == NATIVE else WARNING, text)
            return


def narrow_columns(spec: wire.ProblemSpec) -> Iterator[wire.Finding]:
    """A warning for the emulated device where its outputs are narrower than those on a GPU."""
    emulated, gpu = (
        max(_columns(spec, kind) for kind, info in DEVICES.items() if info.needs_gpu_access is on_gpu) for on_gpu in (False, True)
    )
    for count in FIRST_COLUMNS:
        if 0 < emulated <= count < gpu:
            text = f"no output has more than {count} columns on the emulated device, and {gpu} on a GPU; add a wider workload"
            yield finding("columns", None, WARNING, text)
            return


def _workloads(spec: wire.ProblemSpec, kind: str) -> list[wire.Workload]:
    return [workload for workload in spec.workloads if workload.device_kind in ("", kind)]


def _columns(spec: wire.ProblemSpec, kind: str) -> int:
    shapes = [shape_of(output, workload.axes) for workload in _workloads(spec, kind) for output in spec.outputs]
    return max((shape[-1] for shape in shapes if shape), default=0)
