"""Runs a kernel once under the judge's eyes: place, publish inputs and poison, go, wait, snapshot.

Tensors lie in the arena in random order, at random offsets, with a band of random bytes on both sides of each. Outputs are poisoned. Floats
get a signalling NaN whose payload is random per trial. Integers get a random sentinel, and so do floats of one byte, which have too few
NaNs. A CPU's arithmetic makes a signalling NaN quiet and keeps its payload (Intel SDM, volume 1, 4.8.3.5), so an element that was computed
from what its output held before, such as 0 * c, is seen to be written. A GPU's arithmetic makes its own NaN of it.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from sandbox.devices import Device
from sandbox.devices.clock import RunCopies
from sandbox.judge import inputs
from sandbox.judge.inputs import shape_of
from sandbox.judge.references import Compare, Draw, Reference, Task
from sandbox.judge.runner_link import RunnerLink, Silence
from sandbox.judge.tensors import FLOAT4, is_narrow, memory_of, same_bytes, sum_is_finite
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, Answer, Call, Operation, Slot, Status, span

# dtype -> (integer type of the same width, quiet NaN without payload, payload bits); the bit above the payload makes a NaN quiet
_NAN = {
    torch.float64: (torch.int64, 0x7FF8_0000_0000_0000, 51),
    torch.float32: (torch.int32, 0x7FC0_0000, 22),
    torch.float16: (torch.int16, 0x7E00, 9),
    torch.bfloat16: (torch.int16, 0x7FC0, 6),
}
ALL_BITS_OF_BYTE, ONE_BYTE_LIMIT = 255, 256
ALL_BITS = -1  # a NaN in every float format, which no arithmetic makes
_WIDTH = {torch.int64: torch.int64, torch.int32: torch.int32, torch.int16: torch.int16, torch.int8: torch.uint8, torch.uint8: torch.uint8}
PLACE_S = 10.0
ON_NOTHING = (Operation.NULL, Operation.FLOOR)  # nobody reads their inputs: the last call's will do
REPEAT_PLACEMENT = 0.5  # chance to use the same pointers again with other values: a kernel that remembers an answer by its pointer is wrong
ALIGN_BYTES = 256  # what cudaMalloc promises; vector loads rely on it
BAND_BYTES = 8192
WANDER_BYTES = 64 * 1024  # how far offsets may be pushed about, per tensor
TRAIN_LIMIT = 6  # runs that a runner enqueues at once
TRAIN_BYTES = 2 << 30  # what an arena is made larger for, so that their places fit
LEAST_ARENA_BYTES = 16 << 20  # to map 64 MiB for each runner took 50 ms; larger ones are multiples of this
STEPS_BITS = 2  # a round number is a power of two, or that and one, two or three quarters more
STEP_LIMIT_BYTES = 1 << 30  # and of those beyond 4 GiB a multiple of this: a quarter of 16 GiB would be missed
# What one byte of the inputs and of the outputs takes at most while it is compared: copies, fp64, errors, masks.
INPUT_FACTOR, OUTPUT_FACTOR, SPARE_BYTES = 7, 30, 1 << 30
_RANDOM = random.SystemRandom()
Placed = tuple[wire.Workload, "Placement | None", int, bool, bool]


def fill_with_poison(output: torch.Tensor) -> int:
    """Fill an output with this trial's poison and return its bits; `unwritten` wants them back."""
    dtype = output.dtype
    if dtype in _NAN:
        kind, nan, payload = _NAN[dtype]
        # Neither all clear, which is infinity, nor all set, which is the NaN of GPUs once it is quiet.
        bits = (nan ^ (1 << payload)) | (1 + secrets.randbelow((1 << payload) - 2))
    elif dtype == torch.bool:
        kind, bits = torch.uint8, 2 + secrets.randbelow(254)  # no boolean that a kernel writes
    elif is_narrow(dtype):
        kind, bits = torch.uint8, secrets.randbelow(ONE_BYTE_LIMIT)
    else:
        kind = _WIDTH[dtype]
        info = torch.iinfo(kind)
        bits = info.min + secrets.randbelow(info.max - info.min + 1)
    output.view(kind).fill_(bits)
    return bits


