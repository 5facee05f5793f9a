"""Where the tensors of a trial lie in the arena: random order, random offsets, a guard band on both sides of each."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from sandbox.judge.inputs import shape_of
from sandbox.protocol import wire
from sandbox.protocol.gate import Slot, span

ALIGN_BYTES = 256  # what cudaMalloc promises; vector loads rely on it
BAND_BYTES = 8192
WANDER_BYTES = 64 * 1024  # how far offsets may be pushed about, per tensor
BATCH_LIMIT = 64  # placements side by side
LEAST_ARENA_BYTES = 16 << 20  # to map 64 MiB for each runner took 50 ms; larger ones are multiples of this
STEPS_BITS = 2  # a round number is a power of two, or that and one, two or three quarters more
STEP_LIMIT_BYTES = 1 << 30  # and of those beyond 4 GiB a multiple of this: a quarter of 16 GiB would be missed
_RANDOM = random.SystemRandom()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Slots of inputs and outputs (scalars have no place), and the guard bands as (begin, end) byte offsets. begin, end: of all of it."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    bands: tuple[tuple[int, int], ...]
    begin: int
    end: int

    @property
    def span(self) -> int:
        """How many bytes it takes; others of its kind may follow at such steps."""
        return self.end - self.begin


def byte_count(tensor: wire.TensorSpec, axes: dict[str, int]) -> int:
    """How many bytes the tensor's elements take at this workload."""
    return span(shape_of(tensor, axes)) * int(getattr(torch, tensor.dtype).itemsize)


def memory_bytes(tensor: wire.TensorSpec, workload: wire.Workload) -> int:
    """How many bytes of memory it takes, gaps included."""
    return _slot(tensor, workload).element_count * int(getattr(torch, tensor.dtype).itemsize)


def arena_bytes(problem: wire.ProblemSpec, batch_bytes: int = 0) -> int:
    """Enough for every workload, wherever its tensors are pushed, and for batches of batch_bytes."""
    return max(batch_bytes, LEAST_ARENA_BYTES, *(placement_bytes(problem, workload) for workload in problem.workloads))


def rounded(size_bytes: int) -> int:
    """A round number that is no less: what an untrusted process can learn of it must not tell how large hidden workloads are."""
    step = min(STEP_LIMIT_BYTES, max(LEAST_ARENA_BYTES, 1 << max(0, size_bytes.bit_length() - 1 - STEPS_BITS)))
    return -(-size_bytes // step) * step


def placement_bytes(problem: wire.ProblemSpec, workload: wire.Workload) -> int:
    """The most that one placement takes."""
    tensors = (*problem.inputs, *problem.outputs)
    return sum(memory_bytes(tensor, workload) + 2 * BAND_BYTES + WANDER_BYTES + 2 * ALIGN_BYTES for tensor in tensors)


def place(problem: wire.ProblemSpec, workload: wire.Workload, spare_bytes: int = 0) -> Placement:
    """Draw a placement that begins in the first spare_bytes. A tensor ends at its last byte: the band begins right behind it."""
    tensors = [(True, index, tensor) for index, tensor in enumerate(problem.inputs)]
    tensors += [(False, index, tensor) for index, tensor in enumerate(problem.outputs)]
    _RANDOM.shuffle(tensors)
    inputs = [Slot(offset=0, shape=())] * len(problem.inputs)
    outputs = [Slot(offset=0, shape=())] * len(problem.outputs)
    begin = _RANDOM.randrange(max(spare_bytes, 1)) // ALIGN_BYTES * ALIGN_BYTES
    bands, at = [], begin
    for is_input, index, tensor in tensors:
        if is_input and not tensor.shape:
            continue  # a scalar goes by value
        first = _align(at + BAND_BYTES + _RANDOM.randrange(WANDER_BYTES))
        end = first + memory_bytes(tensor, workload)
        bands += [(first - BAND_BYTES, first), (end, end + BAND_BYTES)]
        (inputs if is_input else outputs)[index] = _slot(tensor, workload, first)
        at = end + BAND_BYTES
    return Placement(inputs=tuple(inputs), outputs=tuple(outputs), bands=tuple(bands), begin=begin, end=_align(at))


def _slot(tensor: wire.TensorSpec, workload: wire.Workload, offset: int = 0) -> Slot:
    return Slot(offset=offset, shape=shape_of(tensor, workload.axes), strides=workload.strides.get(tensor.name, ()))


def _align(offset: int) -> int:
    return -(-offset // ALIGN_BYTES) * ALIGN_BYTES
