"""Adds to a failed trial what its author should know: the first wrong elements, their pattern, a symptom, a CUDA error.

Decides nothing: the outcome stays what `verify.py` found. A symptom is a lower precision, or the answer to earlier inputs. A kernel on
tensor cores rounds the operands of its products and adds in float32. So the reference is run again with the operands of its products
rounded, and with its inputs rounded: an output that is much nearer to one of these answers than to the right one has that precision's
errors. One whose every element is a value of the lower dtype was rounded to it at the end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sandbox.judge.references import ReferenceFailed
from sandbox.judge.tensors import same_bytes
from sandbox.judge.trial import Run, WorkloadContext, except_right_nan, output_was_read
from sandbox.judge.verify import expected
from sandbox.judge.wrong_elements import MOST, WrongCounts, comparable, find_pattern, first_wrong
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Status
from sandbox.protocol.wire import Symptom, TrialOutcome

COMPARED = frozenset((TrialOutcome.MISMATCHED, TrialOutcome.UNWRITTEN, TrialOutcome.NON_FINITE))
_CUDA_ERROR = re.compile(r"cudaError\w{1,60}: [ -~]{1,200}")  # as the runner reports it; anything else is not shown
Tensors = list[torch.Tensor]
BUDGET_S = 3.0  # of further runs of the reference; then nothing is said
NEARER = 0.3  # of the error that it has against the right answer, as root mean squares
LARGEST_ERROR = 0.05  # of the answer, as root mean squares: a larger one is no matter of precision
TF32_DROPPED_BITS = 13  # of float32's mantissa, which `mma` with tf32 operands ignores (PTX ISA, "Alternate floating-point data formats")
_PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "convolution", "_scaled_dot_product_flash_attention_for_cpu"))


def explain(trial: wire.Trial, result: Run, bench: WorkloadContext, earlier: Tensors | None) -> wire.Trial:
    """The trial of a run, with the reasons that can be seen where it failed. earlier: the outputs of the run before, which passed."""
    if trial.outcome is TrialOutcome.PASSED:
        return trial
    message = result.reply.message if isinstance(result.reply, Answer) and result.reply.status is Status.OK else ""
    trial = replace(trial, cuda_error=message if _CUDA_ERROR.fullmatch(message) else "")
    if trial.outcome not in COMPARED:
        return trial
    # What is computed here is for people only: it may fail, and it may be too large.
    with suppress(ReferenceFailed, torch.OutOfMemoryError):
        right = expected(bench.reference, result.inputs, bench.problem)
        trial = replace(trial, wrong_elements=_wrong_elements(result, right, bench))
        trial = replace(trial, wrong_pattern=_wrong_pattern(result, right, bench))
        trial = replace(trial, symptom=_symptom(trial, result, right, bench, earlier))
    return trial


def _wrong_elements(result: Run, right: Tensors, bench: WorkloadContext) -> tuple[wire.WrongElement, ...]:
    elements: list[wire.WrongElement] = []
    for name, (out, ref, missing) in _outputs(result, right, bench):
        if len(elements) < MOST:
            elements += first_wrong(name, out, ref, missing, bench.tolerance, MOST - len(elements))
    return tuple(elements)


def _wrong_pattern(result: Run, right: Tensors, bench: WorkloadContext) -> wire.WrongPattern | None:
    """Of the first output with wrong elements."""
    for name, (out, ref, missing) in _outputs(result, right, bench):
        if (counts := WrongCounts.of(out, ref, missing, bench.tolerance)) is not None:
            return find_pattern(name, counts)
    return None


def _outputs(result: Run, right: Tensors, bench: WorkloadContext) -> Iterator[tuple[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]]:
    """Name, and output, reference and what was not written, of each output that can be compared."""
    for tensor, out, ref, mask in zip(bench.problem.outputs, result.outputs, right, result.unwritten, strict=True):
        if (out.shape, out.device) == (ref.shape, ref.device):
            yield tensor.name, comparable(out, ref, except_right_nan(mask, out, ref))


def _symptom(trial: wire.Trial, result: Run, right: Tensors, bench: WorkloadContext, earlier: Tensors | None) -> Symptom | None:
    if earlier is not None and all(same_bytes(out, before) for out, before in zip(result.outputs, earlier, strict=True)):
        return Symptom.PREVIOUS_ANSWER
    if trial.outcome is TrialOutcome.NON_FINITE and any(map(output_was_read, result.outputs, result.poison_bits)):
        return Symptom.OUTPUT_READ
    if trial.outcome is TrialOutcome.MISMATCHED:
        return symptom(result.outputs, right, result.inputs, lambda tensors: expected(bench.reference, tensors, bench.problem))
    return None


def symptom(outputs: Tensors, expected: Tensors, inputs: Tensors, reference: Callable[[Tensors], Tensors]) -> Symptom | None:
    """The precision that a wrong answer of float32 looks like; None where it looks like none.

    inputs: what the reference is run with. What the reference raises goes through.
    """
    off = [
        (index, out, right, _rms(out - right))
        for index, (out, right) in enumerate(zip(outputs, expected, strict=True))
        if right.dtype == torch.float32 and not torch.equal(out, right)
    ]
    if not off or not all(error <= LARGEST_ERROR * _rms(right) for _, _, right, error in off):
        return None
    # bfloat16 first: most of its values are values of float16 too.
    for lower, name in ((torch.bfloat16, Symptom.BFLOAT16), (torch.float16, Symptom.FLOAT16)):
        if all(_is_of(out, lower) and not _is_of(right, lower) for _, out, right, _ in off):
            return name
    begun_s = time.monotonic()
    for name, answer in _answers(inputs, reference):
        if all(_rms(out - answer[index]) < NEARER * error for index, out, _, error in off):
            return name
        if time.monotonic() - begun_s > BUDGET_S:
            return None
    return None


def _answers(inputs: Tensors, reference: Callable[[Tensors], Tensors]) -> Iterator[tuple[Symptom, Tensors]]:
    """The reference's answers in lower precisions, with their names."""
    for name, lowered in ((Symptom.FLOAT16, _float16), (Symptom.TF32, _tf32), (Symptom.BFLOAT16, _bfloat16)):
        with _LowProducts(lowered) as mode:
            answer = reference(inputs)
        if mode.used:
            yield name, answer
        yield name, reference([lowered(tensor) for tensor in inputs])


class _LowProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds the operands of products."""

    def __init__(self, lowered: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._lowered = lowered
        self.used = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket.__name__ in _PRODUCTS:
            self.used = True
            args = tuple(
                self._lowered(argument) if isinstance(argument, torch.Tensor) and argument.dim() > 1 else argument for argument in args
            )
        return function(*args, **(kwargs or {}))


def _float16(tensor: torch.Tensor) -> torch.Tensor:
    """Rounded to 10 bits of mantissa, as TF32 is where the exponent is in float16's range."""
    return tensor.half().to(tensor.dtype) if tensor.dtype == torch.float32 else tensor


def _bfloat16(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.bfloat16().to(tensor.dtype) if tensor.dtype == torch.float32 else tensor


def _tf32(tensor: torch.Tensor) -> torch.Tensor:
    """Cut to 10 bits of mantissa."""
    if tensor.dtype != torch.float32:
        return tensor
    return (tensor.contiguous().view(torch.int32) & (-1 << TF32_DROPPED_BITS)).view(torch.float32)


def _is_of(tensor: torch.Tensor, lower: torch.dtype) -> bool:
    return bool((tensor.to(lower).to(tensor.dtype) == tensor).all())


def _rms(tensor: torch.Tensor) -> float:
    return float(tensor.double().square().mean().sqrt())
