"""Draws the inputs of a trial from a fresh 128-bit key, in the judge's private memory.

Values come from a Philox generator of the device, keyed with all 128 bits. A random scale and offset and needles come on top of normal
and heavy_tail, so that neither a closed form nor a sub-sampled reduction passes; a distribution may say how much of each.

    normal, heavy_tail      heavy_tail: Student's t, 3 degrees of freedom; an integer tensor gets integers up to 100 instead
    uniform                 from low up to below high
    integers                low to high, both of them
    index                   integers from low to below high, such as class labels and token ids
    sorted                  ascending along the last axis: floats as uniform, integers as index
    permutation             0 to below the size of the last axis, each of them once
    probabilities           rows of the last axis that add up to 1: softmax of normal values times the scale
    constant                high, or the size of an axis
    mixture                 each element is of one of the parts, by their weights

A structure says where the values of a kind are, in the last axis or in the matrices of the last two; elsewhere is zero:

    lower_triangular        on and below the diagonal; upper_triangular: on and above it
    banded                  at most `bandwidth` away from the diagonal
    diagonal                on the diagonal
    symmetric               everywhere: what is above the diagonal is what is below it
    sparse                  at random places, a part of `density` of all
    permutation             one in each row and each column, at random
    one_hot                 one in each row, at random
    sorted                  everywhere, ascending along the last axis
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from sandbox.devices import Device, RandomSource
from sandbox.protocol import wire

LARGEST_INTEGER = 100.0  # of an integer tensor whose distribution is made for floats


def shape_of(tensor: wire.TensorSpec, axes: dict[str, int]) -> tuple[int, ...]:
    """The tensor's shape at this workload's axes."""
    return tuple(axes[axis] if isinstance(axis, str) else axis for axis in tensor.shape)


def of_workload(
    problem: wire.ProblemSpec,
    workload: wire.Workload,
    draw_own: Callable[[wire.Workload, str], list[torch.Tensor]] | None,
    key: str,
    device: Device,
) -> list[torch.Tensor]:
    """A workload's inputs from a key: by the problem's own generator where it has one, else from the distributions."""
    if draw_own is not None:
        return draw_own(workload, key)
    return draw(problem.inputs, workload.axes, key, device, workload.distributions)


def draw(
    tensors: tuple[wire.TensorSpec, ...],
    axes: dict[str, int],
    key: str,
    device: Device,
    distributions: Mapping[str, wire.Distribution] | None = None,
) -> list[torch.Tensor]:
    """Draw a contiguous tensor per spec, on the device; the same key gives the same values. Scalars stay with the host.

    distributions: of tensors, by name, that are drawn from another one than their spec's.
    """
    values = device.source(key)
    structure = random.Random(f"structure {key}")
    overrides = distributions or {}
    drawn = []
    for tensor in tensors:
        dtype: torch.dtype = getattr(torch, tensor.dtype)
        is_float8 = tensor.dtype.startswith("float8")  # in which torch computes nothing
        drawn_dtype = torch.float32 if is_float8 else dtype
        wanted = _DrawRequest(shape=shape_of(tensor, axes), dtype=drawn_dtype, axes=axes, where=device.TORCH)
        distribution = overrides.get(tensor.name, tensor.distribution)
        values_drawn = _structured(_draw_one(distribution, wanted, values, structure), distribution, values)
        if is_float8:
            values_drawn = values_drawn.clamp(torch.finfo(dtype).min, torch.finfo(dtype).max).to(dtype)
        drawn.append(values_drawn if tensor.shape else values_drawn.cpu())
    return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class _DrawRequest:
    shape: tuple[int, ...]
    dtype: torch.dtype
    axes: dict[str, int]
    where: str

    @property
    def floating(self) -> bool:
        return self.dtype.is_floating_point

    def high(self, of: wire.Distribution) -> float:
        return float(self.axes[of.high_axis]) if of.high_axis else of.high


def _draw_one(of: wire.Distribution, wanted: _DrawRequest, values: RandomSource, structure: random.Random) -> torch.Tensor:
    match of.kind:
        case "mixture":
            drawn = _mixture(of, wanted, values, structure)
        case "constant":
            drawn = torch.full(wanted.shape, wanted.high(of), dtype=wanted.dtype, device=wanted.where)
        case "integers":
            drawn = values.integers(int(of.low), int(of.high), wanted.shape)
        case "index":
            drawn = _index(of, wanted, values)
        case "sorted":
            raw = _uniform(of, wanted, values).to(wanted.dtype) if wanted.floating else _index(of, wanted, values)
            drawn = raw.sort(dim=-1).values
        case "permutation":
            drawn = values.uniform(wanted.shape).argsort(dim=-1)
        case _ if not wanted.floating:
            drawn = values.integers(int(of.low), 1 if wanted.dtype == torch.bool else int(LARGEST_INTEGER), wanted.shape)
        case "uniform":
            drawn = _uniform(of, wanted, values)
        case "probabilities":
            drawn = torch.softmax(values.normal(wanted.shape) * of.scale, dim=-1)
        case _:
            drawn = _scaled(of, wanted, values, structure)
    result: torch.Tensor = drawn.to(wanted.dtype).contiguous()
    return result


def _structured(drawn: torch.Tensor, of: wire.Distribution, values: RandomSource) -> torch.Tensor:
    match of.structure:
        case None:
            return drawn
        case "lower_triangular":
            return drawn.tril_()
        case "upper_triangular":
            return drawn.triu_()
        case "banded":
            assert of.bandwidth is not None
            return drawn.tril_(of.bandwidth).triu_(-of.bandwidth)
        case "diagonal":
            return drawn.tril_().triu_()
        case "symmetric":
            lower = drawn.tril()
            return (lower + lower.tril(-1).transpose(-1, -2)).contiguous()
        case "sorted":
            return drawn.sort(dim=-1).values
        case "sparse":
            assert of.density is not None
            mask = values.uniform(tuple(drawn.shape)) < of.density
        case "permutation":
            rows = values.uniform(tuple(drawn.shape[:-1])).argsort(dim=-1)
            mask = torch.zeros_like(drawn, dtype=torch.bool).scatter_(-1, rows.unsqueeze(-1), True)
        case "one_hot":
            places = values.uniform((*drawn.shape[:-1], 1)) * drawn.shape[-1]
            mask = torch.zeros_like(drawn, dtype=torch.bool)
            if drawn.numel():
                mask.scatter_(-1, places.long().clamp_max_(drawn.shape[-1] - 1), True)
        case unknown:
            raise ValueError(f"no structure {unknown!r}")
    return torch.where(mask, drawn, torch.zeros_like(drawn))


def _uniform(of: wire.Distribution, wanted: _DrawRequest, values: RandomSource) -> torch.Tensor:
    return values.uniform(wanted.shape) * (wanted.high(of) - of.low) + of.low


def _index(of: wire.Distribution, wanted: _DrawRequest, values: RandomSource) -> torch.Tensor:
    low, high = int(of.low), math.ceil(wanted.high(of)) - 1
    return values.integers(low, max(low, high), wanted.shape)


def _mixture(of: wire.Distribution, wanted: _DrawRequest, values: RandomSource, structure: random.Random) -> torch.Tensor:
    total = sum(part.weight for part in of.parts)
    bounds = itertools.accumulate(part.weight / total for part in of.parts)
    chosen = values.uniform(wanted.shape)
    drawn = _draw_one(of.parts[0], wanted, values, structure)
    for part, bound in zip(of.parts[1:], bounds, strict=False):  # a part begins where the one before it ends
        drawn = torch.where(chosen >= bound, _draw_one(part, wanted, values, structure), drawn)
    return drawn


def _scaled(of: wire.Distribution, wanted: _DrawRequest, values: RandomSource, structure: random.Random) -> torch.Tensor:
    drawn: torch.Tensor = values.normal(wanted.shape)
    if of.kind == "heavy_tail":
        chi = values.normal((3, *wanted.shape))
        drawn = drawn * torch.rsqrt(chi.square_().mean(0).clamp_min_(1e-3))
    scale = of.scale * 2.0 ** structure.uniform(-of.scale_spread, of.scale_spread)
    drawn = (drawn * scale).add_(structure.uniform(-of.offset, of.offset) * scale)
    # Make a few random elements large: a kernel that reads only a part of the input misses them.
    count = math.prod(drawn.shape)
    flat = drawn.view(-1)
    needles = dict[int, float]()
    for _ in range(min(of.needles, count // 64)):
        needles[structure.randrange(count)] = structure.choice((-1, 1)) * of.needle_factor * scale
    places, values_there = torch.tensor(list(needles), dtype=torch.int64), torch.tensor(list(needles.values()), dtype=drawn.dtype)
    flat[places.to(wanted.where)] = values_there.to(wanted.where)
    return drawn
