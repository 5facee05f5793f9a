"""One run of a kernel under the judge's eyes: poison, publish, go, wait, snapshot; then compare (DESIGN section 3)."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

import torch

from sandbox import wire
from sandbox.gate import Answer, Call, Operation, Status
from sandbox.judge import inputs, poison
from sandbox.judge.placement import Placement, place
from sandbox.judge.references import Reference, ReferenceFailed
from sandbox.judge.runner_link import RunnerLink, Silence
from sandbox.judge.tolerance import Comparison, compare

STIR_S = 10.0
REPEAT_PLACEMENT = 0.5  # chance to use the same pointers again with other values: whoever remembers an answer by pointer is wrong


@dataclass(slots=True)
class Bench:
    """One problem at one workload, as judge and runner see it; remembers the last placement."""

    problem: wire.ProblemSpec
    workload: wire.Workload
    reference: Reference
    placement: Placement | None = None

    def next_placement(self) -> Placement:
        """A fresh placement, or the last one once more."""
        if self.placement is None or secrets.SystemRandom().random() > REPEAT_PLACEMENT:
            self.placement = place(self.problem, self.workload.axes)
        return self.placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run left: private copies only."""

    key: str
    reply: Answer | Silence
    duration_ns: int
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor] = field(default_factory=list)
    unwritten: list[torch.Tensor] = field(default_factory=list)
    inputs_modified: bool = False
    out_of_bounds: bool = False


def run(
    runner: RunnerLink, bench: Bench, operation: Operation, *, poison_allocations: bool, stir: bool, limit_s: float | None = None
) -> Run:
    """Do one run on fresh inputs, within the problem's trial_s unless limit_s says otherwise.

    The clock starts before the inputs are published and stops when the outputs have been read.
    """
    problem, axes = bench.problem, bench.workload.axes
    key = inputs.fresh_key()
    drawn = inputs.draw(problem.inputs, axes, key)
    placement = bench.next_placement()
    arena = runner.arena
    bands = [arena.tensor(begin, "uint8", (end - begin,)) for begin, end in placement.bands]
    guard = torch.frombuffer(bytearray(secrets.token_bytes(8192)), dtype=torch.uint8)
    for band in bands:
        band.copy_(guard[: len(band)])
    targets = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(placement.outputs, problem.outputs, strict=True)]
    bits = [poison.fill(target) for target in targets]
    places = [
        arena.tensor(slot.offset, tensor.dtype, slot.shape) if tensor.shape else None
        for slot, tensor in zip(placement.inputs, problem.inputs, strict=True)
    ]
    if stir:
        stirred = runner.call(Call(operation=Operation.STIR, seed=secrets.randbits(63)), STIR_S)
        if isinstance(stirred, Silence):
            return Run(key=key, reply=stirred, duration_ns=0, inputs=drawn)
    call = _call(operation, placement, drawn, problem, axes, poison_allocations)

    begun = time.perf_counter_ns()
    _publish(places, drawn)
    reply = runner.call(call, problem.trial_s if limit_s is None else limit_s)
    snapshots = [target.clone() for target in targets]
    runner.device.synchronize()
    duration_ns = time.perf_counter_ns() - begun

    modified = any(place is not None and not _same_bytes(place, private) for place, private in zip(places, drawn, strict=True))
    return Run(
        key=key,
        reply=reply,
        duration_ns=duration_ns,
        inputs=drawn,
        outputs=snapshots,
        unwritten=[poison.unwritten(snapshot, one) for snapshot, one in zip(snapshots, bits, strict=True)],
        inputs_modified=modified,
        out_of_bounds=any(not torch.equal(band, guard[: len(band)]) for band in bands),
    )


def _call(
    operation: Operation, placement: Placement, drawn: list[torch.Tensor], problem: wire.ProblemSpec, axes: dict[str, int], poison: bool
) -> Call:
    slots = tuple(
        slot if tensor.shape else type(slot)(offset=0, shape=(), scalar=float(value))
        for slot, tensor, value in zip(placement.inputs, problem.inputs, drawn, strict=True)
    )
    return Call(
        operation=operation,
        inputs=slots,
        outputs=placement.outputs,
        axes=tuple(axes[name] for name in problem.axes),
        poison=poison,
    )


def _publish(places: list[torch.Tensor | None], drawn: list[torch.Tensor]) -> None:
    for target, private in zip(places, drawn, strict=True):
        if target is not None:
            target.copy_(private)