def unwritten_mask(output: torch.Tensor, bits: int) -> torch.Tensor:
    """A mask of the elements that nobody wrote: this trial's poison, or what memory holds that the kernel allocated: all bits set, by
    `Device.stir`, or NaN and the largest integer, by torch (torch.utils.deterministic.fill_uninitialized_memory)."""
    dtype = output.dtype
    if dtype in _NAN:
        if sum_is_finite(output):
            return torch.zeros_like(output, dtype=torch.bool)
        kind, nan, _ = _NAN[dtype]
        raw = output.view(kind)
        return (raw == bits) | (raw == nan) | (raw == ALL_BITS)
    if dtype == torch.bool:
        return output.view(torch.uint8) > 1
    if is_narrow(dtype):
        raw = output.view(torch.uint8)
        return (raw == bits) | (raw == ALL_BITS_OF_BYTE) | (raw == _fresh_byte(dtype))
    raw = output.view(_WIDTH[dtype])
    return (raw == bits) | (raw == torch.iinfo(raw.dtype).max) | (raw == (ALL_BITS if raw.dtype.is_signed else 255))


def _fresh_byte(dtype: torch.dtype) -> int:
    """Return the byte that torch fills fresh memory of a float of one byte with: its NaN; it fills none of float4, which has none."""
    if dtype == FLOAT4:
        return ALL_BITS_OF_BYTE
    return int(torch.full((1,), torch.nan).to(dtype).view(torch.uint8))


def output_was_read(output: torch.Tensor, bits: int) -> bool:
    """Return whether an element is this trial's poison after an operation on it."""
    if output.dtype not in _NAN or sum_is_finite(output):
        return False
    kind, nan, _ = _NAN[output.dtype]
    return bool((output.view(kind) == (bits | nan)).any())


def except_right_nan(unwritten: torch.Tensor, output: torch.Tensor, reference: object) -> torch.Tensor:
    """A mask of `unwritten`, without the elements that are NaN in the reference too and hold another NaN than this trial's poison.

    A kernel's own right NaN has the bits that fresh memory is filled with. So a kernel that leaves its fresh memory as it is where the
    reference is NaN is right there: its answer is the one asked for. Anywhere else, and in the memory that the judge poisoned, nothing
    is forgiven.
    """
    if output.dtype not in _NAN or not isinstance(reference, torch.Tensor) or not bool(unwritten.any()):
        return unwritten
    if (reference.shape, reference.dtype, reference.device) != (output.shape, output.dtype, output.device):
        return unwritten  # the mismatch is reported elsewhere
    kind, nan, _ = _NAN[output.dtype]
    raw = output.view(kind)
    return unwritten & ~(reference.isnan() & ((raw == nan) | (raw == ALL_BITS)))


@dataclass(frozen=True, slots=True)
class DrawnInputs:
    """The inputs of one run, in private memory, and the key that they were drawn from."""

    key: str
    tensors: list[torch.Tensor]

    @classmethod
    def fresh(cls, bench: WorkloadContext, device: Device) -> DrawnInputs:
        """Inputs of this workload from a new key."""
        key = inputs.fresh_key()
        return cls(key, inputs.of_workload(bench.problem, bench.workload, bench.draw, key, device))


