"""Runs a kernel once under the judge's eyes: place, publish inputs and poison, go, wait, snapshot; and draws the fact of the run.

Tensors lie in the arena in random order, at random offsets, with a band of random bytes on both sides of each. An output that is an input,
too, is written like one before every run; the others are poisoned. Floats get a signalling NaN whose payload is random per trial. Integers
get a random sentinel, and so do floats of one byte, which have too few NaNs. A CPU's arithmetic makes a signalling NaN quiet and keeps its
payload (Intel SDM, volume 1, 4.8.3.5), so an element that was computed from what its output held before, such as 0 * c, is seen to be
written. A GPU's arithmetic makes its own NaN of it.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import torch

from sandbox.devices import Device
from sandbox.devices.clock import RunCopies
from sandbox.judge import inputs
from sandbox.judge.inputs import shape_of
from sandbox.judge.references import Reference, ReferenceFailed, Task, blamed
from sandbox.judge.runner_link import RunnerLink, Silence, is_ok
from sandbox.judge.tolerance import (
    Comparison,
    compare,
    except_right_nan,
    fill_with_poison,
    forgive_rounding_noise,
    is_narrow,
    joined,
    memory_of,
    same_bytes,
    unwritten_mask,
)
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, Answer, Call, Operation, Slot, Status, span

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


@dataclass(slots=True)
class WorkloadContext:
    """A problem at a workload, as judge and runner see it; remembers the last placement and the last inputs, and the next ones where
    they were drawn ahead."""

    task: Task
    workload: wire.Workload
    placement: Placement | None = None
    spent: list[torch.Tensor] | None = None
    ahead: tuple[str, list[torch.Tensor]] | None = None

    @property
    def problem(self) -> wire.ProblemSpec:
        """The task's."""
        return self.task.spec

    @property
    def tolerance(self) -> wire.Tolerance:
        """The workload's own, or the problem's."""
        return self.workload.tolerance or self.problem.tolerance

    def fresh_inputs(self, device: Device) -> tuple[str, list[torch.Tensor]]:
        """Inputs in private memory, after the new 128-bit key, in hex, that they are drawn from."""
        key = secrets.token_hex(16)
        return key, inputs.of_workload(self.problem, self.workload, self.task.draw, key, device)

    @contextmanager
    def drawing_ahead(self, pool: Executor, device: Device) -> Iterator[None]:
        """Draw the inputs of the next run in a thread, and have them at the end."""
        drawn = pool.submit(self.fresh_inputs, device)
        yield
        self.ahead = drawn.result()

    def placed(self, how: RunOptions) -> tuple[object, ...]:
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
    poison_bits: tuple[int | None, ...] = ()  # what lay in the outputs before; None: an input
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
    meanwhile: AbstractContextManager[None] = field(default_factory=nullcontext)  # what the judge does while the kernel runs


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
    with how.meanwhile:
        snapshots = [[torch.empty_like(target) for target in scene.targets] for scene in scenes]
        poison_bits: list[tuple[int, ...]] = []

        def poison_snapshots() -> None:
            poison_bits.extend(tuple(map(fill_with_poison, outputs)) for outputs in snapshots)

        call = _call(placement, scenes[0].drawn, bench, how)
        # The runner gets the places, and stirs its memory; meanwhile the judge works in its own memory, and in no other. The runner's
        # code is warmed with inputs that it has had already, for those of this run are secret.
        if there:
            ready: Answer | Silence = FINE
            poison_snapshots()
        else:
            ready = runner.call(call, PLACE_S, poison_snapshots)
            runner.placed = bench.placed(how) if ready == FINE else None
        warm_count = how.warm_count if bench.problem.is_repeatable else min(1, how.warm_count)
        if warm_count and bench.spent is not None and is_ok(ready):
            for buffers in scenes:
                for memory, spent in zip(buffers.places, bench.spent, strict=True):
                    if memory is not None:
                        memory.copy_(memory_of(spent))
            runner.device.synchronize()
            runner.gate.write_scalars(_scalars(bench, bench.spent))
            warm = Operation.WARM if how.operation is Operation.CALL else Operation.WARM_NULL
            ready = runner.call(Call(operation=warm, count=warm_count), warm_count * how.count * limit_s)
        if not is_ok(ready):
            return [Run(key=scene.key, reply=ready, duration_ns=0, inputs=scene.drawn) for scene in scenes]
        bench.spent = scenes[-1].drawn
        for scene in scenes:  # now that the runner has answered: what it still did before may have written anywhere
            # Write the bands around the tensors, in which nothing may change.
            for band in scene.bands:
                band.copy_(scene.guard[: len(band)])
        copies = [scene.copies(outputs) for scene, outputs in zip(scenes, snapshots, strict=True)]
        device.acquire_context()
        train = runner.take_train(how.operation, limit_s, copies, _scalars(bench, scenes[0].drawn))
        reply = runner.reply()
    results = []
    for scene, outputs, bits, duration_ns in zip(scenes, snapshots, poison_bits, train.durations_ns, strict=True):
        result = Run(key=scene.key, reply=reply, duration_ns=duration_ns, inputs=scene.drawn, outputs=outputs)
        results.append(scene.inspected(result, bits, bench.task.scratch) if how.inspect else result)
    return results


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunBuffers:
    """Memory of a run: what is private, and where it meets the runner."""

    key: str
    drawn: list[torch.Tensor]
    places: list[torch.Tensor | None]  # the memory of the inputs in the arena, flat; None for a scalar
    targets: list[torch.Tensor]  # the outputs in the arena
    bands: list[torch.Tensor]
    guard: torch.Tensor
    in_place: tuple[int | None, ...]  # for each output the number of the input that it is

    def copies(self, outputs: list[torch.Tensor]) -> RunCopies:
        """Return the copies of a run. outputs: private, with the poison that is published, for the snapshot.

        What a kernel may write goes last, poison or an input: what a runner wrote before its inputs were there is gone, so that no part of
        the work can be done early.
        """
        read = list(zip(outputs, self.targets, strict=True))
        changed = [(to, poison if number is None else self.drawn[number]) for (poison, to), number in zip(read, self.in_place, strict=True)]
        inputs = [
            (target, memory_of(private))
            for index, (target, private) in enumerate(zip(self.places, self.drawn, strict=True))
            if target is not None and index not in self.in_place
        ]
        return RunCopies(publish=[*inputs, *changed], snapshot=read)

    def inspected(self, result: Run, poison_bits: tuple[int, ...], scratch: tuple[int, ...]) -> Run:
        """The same, with what it says of the runner's manners. scratch: numbers of other inputs that a kernel may write to."""
        modified = any(
            place is not None and index not in {*scratch, *self.in_place} and not same_bytes(place, memory_of(private))
            for index, (place, private) in enumerate(zip(self.places, self.drawn, strict=True))
        )
        poison = tuple(bits if number is None else None for bits, number in zip(poison_bits, self.in_place, strict=True))
        return replace(
            result,
            unwritten=[unwritten_mask(output, bits) for output, bits in zip(result.outputs, poison, strict=True)],
            poison_bits=poison,
            inputs_modified=modified,
            out_of_bounds=not torch.equal(torch.cat(self.bands), torch.cat([self.guard[: len(band)] for band in self.bands])),
        )