def _same_bytes(left: torch.Tensor, right: torch.Tensor) -> bool:
    return bool(torch.equal(left.contiguous().view(-1).view(torch.uint8), right.contiguous().view(-1).view(torch.uint8)))


def expected(reference: Reference, drawn: list[torch.Tensor], problem: wire.ProblemSpec) -> list[torch.Tensor]:
    """The reference's outputs for private copies of the inputs, checked against what the problem declares."""
    try:
        results = reference([one.clone() for one in drawn])
    except Exception as error:
        raise ReferenceFailed(f"the reference raised {type(error).__name__}: {error}") from error
    if len(results) != len(problem.outputs):
        raise ReferenceFailed(f"the reference returned {len(results)} outputs; problem.toml declares {len(problem.outputs)}")
    return results


def judge_run(done: Run, bench: Bench, phase: wire.TrialPhase, index: int) -> wire.Trial:
    """Draw the fact of a run. The reference is computed only now, when the snapshot is in private memory."""
    workload = bench.workload
    outcome, message = _spoken(done.reply)
    if outcome is not None:
        return wire.Trial(
            workload_id=workload.workload_id,
            hidden=workload.hidden,
            phase=phase,
            index=index,
            key=done.key,
            outcome=outcome,
            message=message,
            duration_ns=done.duration_ns,
        )
    found = _compare_all(done, bench)
    outcome = next((one.outcome for one in found if one.outcome is not wire.TrialOutcome.PASSED), wire.TrialOutcome.PASSED)
    # A stray write outside the outputs explains what is wrong inside them, so it is named first.
    if done.out_of_bounds:
        outcome = wire.TrialOutcome.OUT_OF_BOUNDS
    elif done.inputs_modified and outcome is wire.TrialOutcome.PASSED:
        outcome = wire.TrialOutcome.INPUT_MODIFIED
    ratios = [one.budget_ratio for one in found if one.budget_ratio is not None]
    return wire.Trial(
        workload_id=workload.workload_id,
        hidden=workload.hidden,
        phase=phase,
        index=index,
        key=done.key,
        outcome=outcome,
        element_count=sum(one.element_count for one in found),
        mismatched_count=sum(one.mismatched_count for one in found),
        unwritten_count=sum(one.unwritten_count for one in found),
        nonfinite_count=sum(one.nonfinite_count for one in found),
        max_absolute_error=max((one.max_absolute_error for one in found), default=0.0),
        max_relative_error=max((one.max_relative_error for one in found), default=0.0),
        budget_ratio=max(ratios, default=None),
        duration_ns=done.duration_ns,
    )


def _spoken(reply: Answer | Silence) -> tuple[wire.TrialOutcome | None, str]:
    """What the reply alone decides: never a pass."""
    match reply:
        case Silence.GONE:
            return wire.TrialOutcome.CRASHED, "the kernel's process ended during the call"
        case Silence.TIMED_OUT:
            return wire.TrialOutcome.TIMED_OUT, ""
        case Answer(status=Status.OK):
            return None, ""
        case Answer(status=Status.WRONG_SHAPE):
            return wire.TrialOutcome.WRONG_SHAPE, reply.message
        case Answer(status=Status.WRONG_DTYPE):
            return wire.TrialOutcome.WRONG_DTYPE, reply.message
    return wire.TrialOutcome.RAISED, reply.message


def _compare_all(done: Run, bench: Bench) -> list[Comparison]:
    problem = bench.problem
    references = expected(bench.reference, done.inputs, problem)
    wide = _expected64(done, bench, references)
    found = []
    for index, (output, reference, tensor) in enumerate(zip(done.outputs, references, problem.outputs, strict=True)):
        if reference.shape != output.shape or reference.dtype != output.dtype:
            raise ReferenceFailed(
                f"the reference's {tensor.name!r} is {reference.dtype} {tuple(reference.shape)}; "
                f"problem.toml declares {output.dtype} {tuple(output.shape)}"
            )
        found.append(compare(output, reference, wide[index], done.unwritten[index], problem.tolerance))
    return found


def _expected64(done: Run, bench: Bench, references: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """The reference in double precision, for the error budget; None where the problem has no budget or no floats."""
    if bench.problem.tolerance.budget_factor is None or not any(one.dtype.is_floating_point for one in references):
        return [None] * len(references)
    widened = [one.double() if one.dtype.is_floating_point else one for one in done.inputs]
    return list(expected(bench.reference, widened, bench.problem))