@dataclass(slots=True)
class WorkloadContext:
    """A problem at a workload, as judge and runner see it; remembers the last placement and the last inputs, and the next ones where
    they were drawn ahead."""

    problem: wire.ProblemSpec
    workload: wire.Workload
    reference: Reference
    reference64: Reference | None = None
    draw: Draw | None = None
    compare: Compare | None = None
    scratch: tuple[int, ...] = ()
    placement: Placement | None = None
    spent: list[torch.Tensor] | None = None
    ahead: DrawnInputs | None = None

    @classmethod
    def of(cls, task: Task, workload: wire.Workload) -> WorkloadContext:
        """A task at one of its workloads."""
        parts = {name: getattr(task, name) for name in ("reference", "reference64", "draw", "compare", "scratch")}
        return cls(problem=task.spec, workload=workload, **parts)

    @property
    def tolerance(self) -> wire.Tolerance:
        """The workload's own, or the problem's."""
        return self.workload.tolerance or self.problem.tolerance

    def placed(self, how: RunOptions) -> Placed:
        """Return what a PLACE at the last placement was for: null runs for which it would be the same need no other."""
        return self.workload, self.placement, how.count, how.copy_out, how.poison_allocations

    def next_placement(self, roam_bytes: int, count: int) -> Placement:
        """A fresh placement, or the last one once more; so many of them in a row end within roam_bytes, or begin at 0."""
        spare_bytes = max(0, roam_bytes - count * placement_bytes(self.problem, self.workload))
        last = self.placement
        if last is None or last.begin > spare_bytes or secrets.SystemRandom().random() > REPEAT_PLACEMENT:
            last = self.placement = place(self.problem, self.workload, spare_bytes)
        return last


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Result of a run: private copies only."""

    key: str
    reply: Answer | Silence
    duration_ns: int
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor] = field(default_factory=list)
    unwritten: list[torch.Tensor] = field(default_factory=list)
    poison_bits: tuple[int, ...] = ()  # what lay in the outputs before
    inputs_modified: bool = False
    out_of_bounds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is to be done. warm_count: launches of a WARM before it (`sandbox/protocol/gate.py`; also variant and copy_out, which are
    for the trusted runner)."""

    operation: Operation = Operation.CALL
    poison_allocations: bool = False
    stir: bool = False
    warm_count: int = 0
    limit_s: float | None = None  # None: the problem's trial_s
    variant: int = 0
    copy_out: bool = False
    count: int = 1
    inspect: bool = True  # look for what was not written, or where it should not be; of the trusted runner that is known
    draw_next: WorkloadContext | None = None  # draw the inputs of its next run while this one runs: on the host's cores one is free


def run(runner: RunnerLink, bench: WorkloadContext, how: RunOptions) -> Run:
    """Do one run, on fresh inputs if a kernel reads them. The clock starts before they are published and stops when outputs are read."""
    return run_train(runner, bench, how)[0]


