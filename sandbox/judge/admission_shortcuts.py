"""Numerical shortcuts that a problem has to reject: a softmax without its maximum, one-pass moments, small values left out, and columns
beyond a block's threads.  For admission only.

The reference runs under a mode that replaces PyTorch's stable functions by the short forms. What a reference computes by hand is not
replaced, except the maximum that it subtracts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from sandbox import wire
from sandbox.judge.admission_case import Case, Tensors
from sandbox.judge.inputs import shape_of
from sandbox.judge.references import ReferenceFailed

SMALL_SHARE = 0.02  # of an output's elements: fewer may lie below atol
BLOCK_COLUMNS = (
    1024  # threads of a block at most (CUDA C++ Programming Guide, compute capabilities): a kernel with one per column ends there
)
Function = Callable[..., Any]


def without_maximum(case: Case, _: Case) -> Tensors | None:
    """The reference with a softmax that overflows where values are large. None where it has none."""
    return _with(case, _NO_MAXIMUM)


def one_pass_moments(case: Case, _: Case) -> Tensors | None:
    """The reference with E[x^2] - E[x]^2 for a variance, which cancels where the mean is large. None where it has none."""
    return _with(case, _ONE_PASS)


def small_values_left_out(index: int, case: Case, _: Case) -> torch.Tensor | None:
    """An output with zeros where the right answer is no more than atol; None where that is hardly anywhere."""
    right, tolerance = case.right[index], case.workload.tolerance or case.task.spec.tolerance
    if not right.is_floating_point() or case.task.compare is not None:
        return None
    small = (right.abs() <= tolerance.atol) & (right != 0)
    if int(small.sum()) <= SMALL_SHARE * right.numel():
        return None
    return right.masked_fill(small, 0)


def narrow_devices(spec: wire.ProblemSpec) -> Iterator[tuple[str, bool]]:
    """The devices on which no workload is wider than a block's threads, though one on another device is; and whether it could be, for the
    rows are as long as an axis that is not all that the problem has."""
    widest = {
        kind: max((_columns(spec, one) for one in spec.workloads if one.device_kind in ("", kind)), default=0)
        for kind in {one.device_kind for one in spec.workloads} - {""}
    }
    if max(widest.values(), default=0) > BLOCK_COLUMNS:
        for kind in sorted(kind for kind, columns in widest.items() if columns <= BLOCK_COLUMNS):
            yield kind, len(spec.axes) > 1


def _columns(spec: wire.ProblemSpec, workload: wire.Workload) -> int:
    """The longest row of any output."""
    return max((shape[-1] for one in spec.outputs if (shape := shape_of(one, workload.axes))), default=0)


class _Replaces(TorchFunctionMode):
    """Calls these functions in place of PyTorch's; counts how often."""

    def __init__(self, replaced: dict[Any, Function]) -> None:
        super().__init__()
        self._replaced, self.count = replaced, 0

    def __torch_function__(self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None) -> Any:
        """See TorchFunctionMode; nested calls do not come here."""
        short = self._replaced.get(func)
        if short is None:
            return func(*args, **(kwargs or {}))
        self.count += 1
        return short(*args, **(kwargs or {}))


def _with(case: Case, replaced: dict[Any, Function]) -> Tensors | None:
    mode = _Replaces(replaced)
    try:
        with mode:
            outputs = case.answer(case.inputs)
    except (ReferenceFailed, TypeError, NotImplementedError):  # a call that the short form does not take
        return None
    return outputs if mode.count else None


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _softmax(input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> torch.Tensor:
    powers = _wide(input if dtype is None else input.to(dtype)).exp()
    return (powers / powers.sum(-1 if dim is None else dim, keepdim=True)).to(dtype or input.dtype)


def _log_softmax(input: torch.Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None) -> torch.Tensor:
    wide = _wide(input if dtype is None else input.to(dtype))
    return (wide - wide.exp().sum(-1 if dim is None else dim, keepdim=True).log()).to(dtype or input.dtype)


def _logsumexp(input: torch.Tensor, dim: Any, keepdim: bool = False) -> torch.Tensor:
    return _wide(input).exp().sum(dim, keepdim=keepdim).log().to(input.dtype)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if dropout_p or enable_gqa:
        raise NotImplementedError
    scores = _wide(query) @ _wide(key).transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1), float("-inf"))
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf")) if attn_mask.dtype == torch.bool else scores + attn_mask
    return (_softmax(scores, -1) @ _wide(value)).to(query.dtype)


