"""Adds to a failed trial what its author should know: the first wrong elements, where they are, what the errors look
like, a CUDA error.

Decides nothing: the outcome stays what `verify.py` found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import torch

from sandbox.judge.compare.symptoms import symptom
from sandbox.judge.compare.wrong_elements import MOST, comparable, first_wrong
from sandbox.judge.compare.wrong_pattern import WrongCounts, find_pattern
from sandbox.judge.references import ReferenceFailed
from sandbox.judge.run import poison
from sandbox.judge.run.trial import Run, WorkloadContext
from sandbox.judge.tensors import same_bytes
from sandbox.judge.verify import expected
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Status
from sandbox.protocol.wire import Symptom, TrialOutcome

COMPARED = frozenset((TrialOutcome.MISMATCHED, TrialOutcome.UNWRITTEN, TrialOutcome.NON_FINITE))
_CUDA_ERROR = re.compile(r"cudaError\w{1,60}: [ -~]{1,200}")  # as the runner reports it; anything else is not shown

Tensors = list[torch.Tensor]


def explain(trial: wire.Trial, done: Run, bench: WorkloadContext, earlier: Tensors | None) -> wire.Trial:
    """The trial of a run, with the reasons that can be seen where it failed. earlier: the outputs of the run before, which passed."""
    if trial.outcome is TrialOutcome.PASSED:
        return trial
    trial = replace(trial, cuda_error=_cuda_error(done))
    if trial.outcome not in COMPARED:
        return trial
    # What is computed here is for people only: it may fail, and it may be too large.
    with suppress(ReferenceFailed, torch.OutOfMemoryError):
        right = expected(bench.reference, done.inputs, bench.problem)
        trial = replace(trial, wrong_elements=_wrong_elements(done, right, bench))
        trial = replace(trial, wrong_pattern=_wrong_pattern(done, right, bench))
        trial = replace(trial, symptom=_symptom(trial, done, right, bench, earlier))
    return trial


def _wrong_elements(done: Run, right: Tensors, bench: WorkloadContext) -> tuple[wire.WrongElement, ...]:
    found: list[wire.WrongElement] = []
    for name, (out, ref, missing) in _outputs(done, right, bench):
        if len(found) < MOST:
            found += first_wrong(name, out, ref, missing, bench.tolerance, MOST - len(found))
    return tuple(found)


def _wrong_pattern(done: Run, right: Tensors, bench: WorkloadContext) -> wire.WrongPattern | None:
    """Of the first output with wrong elements."""
    for name, (out, ref, missing) in _outputs(done, right, bench):
        if (counts := WrongCounts.of(out, ref, missing, bench.tolerance)) is not None:
            return find_pattern(name, counts)
    return None


def _outputs(done: Run, right: Tensors, bench: WorkloadContext) -> Iterator[tuple[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]]:
    """Name, and output, reference and what was not written, of each output that can be compared."""
    for tensor, out, ref, mask in zip(bench.problem.outputs, done.outputs, right, done.unwritten, strict=True):
        if (out.shape, out.device) == (ref.shape, ref.device):
            yield tensor.name, comparable(out, ref, poison.but_right_nan(mask, out, ref))


def _symptom(trial: wire.Trial, done: Run, right: Tensors, bench: WorkloadContext, earlier: Tensors | None) -> Symptom | None:
    if earlier is not None and all(same_bytes(out, before) for out, before in zip(done.outputs, earlier, strict=True)):
        return Symptom.PREVIOUS_ANSWER
    if trial.outcome is TrialOutcome.NON_FINITE and done.output_read:
        return Symptom.OUTPUT_READ
    if trial.outcome is TrialOutcome.MISMATCHED:
        return symptom(done.outputs, right, done.inputs, lambda given: expected(bench.reference, given, bench.problem))
    return None


def _cuda_error(done: Run) -> str:
    message = done.reply.message if isinstance(done.reply, Answer) and done.reply.status is Status.OK else ""
    return message if _CUDA_ERROR.fullmatch(message) else ""