def longest_train(runner: RunnerLink, bench: WorkloadContext) -> int:
    """Return how many runs a train can have: one by the host's clock, and where a launch needs scalars that are drawn anew."""
    if runner.device.CLOCK is wire.Clock.HOST or scalars_are_late(bench):
        return 1
    return max(1, min(TRAIN_LIMIT, runner.arena.size_bytes // placement_bytes(bench.problem, bench.workload)))


def run_train(runner: RunnerLink, bench: WorkloadContext, how: RunOptions) -> list[Run]:
    """Do how.count runs, each with a place and a time of its own; each on inputs of its own, but of a trusted runner. At most
    `longest_train` of them."""
    device = runner.device
    # By the host's clock placements stay at the front: there the first touch of a page is in the kernel's time.
    roam_bytes = runner.arena.size_bytes if device.CLOCK is wire.Clock.DEVICE_EVENTS else 0
    placement = bench.placement
    there = how.operation in ON_NOTHING and placement is not None and runner.placed == bench.placed(how)
    if placement is None or not there:
        placement = bench.next_placement(roam_bytes, how.count)
    limit_s = bench.problem.trial_s if how.limit_s is None else how.limit_s
    shared = bench.spent if how.operation in ON_NOTHING else None
    scenes = list[_RunBuffers]()
    for index in range(how.count):
        scenes.append(_scene(runner, bench, placement, index * placement.span, guarded=how.inspect, reused=shared))
        shared = shared if how.inspect else scenes[0].drawn
    with _drawing(how.draw_next, device):
        snapshots = [[torch.empty_like(target) for target in scene.targets] for scene in scenes]
        poisoned: list[_RunBuffers] = []

        def poison_snapshots() -> None:
            poisoned.extend(scene.poisoned(outputs) for scene, outputs in zip(scenes, snapshots, strict=True))

        call = _call(placement, scenes[0].drawn, bench, how)
        # The runner gets the places, and stirs its memory; meanwhile the judge works in its own memory, and in no other. The runner's
        # code is warmed with inputs that it has had already, for those of this run are secret.
        if there:
            ready: Answer | Silence = FINE
            poison_snapshots()
        else:
            ready = runner.call(call, PLACE_S, poison_snapshots)
            runner.placed = bench.placed(how) if ready == FINE else None
        if how.warm_count and bench.spent is not None and isinstance(ready, Answer) and ready.status is Status.OK:
            for buffers in scenes:
                for memory, spent in zip(buffers.places, bench.spent, strict=True):
                    if memory is not None:
                        memory.copy_(memory_of(spent))
            runner.device.synchronize()
            runner.gate.write_scalars(_scalars(bench, bench.spent))
            warm = Operation.WARM if how.operation is Operation.CALL else Operation.WARM_NULL
            ready = runner.call(Call(operation=warm, count=how.warm_count), how.warm_count * how.count * limit_s)
        if isinstance(ready, Silence) or ready.status is not Status.OK:
            return [Run(key=scene.key, reply=ready, duration_ns=0, inputs=scene.drawn) for scene in scenes]
        bench.spent, scenes = scenes[-1].drawn, poisoned
        for scene in scenes:  # now that the runner has answered: what it still did before may have written anywhere
            # Write the bands around the tensors, in which nothing may change.
            for band in scene.bands:
                band.copy_(scene.guard[: len(band)])
        copies = [scene.copies(outputs) for scene, outputs in zip(scenes, snapshots, strict=True)]
        device.acquire_context()
        train = runner.take_train(how.operation, limit_s, copies, _scalars(bench, scenes[0].drawn))
        reply = runner.reply()
    runs = (
        Run(key=scene.key, reply=reply, duration_ns=duration_ns, inputs=scene.drawn, outputs=outputs)
        for scene, outputs, duration_ns in zip(scenes, snapshots, train.durations_ns, strict=True)
    )
    return [scene.inspected(result) if how.inspect else result for scene, result in zip(scenes, runs, strict=True)]


@contextmanager
def _drawing(bench: WorkloadContext | None, device: Device) -> Iterator[None]:
    """Draw the next inputs of a workload in a thread, and have them at the end."""
    if bench is None:
        yield
        return
    with ThreadPoolExecutor(max_workers=1) as pool:
        drawn = pool.submit(DrawnInputs.fresh, bench, device)
        yield
    bench.ahead = drawn.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunBuffers:
    """Memory of a run: what is private, and where it meets the runner."""

    key: str
    drawn: list[torch.Tensor]
    places: list[torch.Tensor | None]  # the memory of the inputs in the arena, flat; None for a scalar
    targets: list[torch.Tensor]  # the outputs in the arena
    bands: list[torch.Tensor]
    guard: torch.Tensor
    scratch: tuple[int, ...] = ()  # numbers of the inputs that a kernel may write to
    poison_bits: tuple[int, ...] = ()

    def poisoned(self, outputs: list[torch.Tensor]) -> _RunBuffers:
        """Write what is to lie in the outputs into private ones."""
        return replace(self, poison_bits=tuple(fill_with_poison(output) for output in outputs))

    def copies(self, outputs: list[torch.Tensor]) -> RunCopies:
        """Return the copies of a run. outputs: private, with the poison that is published, for the snapshot.

        The poison goes last: what a runner wrote before its inputs were there is gone, so that no part of the work can be done early.
        """
        inputs = [(target, memory_of(private)) for target, private in zip(self.places, self.drawn, strict=True) if target is not None]
        read = list(zip(outputs, self.targets, strict=True))
        return RunCopies(publish=[*inputs, *((target, poison) for poison, target in read)], snapshot=read)

    def inspected(self, result: Run) -> Run:
        """The same, with what it says of the runner's manners."""
        modified = any(
            place is not None and index not in self.scratch and not same_bytes(place, memory_of(private))
            for index, (place, private) in enumerate(zip(self.places, self.drawn, strict=True))
        )
        return replace(
            result,
            unwritten=[unwritten_mask(output, bits) for output, bits in zip(result.outputs, self.poison_bits, strict=True)],
            poison_bits=self.poison_bits,
            inputs_modified=modified,
            out_of_bounds=not torch.equal(torch.cat(self.bands), torch.cat([self.guard[: len(band)] for band in self.bands])),
        )


def _scene(
    runner: RunnerLink, bench: WorkloadContext, placement: Placement, shift: int, *, guarded: bool, reused: list[torch.Tensor] | None
) -> _RunBuffers:
    """Draw inputs in private memory, or take known ones. guarded: bands around the tensors have to be as they were."""
    problem, arena = bench.problem, runner.arena
    if reused is None:
        fresh, bench.ahead = bench.ahead or DrawnInputs.fresh(bench, runner.device), None
    else:
        fresh = DrawnInputs(inputs.fresh_key(), reused)
    drawn = fresh.tensors
    bands, guard = list[torch.Tensor](), torch.empty(0, dtype=torch.uint8)
    if guarded:
        guard = torch.frombuffer(bytearray(secrets.token_bytes(BAND_BYTES)), dtype=torch.uint8).to(runner.device.TORCH)
        memory = arena.tensor(shift + placement.begin, "uint8", (placement.span,))
        bands = [memory[begin - placement.begin : end - placement.begin] for begin, end in placement.bands]
    targets = [
        arena.tensor(shift + slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(placement.outputs, problem.outputs, strict=True)
    ]
    places = [
        arena.tensor(shift + slot.offset, tensor.dtype, (slot.element_count,)) if tensor.shape else None
        for slot, tensor in zip(placement.inputs, problem.inputs, strict=True)
    ]
    return _RunBuffers(key=fresh.key, drawn=drawn, places=places, targets=targets, bands=bands, guard=guard, scratch=bench.scratch)


def scalars_are_late(bench: WorkloadContext) -> bool:
    """Return whether an input without a shape has another value in each run: it is published inside the clock, as the other inputs are. One
    that a problem declares as constant is known to everybody before."""
    return any(not tensor.shape and (bench.draw is not None or tensor.distribution.kind != "constant") for tensor in bench.problem.inputs)


def _scalars(bench: WorkloadContext, drawn: list[torch.Tensor]) -> tuple[float, ...]:
    """Return the numbers that are published with `go`, one for each input, of which those of tensors say nothing. () where nothing is
    late."""
    if not scalars_are_late(bench):
        return ()
    return tuple(0.0 if tensor.shape else float(value) for tensor, value in zip(bench.problem.inputs, drawn, strict=True))


def _call(placement: Placement, drawn: list[torch.Tensor], bench: WorkloadContext, how: RunOptions) -> Call:
    problem, late = bench.problem, scalars_are_late(bench)
    slots = tuple(
        slot if tensor.shape else type(slot)(offset=0, shape=(), scalar=0.0 if late else float(value))
        for slot, tensor, value in zip(placement.inputs, problem.inputs, drawn, strict=True)
    )
    return Call(
        operation=Operation.PLACE,
        inputs=slots,
        outputs=placement.outputs,
        axes=tuple(bench.workload.axes[name] for name in problem.axes),
        poison=how.poison_allocations,
        variant=how.variant,
        copy_out=how.copy_out,
        count=how.count,
        template_index=next((index for index, workload in enumerate(problem.workloads) if workload is bench.workload), 0),
        stride_bytes=placement.span,
        late_scalars=late,
        seed=secrets.randbits(63) | 1 if how.stir else 0,
    )


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


def arena_bytes(problem: wire.ProblemSpec, train_bytes: int = 0) -> int:
    """Enough for every workload, wherever its tensors are pushed, and for trains of train_bytes."""
    return max(train_bytes, LEAST_ARENA_BYTES, *(placement_bytes(problem, workload) for workload in problem.workloads))


def rounded(size_bytes: int) -> int:
    """A round number that is no less: what an untrusted process can learn of it must not tell how large hidden workloads are."""
    step = min(STEP_LIMIT_BYTES, max(LEAST_ARENA_BYTES, 1 << max(0, size_bytes.bit_length() - 1 - STEPS_BITS)))
    return -(-size_bytes // step) * step


def working_bytes(problem: wire.ProblemSpec) -> int:
    """How much of the device's memory judging takes next to the arenas, at the largest workload, as a round number."""

    def of(workload: wire.Workload) -> int:
        inputs, outputs = (sum(memory_bytes(tensor, workload) for tensor in tensors) for tensors in (problem.inputs, problem.outputs))
        of_train = 2 * min(TRAIN_BYTES, TRAIN_LIMIT * (inputs + outputs))  # private, and inside the clock
        return INPUT_FACTOR * inputs + OUTPUT_FACTOR * outputs + of_train

    return rounded(SPARE_BYTES + max(of(workload) for workload in problem.workloads))


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