def _scene(
    runner: RunnerLink, bench: WorkloadContext, placement: Placement, shift: int, *, guarded: bool, reused: list[torch.Tensor] | None
) -> _RunBuffers:
    """Draw inputs in private memory, or take known ones. guarded: bands around the tensors have to be as they were."""
    problem, arena = bench.problem, runner.arena
    if reused is not None:
        key, drawn = "", reused
    else:
        (key, drawn), bench.ahead = bench.ahead or bench.fresh_inputs(runner.device), None
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
    return _RunBuffers(key=key, drawn=drawn, places=places, targets=targets, bands=bands, guard=guard, in_place=problem.in_place)


def scalars_are_late(bench: WorkloadContext) -> bool:
    """Return whether an input without a shape has another value in each run: it is published inside the clock, as the other inputs are. One
    that a problem declares as constant is known to everybody before."""
    own_draw = bench.task.draw is not None
    return any(not tensor.shape and (own_draw or tensor.distribution.kind != "constant") for tensor in bench.problem.inputs)


def _scalars(bench: WorkloadContext, drawn: list[torch.Tensor]) -> tuple[float, ...]:
    """Return the numbers that are published with `go`, one for each input, of which those of tensors say nothing. () where nothing is
    late."""
    if not scalars_are_late(bench):
        return ()
    return tuple(0.0 if tensor.shape else float(value) for tensor, value in zip(bench.problem.inputs, drawn, strict=True))