def _amax(input: torch.Tensor, dim: Any = (), keepdim: bool = False) -> torch.Tensor:
    return torch.zeros_like(torch.amax(input, dim, keepdim))


def _max(input: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    found = torch.max(input, *args, **kwargs)
    if isinstance(found, torch.Tensor):
        return torch.zeros_like(found)
    return type(found)((torch.zeros_like(found[0]), found[1]))


def _variance(
    input: torch.Tensor, dim: Any = None, *, correction: float = 1, unbiased: bool | None = None, keepdim: bool = False
) -> torch.Tensor:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axes = tuple(range(input.dim())) if dim is None else ((dim,) if isinstance(dim, int) else tuple(dim))
    if unbiased is not None:
        correction = int(unbiased)
    count = 1
    for axis in axes:
        count *= input.shape[axis]
    wide = _wide(input)
    found = wide.square().mean(axes, keepdim=keepdim) - wide.mean(axes, keepdim=keepdim).square()
    return (found * (count / max(count - correction, 1))).to(input.dtype)


def _deviation(input: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    return _variance(input, *args, **kwargs).sqrt()


def _variance_and_mean(input: torch.Tensor, dim: Any = None, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
    keepdim = kwargs.get("keepdim", False)
    return _variance(input, dim, **kwargs), input.mean() if dim is None else input.mean(dim, keepdim=keepdim)


def _normal(x: torch.Tensor, axes: tuple[int, ...], eps: float) -> torch.Tensor:
    return (x - x.mean(axes, keepdim=True)) / (_variance(x, axes, correction=0, keepdim=True) + eps).sqrt()


def _layer_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> torch.Tensor:
    found = _normal(_wide(input), tuple(range(-len(normalized_shape), 0)), eps)
    found = found if weight is None else found * weight
    return (found if bias is None else found + bias).to(input.dtype)


def _group_norm(input: torch.Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> torch.Tensor:
    groups = _wide(input).reshape(input.shape[0], num_groups, -1)
    return _by_channel(_normal(groups, (-1,), eps).reshape(input.shape), weight, bias).to(input.dtype)


def _instance_norm(
    input: torch.Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> torch.Tensor:
    if not use_input_stats:
        raise NotImplementedError
    return _by_channel(_normal(_wide(input), tuple(range(2, input.dim())), eps), weight, bias).to(input.dtype)


def _by_channel(x: torch.Tensor, weight: Any, bias: Any) -> torch.Tensor:
    shape = (1, -1, *[1] * (x.dim() - 2))
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


_NO_MAXIMUM: dict[Any, Function] = {
    torch.softmax: _softmax,
    torch.Tensor.softmax: _softmax,
    F.softmax: _softmax,
    torch.log_softmax: _log_softmax,
    torch.Tensor.log_softmax: _log_softmax,
    F.log_softmax: _log_softmax,
    torch.logsumexp: _logsumexp,
    torch.Tensor.logsumexp: _logsumexp,
    F.scaled_dot_product_attention: _attention,
    torch.amax: _amax,
    torch.Tensor.amax: _amax,
    torch.max: _max,
    torch.Tensor.max: _max,
}
_ONE_PASS: dict[Any, Function] = {
    torch.var: _variance,
    torch.Tensor.var: _variance,
    torch.std: _deviation,
    torch.Tensor.std: _deviation,
    torch.var_mean: _variance_and_mean,
    F.layer_norm: _layer_norm,
    F.group_norm: _group_norm,
    F.instance_norm: _instance_norm,
}
