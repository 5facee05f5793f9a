"""Draws the inputs of a trial from a fresh 128-bit key, in the judge's private memory.

Values come from a Philox generator of the device, keyed with all 128 bits. A random scale and offset and needles come on top, so that
neither a closed form nor a sub-sampled reduction passes. Kinds: normal, uniform(low, high), integers [low, high] (exact), heavy_tail
(Student t, 3 degrees of freedom), constant(high).
"""

from __future__ import annotations

import math
import os
import random

import torch

from sandbox import wire
from sandbox.devices import Device, Source

NEEDLE_COUNT = 4
NEEDLE_FACTOR = 8.0


def fresh_key() -> str:
    """128 bits that nobody can guess, as hex."""
    return os.urandom(16).hex()


def shape_of(tensor: wire.TensorSpec, axes: dict[str, int]) -> tuple[int, ...]:
    """The tensor's shape at this workload's axes."""
    return tuple(axes[axis] if isinstance(axis, str) else axis for axis in tensor.shape)


def draw(tensors: tuple[wire.TensorSpec, ...], axes: dict[str, int], key: str, device: Device) -> list[torch.Tensor]:
    """One contiguous tensor per spec, on the device; the same key gives the same values. Scalars stay with the host."""
    values = device.source(key)
    structure = random.Random(f"structure {key}")
    drawn = [_draw_one(tensor, shape_of(tensor, axes), values, structure, device.TORCH) for tensor in tensors]
    return [one if tensor.shape else one.cpu() for one, tensor in zip(drawn, tensors, strict=True)]


def _draw_one(tensor: wire.TensorSpec, shape: tuple[int, ...], values: Source, structure: random.Random, where: str) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, tensor.dtype)
    of = tensor.distribution
    if of.kind == "constant":
        return torch.full(shape, of.high, dtype=dtype, device=where)
    if of.kind == "integers" or not dtype.is_floating_point:
        high = of.high if of.kind == "integers" else (1 if dtype == torch.bool else 100)
        return values.integers(int(of.low), int(high), shape).to(dtype)
    if of.kind == "uniform":
        return (values.uniform(shape) * (of.high - of.low) + of.low).to(dtype)
    drawn = values.normal(shape)
    if of.kind == "heavy_tail":
        chi = values.normal((3, *shape))
        drawn = drawn * torch.rsqrt(chi.square_().mean(0).clamp_min_(1e-3))
    scale = of.scale * 2.0 ** structure.uniform(-1.0, 1.0)
    drawn = drawn * scale + structure.uniform(-0.25, 0.25) * scale
    _plant_needles(drawn, structure, scale)
    result: torch.Tensor = drawn.to(dtype)
    return result


def _plant_needles(drawn: torch.Tensor, structure: random.Random, scale: float) -> None:
    """Make a few random elements large: whoever reads only a part of the input misses them."""
    count = math.prod(drawn.shape)
    flat = drawn.view(-1)
    for _ in range(min(NEEDLE_COUNT, count // 64)):
        flat[structure.randrange(count)] = structure.choice((-1, 1)) * NEEDLE_FACTOR * scale