def _call(placement: Placement, drawn: list[torch.Tensor], bench: WorkloadContext, how: RunOptions) -> Call:
    problem, late = bench.problem, scalars_are_late(bench)
    slots = tuple(
        slot if tensor.shape else Slot(offset=0, shape=(), scalar=0.0 if late else float(value))
        for slot, tensor, value in zip(placement.inputs, problem.inputs, drawn, strict=True)
    )
    return Call(
        operation=Operation.PLACE,
        inputs=slots,
        outputs=tuple(slot for slot in placement.outputs if slot not in placement.inputs),
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
    """Slots of inputs and outputs (scalars have no place; one that is both has one slot), and the guard bands as (begin, end) byte offsets.
    span: how many bytes it takes from begin on; others of its kind may follow at such steps."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    bands: tuple[tuple[int, int], ...]
    begin: int
    span: int


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
    tensors = (*problem.inputs, *problem.separate_outputs)
    return sum(memory_bytes(tensor, workload) + 2 * BAND_BYTES + WANDER_BYTES + 2 * ALIGN_BYTES for tensor in tensors)


def place(problem: wire.ProblemSpec, workload: wire.Workload, spare_bytes: int = 0) -> Placement:
    """Draw a placement that begins in the first spare_bytes. A tensor ends at its last byte: the band begins right behind it."""
    tensors = [(True, index, tensor) for index, tensor in enumerate(problem.inputs)]
    tensors += [(False, index, tensor) for index, tensor in enumerate(problem.outputs) if problem.in_place[index] is None]
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
    outputs = [slot if number is None else inputs[number] for slot, number in zip(outputs, problem.in_place, strict=True)]
    return Placement(inputs=tuple(inputs), outputs=tuple(outputs), bands=tuple(bands), begin=begin, span=_align(at) - begin)


def _slot(tensor: wire.TensorSpec, workload: wire.Workload, offset: int = 0) -> Slot:
    return Slot(offset=offset, shape=shape_of(tensor, workload.axes), strides=workload.strides.get(tensor.name, ()))


def _align(offset: int) -> int:
    return -(-offset // ALIGN_BYTES) * ALIGN_BYTES


def expected(
    reference: Reference, drawn: list[torch.Tensor], problem: wire.ProblemSpec, *, dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    """The reference's outputs for private copies of the inputs, their floats cast to dtype, checked against what the problem declares."""
    private = [tensor.to(dtype, copy=True) if dtype is not None and tensor.is_floating_point() else tensor.clone() for tensor in drawn]
    with blamed("the reference"):
        results = reference(private)
    if len(results) != len(problem.outputs):
        raise ReferenceFailed(f"the reference returned {len(results)} outputs; problem.toml declares {len(problem.outputs)}")
    return results


def judge_run(result: Run, bench: WorkloadContext, phase: wire.TrialPhase, index: int) -> wire.Trial:
    """Draw the fact of a run. The reference is computed only now, when the snapshot is in private memory."""
    workload = bench.workload
    trial = partial(
        wire.Trial,
        workload_id=workload.workload_id,
        hidden=workload.hidden,
        phase=phase,
        index=index,
        key=result.key,
        duration_ns=result.duration_ns,
    )
    if (spoken := _spoken(result.reply)) is not None:
        return trial(outcome=spoken[0], message=spoken[1])
    comparisons = _compare_all(result, bench)
    outcomes = (comparison.outcome for comparison in comparisons)
    outcome = next((outcome for outcome in outcomes if outcome is not wire.TrialOutcome.PASSED), wire.TrialOutcome.PASSED)
    # A stray write outside the outputs explains what is wrong inside them, so it is named first.
    if result.out_of_bounds:
        outcome = wire.TrialOutcome.OUT_OF_BOUNDS
    elif result.inputs_modified and outcome is wire.TrialOutcome.PASSED:
        outcome = wire.TrialOutcome.INPUT_MODIFIED
    return trial(outcome=outcome, **asdict(joined(comparisons)))


def _spoken(reply: Answer | Silence) -> tuple[wire.TrialOutcome, str] | None:
    """Return what the reply alone decides: never a pass."""
    match reply:
        case Silence.GONE:
            return wire.TrialOutcome.CRASHED, "the kernel's process ended during the call"
        case Silence.TIMED_OUT:
            return wire.TrialOutcome.TIMED_OUT, ""
        case Answer(status=Status.OK):
            return None
        case Answer(status=Status.WRONG_SHAPE | Status.WRONG_DTYPE | Status.DEVICE_FAULT | Status.OUT_OF_MEMORY as status):
            return wire.TrialOutcome[status.name], reply.message
    return wire.TrialOutcome.RAISED, reply.message


def _compare_all(result: Run, bench: WorkloadContext) -> list[Comparison]:
    problem = bench.problem
    references = expected(bench.task.reference, result.inputs, problem)
    triples = zip(result.unwritten, result.outputs, references, strict=True)
    unwritten = [except_right_nan(mask, output, reference) for mask, output, reference in triples]
    if bench.task.compare is not None:
        return bench.task.compare(bench.workload, result.inputs, result.outputs, references, unwritten)
    wide: list[torch.Tensor | None] = [None] * len(references)  # in double precision, for the error budget
    is_rounded = any(is_narrow(reference.dtype) for reference in references)
    if is_rounded or (bench.tolerance.budget_factor is not None and any(reference.dtype.is_floating_point for reference in references)):
        wide = list(expected(bench.task.reference64 or bench.task.reference, result.inputs, problem, dtype=torch.float64))
    for output, reference, tensor in zip(result.outputs, references, problem.outputs, strict=True):
        if not isinstance(reference, torch.Tensor) or reference.device != output.device:
            where = f"a tensor on {reference.device}" if isinstance(reference, torch.Tensor) else f"a {type(reference).__name__}"
            raise ReferenceFailed(f"the reference's {tensor.name!r} is {where}; return a tensor on the device of its inputs")
        if reference.shape != output.shape or reference.dtype != output.dtype:
            raise ReferenceFailed(
                f"the reference's {tensor.name!r} is {reference.dtype} {tuple(reference.shape)}; "
                f"problem.toml declares {output.dtype} {tuple(output.shape)}"
            )

    def comparison(index: int, perturbed: Sequence[torch.Tensor] = ()) -> Comparison:
        return compare(result.outputs[index], references[index], wide[index], unwritten[index], bench.tolerance, perturbed)

    def exactly(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return expected(bench.task.reference64 or bench.task.reference, tensors, problem)

    return forgive_rounding_noise([comparison(index) for index in range(len(references))], result.inputs, references, exactly, comparison)
