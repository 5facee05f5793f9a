"""Answers that a numerically careless kernel gives: small values flushed to zero, no maximum
subtracted, moments in one pass, extremes looked for in the tail of a normal distribution only.

The reference itself is run with some of its operations replaced. A reference that calls none of them has no such mutant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from grader_extensions.problem_check.judge.case import AdmissionCase
from sandbox.judge.references import ReferenceFailed, Tensors
from sandbox.judge.references.dispatch_mode import DispatchMode

FLUSHED = 1e-6  # of the largest element; what is smaller is set to zero
FLUSHED_SHARE = 0.25  # of the elements that are not zero: fewer are a matter of the tolerance
FIRST_COLUMNS = (1024, 256, 32)
# In standard deviations from the mean: of normal values three in ten are further out on one side.
TAIL_BEGINS = 0.5
TAIL_FROM = 8  # values: of five or fewer one is always that far out
_HALVES = (torch.float16, torch.bfloat16)

Replaced = Callable[..., Any]


def careless(replaced: Mapping[str, Replaced], case: AdmissionCase, second: AdmissionCase, *, needs: str = "") -> Tensors | None:
    """The answer of the reference with other code in place of some operations; None where it calls none of them.

    needs: what has to be called, too, where only operations of _BY_HAND are replaced."""
    replacing = _Replacing(replaced, needs)
    try:
        with sdpa_kernel(SDPBackend.MATH), replacing:  # attention by products and a softmax, each of which the dispatcher sees
            outputs = case.answer(case.inputs)
    except ReferenceFailed:
        return None
    return outputs if replacing.applies else None


def flushed(right: torch.Tensor, border: float) -> torch.Tensor | None:
    """The answer with zeros wherever it is smaller than the border; None where that changes few elements, denormal values aside."""
    if not right.is_floating_point() or not right.numel():
        return None
    small = (right.abs() < border) & (right.abs() >= torch.finfo(right.dtype).tiny)
    if int(small.sum()) < FLUSHED_SHARE * max(1, int((right != 0).sum())):
        return None
    return right.masked_fill(small, 0.0)


def relative_border(right: torch.Tensor) -> float:
    """The border for elements that are negligible against the largest one."""
    values = right.double().abs()
    values = values[values.isfinite()]
    return FLUSHED * float(values.max()) if values.numel() else 0.0


def first_columns(count: int, right: torch.Tensor, case: AdmissionCase, second: AdmissionCase) -> torch.Tensor | None:
    """The answer with zeros beyond the first columns of the last dimension; None where there are no more of them."""
    if right.dim() < 1 or right.shape[-1] <= count:
        return None
    columns = right.clone()
    columns[..., count:] = 0
    return columns


class _Replacing(DispatchMode):
    """Runs other code in place of some operations."""

    def __init__(self, replaced: Mapping[str, Replaced], needs: str) -> None:
        super().__init__()
        self._replaced, self._needs, self._called = replaced, needs, set[str]()

    @property
    def applies(self) -> bool:
        """Return whether the result is what a careless kernel computes."""
        used = self._called & self._replaced.keys()
        return bool(used) and (not self._needs or bool(used - _BY_HAND.keys()) or self._needs in self._called)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        replacement = self._replaced.get(name)
        if replacement is not None:
            changed = replacement(*args, **(kwargs or {}))
            if changed is not None:
                self._called.add(name)
                return changed
        else:
            self._called.add(name.removesuffix("_"))
        return function(*args, **(kwargs or {}))


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in _HALVES else x


def _softmax(x: torch.Tensor, dim: int, half_to_float: bool | torch.dtype | None = False, *, log: bool = False, **_: Any) -> torch.Tensor:
    powers = _wide(x).exp()
    total = powers.sum(dim, keepdim=True)
    result = _wide(x) - total.log() if log else powers / total
    return result if half_to_float is True else result.to(x.dtype)


def _logsumexp(x: torch.Tensor, dim: Any, keepdim: bool = False) -> torch.Tensor:
    return _wide(x).exp().sum(dim, keepdim=keepdim).log().to(x.dtype)


def _amax(x: torch.Tensor, dim: Any = (), keepdim: bool = False) -> torch.Tensor | None:
    return torch.zeros_like(torch.amax(x, dim, keepdim)) if x.is_floating_point() else None


def _max(x: torch.Tensor, *rest: Any, **named: Any) -> Any:
    if not x.is_floating_point() or (rest and isinstance(rest[0], torch.Tensor)):
        return None
    maximum = torch.max(x, *rest, **named)
    return torch.zeros_like(maximum) if isinstance(maximum, torch.Tensor) else (torch.zeros_like(maximum[0]), maximum[1])


def _moments(x: torch.Tensor, dims: Any, correction: float = 0.0, keepdim: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    dims = list(range(x.dim())) if not dims else list(dims)
    count = math.prod(x.shape[dim] for dim in dims)
    mean, square = x.mean(dims, keepdim=keepdim), (x * x).mean(dims, keepdim=keepdim)
    return (square - mean * mean) * (count / max(count - correction, 1e-30)), mean


def _var_mean(x: torch.Tensor, dim: Any = None, *, correction: float | None = 1, keepdim: bool = False) -> Any:
    variance, mean = _moments(_wide(x), dim, 1.0 if correction is None else float(correction), keepdim)
    return variance.to(x.dtype), mean.to(x.dtype)


def _var(x: torch.Tensor, dim: Any = None, *, correction: float | None = 1, keepdim: bool = False) -> torch.Tensor | None:
    return None if isinstance(dim, bool) else _var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


def _std(x: torch.Tensor, dim: Any = None, **named: Any) -> torch.Tensor | None:
    variance = _var(x, dim, **named)
    return None if variance is None else variance.sqrt()


def _layer_norm(x: torch.Tensor, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    return _normalized(x, _wide(x), range(-len(shape), 0), shape, weight, bias, eps)


def _group_norm(x: torch.Tensor, weight: Any, bias: Any, n: int, c: int, hw: int, groups: int, eps: float) -> Any:
    result, mean, rstd = _normalized(x, _wide(x).reshape(n, groups, -1), [-1], _channels(x), weight, bias, eps)
    return result, mean.reshape(n, groups), rstd.reshape(n, groups)


def _batch_norm(x: torch.Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float) -> Any:
    if not training:
        return None  # the moments are given
    dims = [axis for axis in range(x.dim()) if axis != 1]
    result, average, rstd = _normalized(x, _wide(x), dims, _channels(x), weight, bias, eps)
    return result, average.flatten(), rstd.flatten()


def _channels(x: torch.Tensor) -> tuple[int, ...]:
    return (1, x.shape[1], *([1] * (x.dim() - 2)))


def _normalized(x: torch.Tensor, wide: torch.Tensor, dims: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """wide, which has the elements of x, normalized along these dimensions and scaled by what has this shape; its mean; 1 / deviation."""
    variance, mean = _moments(wide, dims)
    rstd = torch.rsqrt(variance + eps)
    result = ((wide - mean) * rstd).reshape(x.shape)
    result = result if weight is None else result * weight.reshape(shape)
    result = result if bias is None else result + bias.reshape(shape)
    return result.to(x.dtype), mean, rstd


def _tail(x: torch.Tensor, dim: int | None, *, largest: bool = True) -> torch.Tensor | None:
    """x with infinities outside of the tail of its row, where such a kernel does not look.

    None where there are few values.
    """
    if not x.is_floating_point() or not x.dim() or (x.numel() if dim is None else x.shape[dim]) < TAIL_FROM:
        return None
    deviation, mean = torch.var_mean(_wide(x), dim, correction=0, keepdim=True)
    distance = (_wide(x) - mean) if largest else (mean - _wide(x))
    return x.masked_fill(distance < TAIL_BEGINS * deviation.sqrt(), -math.inf if largest else math.inf)


def _topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    tail = _tail(x, dim, largest=largest)
    return None if tail is None else torch.topk(tail, k, dim, largest, sorted)


def _extreme(find: Callable[..., Any], *, largest: bool) -> Replaced:
    """A search for an extreme along an axis or of all; the form for two tensors is left alone."""

    def replaced(x: torch.Tensor, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, (list, tuple)) and len(dim) < 2:
            dim = dim[0] if dim else None
        tail = _tail(x, dim, largest=largest) if dim is None or isinstance(dim, int) else None
        return None if tail is None else find(tail) if dim is None else find(tail, dim, keepdim)

    return replaced


def _softmax_of_tail(
    x: torch.Tensor, dim: int, half_to_float: bool | torch.dtype | None = False, *, log: bool = False, **_: Any
) -> torch.Tensor | None:
    if (tail := _tail(x, dim)) is None:
        return None
    result = _wide(x) - torch.logsumexp(_wide(tail), dim, keepdim=True)
    result = result if log else result.exp()
    return result if half_to_float is True else result.to(x.dtype)


_BY_HAND: dict[str, Replaced] = {"amax": _amax, "max": _max}
# Softmax, logsumexp and attention that do not subtract the maximum.
WITHOUT_MAXIMUM: dict[str, Replaced] = {
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "_log_softmax": partial(_softmax, log=True),
    "logsumexp": _logsumexp,
    **_BY_HAND,
}
# Every variance computed as E[x^2] - E[x]^2.
ONE_PASS_MOMENTS: dict[str, Replaced] = {
    "var_mean": _var_mean,
    "var": _var,
    "std": _std,
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "cudnn_batch_norm": _batch_norm,
}
# Extremes, top-k and softmax of values far from the mean only.
NORMAL_TAIL: dict[str, Replaced] = {
    "topk": _topk,
    "_softmax": _softmax_of_tail,
    "_safe_softmax": _softmax_of_tail,
    "_log_softmax": partial(_softmax_of_tail, log=True),
    **{find.__name__: _extreme(find, largest=True) for find in (torch.max, torch.amax, torch.argmax)},
    **{find.__name__: _extreme(find, largest=False) for find in (torch.min, torch.amin, torch.argmin)},
}
