"""What the errors of a wrong answer look like: a lower precision, or the answer to earlier inputs.  A hint for people; decides nothing.

A kernel on tensor cores rounds the operands of its products and adds in float32. So the reference is run again with the operands of its
products rounded, and with its inputs rounded: an output that is much nearer to one of these answers than to the right one has that
precision's errors. One whose every element is a value of the lower dtype was rounded to it at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sandbox.protocol.wire import Symptom

Tensors = list[torch.Tensor]
BUDGET_S = 3.0  # of further runs of the reference; then nothing is said
NEARER = 0.3  # of the error that it has against the right answer, as root mean squares
LARGEST_ERROR = 0.05  # of the answer, as root mean squares: a larger one is no matter of precision
TF32_DROPPED_BITS = 13  # of float32's mantissa, which `mma` with tf32 operands ignores (PTX ISA, "Alternate floating-point data formats")
_PRODUCTS = frozenset(("mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot", "convolution", "_scaled_dot_product_flash_attention_for_cpu"))


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
        yield name, reference([lowered(one) for one in inputs])


class _LowProducts(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds the operands of products."""

    def __init__(self, lowered: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._lowered = lowered
        self.used = False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.overloadpacket.__name__ in _PRODUCTS:
            self.used = True
            args = tuple(self._lowered(one) if isinstance(one, torch.Tensor) and one.dim() > 1 else one for one in args)
        return function(*args, **(kwargs or {}))


def _float16(one: torch.Tensor) -> torch.Tensor:
    """Rounded to 10 bits of mantissa, as TF32 is where the exponent is in float16's range."""
    return one.half().to(one.dtype) if one.dtype == torch.float32 else one


def _bfloat16(one: torch.Tensor) -> torch.Tensor:
    return one.bfloat16().to(one.dtype) if one.dtype == torch.float32 else one


def _tf32(one: torch.Tensor) -> torch.Tensor:
    """Cut to 10 bits of mantissa."""
    if one.dtype != torch.float32:
        return one
    return (one.contiguous().view(torch.int32) & (-1 << TF32_DROPPED_BITS)).view(torch.float32)


def _is_of(one: torch.Tensor, lower: torch.dtype) -> bool:
    return bool((one.to(lower).to(one.dtype) == one).all())


def _rms(one: torch.Tensor) -> float:
    return float(one.double().square().mean().sqrt())
