"""What a run left, compared with the reference: the fact of a trial (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from sandbox.judge.references import Reference, ReferenceFailed
from sandbox.judge.runner_link import Silence
from sandbox.judge.tolerance import Comparison, compare, forgive_rounding_noise
from sandbox.judge.trial import Run, WorkloadContext, except_right_nan
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Status


def expected(reference: Reference, drawn: list[torch.Tensor], problem: wire.ProblemSpec) -> list[torch.Tensor]:
    """The reference's outputs for private copies of the inputs, checked against what the problem declares."""
    return _computed(reference, [tensor.clone() for tensor in drawn], problem)


def _computed(reference: Reference, private: list[torch.Tensor], problem: wire.ProblemSpec) -> list[torch.Tensor]:
    """The same for inputs that nobody needs any more: a reference may change them."""
    try:
        results = reference(private)
    except (torch.OutOfMemoryError, torch.AcceleratorError):  # not the reference's doing
        raise
    except Exception as error:
        raise ReferenceFailed(f"the reference raised {type(error).__name__}: {error}") from error
    if len(results) != len(problem.outputs):
        raise ReferenceFailed(f"the reference returned {len(results)} outputs; problem.toml declares {len(problem.outputs)}")
    return results


def judge_run(done: Run, bench: WorkloadContext, phase: wire.TrialPhase, index: int) -> wire.Trial:
    """Draw the fact of a run. The reference is computed only now, when the snapshot is in private memory."""
    workload = bench.workload
    trial = partial(
        wire.Trial,
        workload_id=workload.workload_id,
        hidden=workload.hidden,
        phase=phase,
        index=index,
        key=done.key,
        duration_ns=done.duration_ns,
    )
    outcome, message = _spoken(done.reply)
    if outcome is not None:
        return trial(outcome=outcome, message=message)
    found = _compare_all(done, bench)
    outcome = next((one.outcome for one in found if one.outcome is not wire.TrialOutcome.PASSED), wire.TrialOutcome.PASSED)
    # A stray write outside the outputs explains what is wrong inside them, so it is named first.
    if done.out_of_bounds:
        outcome = wire.TrialOutcome.OUT_OF_BOUNDS
    elif done.inputs_modified and outcome is wire.TrialOutcome.PASSED:
        outcome = wire.TrialOutcome.INPUT_MODIFIED
    ratios = [one.budget_ratio for one in found if one.budget_ratio is not None]
    return trial(
        outcome=outcome,
        element_count=sum(one.element_count for one in found),
        mismatched_count=sum(one.mismatched_count for one in found),
        unwritten_count=sum(one.unwritten_count for one in found),
        nonfinite_count=sum(one.nonfinite_count for one in found),
        max_absolute_error=max((one.max_absolute_error for one in found), default=0.0),
        max_relative_error=max((one.max_relative_error for one in found), default=0.0),
        budget_ratio=max(ratios, default=None),
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
        case Answer(status=Status.DEVICE_FAULT):
            return wire.TrialOutcome.DEVICE_FAULT, reply.message
        case Answer(status=Status.OUT_OF_MEMORY):
            return wire.TrialOutcome.OUT_OF_MEMORY, reply.message
    return wire.TrialOutcome.RAISED, reply.message


def _compare_all(done: Run, bench: WorkloadContext) -> list[Comparison]:
    problem = bench.problem
    references = expected(bench.reference, done.inputs, problem)
    triples = zip(done.unwritten, done.outputs, references, strict=True)
    unwritten = [except_right_nan(mask, output, reference) for mask, output, reference in triples]
    if bench.compare is not None:
        return bench.compare(bench.workload, done.inputs, done.outputs, references, unwritten)
    wide = _expected64(done, bench, references)
    found = []
    for index, (output, reference, tensor) in enumerate(zip(done.outputs, references, problem.outputs, strict=True)):
        if not isinstance(reference, torch.Tensor) or reference.device != output.device:
            where = f"a tensor on {reference.device}" if isinstance(reference, torch.Tensor) else f"a {type(reference).__name__}"
            raise ReferenceFailed(f"the reference's {tensor.name!r} is {where}; return a tensor on the device of its inputs")
        if reference.shape != output.shape or reference.dtype != output.dtype:
            raise ReferenceFailed(
                f"the reference's {tensor.name!r} is {reference.dtype} {tuple(reference.shape)}; "
                f"problem.toml declares {output.dtype} {tuple(output.shape)}"
            )
        found.append(compare(output, reference, wide[index], unwritten[index], bench.tolerance))

    def again(index: int, perturbed: Sequence[torch.Tensor]) -> Comparison:
        return compare(done.outputs[index], references[index], wide[index], unwritten[index], bench.tolerance, perturbed)

    return forgive_rounding_noise(
        found, done.inputs, references, lambda given: expected(bench.reference64 or bench.reference, given, problem), again
    )


def _expected64(done: Run, bench: WorkloadContext, references: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """The reference in double precision, for the error budget; None where the problem has no budget or no floats."""
    if bench.tolerance.budget_factor is None or not any(reference.dtype.is_floating_point for reference in references):
        return [None] * len(references)
    widened = [tensor.to(torch.float64, copy=True) if tensor.dtype.is_floating_point else tensor.clone() for tensor in done.inputs]
    return list(_computed(bench.reference64 or bench.reference, widened, bench.problem))
