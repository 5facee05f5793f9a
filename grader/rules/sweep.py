"""Which sizes a sweep has, and how large they may be.  Pure.

A submitter may choose a sweep, so everything about it is bounded: how many sizes, and the memory of each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from grader.model import Sweep
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind

SIZE_LIMIT = 128
LARGEST_SIZE = 2**31 - 1
# All tensors of one size together. The judge takes up to 30 times an output's bytes to compare it (sandbox/judge/lane.py).
BYTES_LIMIT: Mapping[str, int] = {DeviceKind.EMULATED: 128 << 20, DeviceKind.CUDA: 2 << 30}


class SweepInvalid(ValueError):
    """A sweep that cannot be run. key: which of its keys to change."""

    def __init__(self, key: str, message: str) -> None:
        self.key = key
        super().__init__(message)


def sizes(sweep: Sweep) -> tuple[int, ...]:
    """The sizes of the swept axis, smallest first. SweepInvalid where a key is out of range or there are more than SIZE_LIMIT."""
    if (sweep.factor is None) == (sweep.step is None):
        raise SweepInvalid("factor", "a sweep has either a factor or a step; give one of them, such as factor = 2")
    if sweep.factor is not None and not 1 < sweep.factor <= LARGEST_SIZE:
        raise SweepInvalid("factor", f"is {sweep.factor:g}; it has to be over 1, such as 2")
    if sweep.step is not None and sweep.step < 1:
        raise SweepInvalid("step", f"is {sweep.step}; it has to be 1 or more")
    if not 1 <= sweep.start <= LARGEST_SIZE:
        raise SweepInvalid("start", f"is {sweep.start}; it has to be from 1 to {LARGEST_SIZE}")
    if not sweep.start <= sweep.stop <= LARGEST_SIZE:
        raise SweepInvalid("stop", f"is {sweep.stop}; it has to be from start = {sweep.start} to {LARGEST_SIZE}")
    result, size = list[int](), sweep.start
    while size <= sweep.stop:
        if len(result) == SIZE_LIMIT:
            key = "factor" if sweep.step is None else "step"
            raise SweepInvalid(key, f"the sweep has more than {SIZE_LIMIT} sizes; make {key} larger, or stop smaller")
        result.append(size)
        size = max(size + 1, round(size * sweep.factor)) if sweep.factor is not None else size + (sweep.step or 1)
    return tuple(result)


def size_bytes(spec: wire.ProblemSpec, axes: Mapping[str, int]) -> int:
    """How many bytes all inputs and outputs take together at these axes."""
    return sum(
        item_bytes(tensor.dtype) * math.prod(axes[size] if isinstance(size, str) else size for size in tensor.shape)
        for tensor in (*spec.inputs, *spec.outputs)
    )


def item_bytes(dtype: str) -> int:
    """How many bytes an element takes."""
    return max(1, int((re.search(r"\d+", dtype) or "8")[0]) // 8)  # bool has no number in its name


def check_bytes(spec: wire.ProblemSpec, axes: Mapping[str, int], axis: str, device_kind: str) -> None:
    """SweepInvalid where the tensors of this size take more memory than a sweep may have on this kind of device."""
    limit = BYTES_LIMIT[device_kind]
    if (needed := size_bytes(spec, axes)) > limit:
        needed_mib, limit_mib = (f"{count / (1 << 20):,.0f} MiB" for count in (needed, limit))
        text = f"at {axis} = {axes[axis]} the tensors take {needed_mib}; a sweep on a device of kind {device_kind} may have {limit_mib}"
        raise SweepInvalid("stop", f"{text} at a size; choose a smaller stop, or smaller other axes")
