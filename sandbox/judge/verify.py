"""Compares the result of a run with the reference: the fact of a trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import torch

from sandbox.judge.references import Reference, ReferenceFailed
from sandbox.judge.runner_link import Silence
from sandbox.judge.tolerance import Comparison, compare, forgive_rounding_noise, joined
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


def judge_run(result: Run, bench: WorkloadContext, phase: wire.TrialPhase, index: int) -> wire.Trial:
    """Draw the fact of a run. The reference is computed only now, when the snapshot is in private memory."""
    workload = bench.workload
    trial = partial(
        wire.Trial,
        workload_id=workload.workload_id,
        hidden=workload.hidden,
        phase=phase,
        index=index,
        key=result.key,
        duration_ns=result.duration_ns,
    )
    if (spoken := _spoken(result.reply)) is not None:
        return trial(outcome=spoken[0], message=spoken[1])
    comparisons = _compare_all(result, bench)
    outcomes = (comparison.outcome for comparison in comparisons)
    outcome = next((outcome for outcome in outcomes if outcome is not wire.TrialOutcome.PASSED), wire.TrialOutcome.PASSED)
    # A stray write outside the outputs explains what is wrong inside them, so it is named first.
    if result.out_of_bounds:
        outcome = wire.TrialOutcome.OUT_OF_BOUNDS
    elif result.inputs_modified and outcome is wire.TrialOutcome.PASSED:
        outcome = wire.TrialOutcome.INPUT_MODIFIED
    return trial(outcome=outcome, **asdict(joined(comparisons)))


def _spoken(reply: Answer | Silence) -> tuple[wire.TrialOutcome, str] | None:
    """Return what the reply alone decides: never a pass."""
    match reply:
        case Silence.GONE:
            return wire.TrialOutcome.CRASHED, "the kernel's process ended during the call"
        case Silence.TIMED_OUT:
            return wire.TrialOutcome.TIMED_OUT, ""
        case Answer(status=Status.OK):
            return None
        case Answer(status=Status.WRONG_SHAPE | Status.WRONG_DTYPE | Status.DEVICE_FAULT | Status.OUT_OF_MEMORY as status):
            return wire.TrialOutcome[status.name], reply.message
    return wire.TrialOutcome.RAISED, reply.message


def _compare_all(result: Run, bench: WorkloadContext) -> list[Comparison]:
    problem = bench.problem
    references = expected(bench.reference, result.inputs, problem)
    triples = zip(result.unwritten, result.outputs, references, strict=True)
    unwritten = [except_right_nan(mask, output, reference) for mask, output, reference in triples]
    if bench.compare is not None:
        return bench.compare(bench.workload, result.inputs, result.outputs, references, unwritten)
    wide: list[torch.Tensor | None] = [None] * len(references)  # in double precision, for the error budget
    if bench.tolerance.budget_factor is not None and any(reference.dtype.is_floating_point for reference in references):
        widened = [tensor.to(torch.float64, copy=True) if tensor.dtype.is_floating_point else tensor.clone() for tensor in result.inputs]
        wide = list(_computed(bench.reference64 or bench.reference, widened, problem))
    comparisons = []
    for index, (output, reference, tensor) in enumerate(zip(result.outputs, references, problem.outputs, strict=True)):
        if not isinstance(reference, torch.Tensor) or reference.device != output.device:
            where = f"a tensor on {reference.device}" if isinstance(reference, torch.Tensor) else f"a {type(reference).__name__}"
            raise ReferenceFailed(f"the reference's {tensor.name!r} is {where}; return a tensor on the device of its inputs")
        if reference.shape != output.shape or reference.dtype != output.dtype:
            raise ReferenceFailed(
                f"the reference's {tensor.name!r} is {reference.dtype} {tuple(reference.shape)}; "
                f"problem.toml declares {output.dtype} {tuple(output.shape)}"
            )
        comparisons.append(compare(output, reference, wide[index], unwritten[index], bench.tolerance))

    def again(index: int, perturbed: Sequence[torch.Tensor]) -> Comparison:
        return compare(result.outputs[index], references[index], wide[index], unwritten[index], bench.tolerance, perturbed)

    return forgive_rounding_noise(
        comparisons, result.inputs, references, lambda tensors: expected(bench.reference64 or bench.reference, tensors, problem), again
    )
