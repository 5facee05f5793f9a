"""What is tried at one workload: that the right answer passes, and that a mutant does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sandbox.devices import Device
from sandbox.judge.admission.case import AdmissionCase
from sandbox.judge.admission.mutants import Mutant
from sandbox.judge.references import Task, native
from sandbox.protocol import wire

PASSED, FAILED = wire.FindingOutcome.PASSED, wire.FindingOutcome.FAILED
WARNING, UNKNOWN = wire.FindingOutcome.WARNING, wire.FindingOutcome.UNKNOWN
NATIVE = native.NAME  # of whose problems everything can be asked: their author is the one who checks them
DRAWS = 3  # a mutant has to get through all of them, as a submission through its trials


@dataclass(slots=True, kw_only=True)
class Draws:
    """A workload's draws, each made when it is asked for."""

    task: Task
    workload: wire.Workload
    device: Device
    made: list[AdmissionCase] = field(default_factory=list)

    def __getitem__(self, index: int) -> AdmissionCase:
        while len(self.made) <= index:
            self.made.append(AdmissionCase.draw(self.task, self.workload, len(self.made), self.device))
        return self.made[index]


def controls(case: AdmissionCase) -> Iterator[wire.Finding]:
    """What has to hold of the right answer itself."""
    workload = case.workload
    own = case.task.compare is not None  # it says which infinities are right
    odd = sum(int((one.isnan() if own else ~one.isfinite()).sum()) for one in case.right if one.is_floating_point())
    text = f"the right answer has {odd} elements that are {'NaN' if own else 'NaN or infinite'}; narrow the inputs (scale, low, high)"
    yield finding("finite", workload, FAILED if odd else PASSED, text if odd else "")
    agrees = case.accepts(case.answer(case.inputs))
    text = "the reference answers the same inputs in two ways; take randomness and state out of it, or loosen the tolerance"
    yield finding("repeatable", workload, PASSED if agrees else FAILED, "" if agrees else text)
    own_answer = case.accepts(case.right)
    text = "the reference's own answer is rejected; loosen the tolerance, or fix the comparison"
    yield finding("reference", workload, PASSED if own_answer else FAILED, "" if own_answer else text)
    if case.exact is not None:
        strict = case.task.spec.format == NATIVE
        pairs = zip(case.exact, case.right, strict=True)
        rounded = case.accepts([exact.to(right.dtype) if right.is_floating_point() else right for exact, right in pairs])
        text = "an answer computed in float64 and rounded is rejected, and with it every exact kernel; loosen the tolerance"
        yield finding("float64", workload, PASSED if rounded else FAILED if strict else WARNING, "" if rounded else text)


def try_mutant(mutant: Mutant, draws: Draws) -> Iterator[wire.Finding]:
    """A mutant at every draw until one rejects it; nothing where it can't be made."""
    workload, right, spec = draws.workload, 0, draws.task.spec
    if mutant.lowers_precision and (workload.tolerance or spec.tolerance).allow_lower_precision:
        yield finding(mutant.check, workload, UNKNOWN, "allowed: lower precision may be right here")
        return
    for index in range(DRAWS):
        case = draws[index]
        outputs = mutant.make(case, draws[(index + 1) % DRAWS])
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
    elif mutant.own_rule_may and draws.task.compare is not None:
        yield finding(mutant.check, workload, WARNING, f"{mutant.cheat} is accepted by the format's own rule")
    else:
        # A published set is as it is: only what is no task at all is refused, an answer that needs no input.
        outcome = FAILED if spec.format == NATIVE or mutant.needs_no_input else WARNING
        yield finding(mutant.check, workload, outcome, f"{mutant.cheat} would be accepted; {mutant.remedy}")


def finding(check: str, workload: wire.Workload, outcome: wire.FindingOutcome, message: str) -> wire.Finding:
    """What a check found at a workload."""
    return wire.Finding(check=check, workload_id=workload.workload_id, outcome=outcome, message=message)
