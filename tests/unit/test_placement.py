"""Tensors lie apart, aligned, in the arena, and somewhere else each time."""

import mmap
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from sandbox.devices.clock import RunCopies, TrainTime
from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, Answer, Call, Operation
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge.baseline import runner_job
    from sandbox.judge.inputs import draw
    from sandbox.judge.references import Task
    from sandbox.judge.trial import (
        ALIGN_BYTES,
        BAND_BYTES,
        TRAIN_LIMIT,
        RunOptions,
        WorkloadContext,
        arena_bytes,
        byte_count,
        longest_train,
        place,
        placement_bytes,
        rounded,
        run_train,
    )


SPEC = replace(
    fakes.problem().spec,
    inputs=(
        wire.TensorSpec(name="a", dtype="float32", shape=("n", "m")),
        wire.TensorSpec(name="s", dtype="float32", shape=()),
        wire.TensorSpec(name="i", dtype="int8", shape=("n",)),
    ),
    outputs=(wire.TensorSpec(name="c", dtype="float16", shape=("m", 3)),),
    workloads=(wire.Workload(workload_id="w", axes={"n": 33, "m": 7}), wire.Workload(workload_id="x", axes={"n": 1, "m": 1})),
    axes=("n", "m"),
)


@pytest.mark.parametrize("workload", SPEC.workloads)
def test_nothing_overlaps_and_bands_touch_their_tensors(workload: wire.Workload) -> None:
    for _ in range(50):
        placement = place(SPEC, workload)
        tensors = [(placement.inputs[0], SPEC.inputs[0]), (placement.inputs[2], SPEC.inputs[2]), (placement.outputs[0], SPEC.outputs[0])]
        spans = sorted([(slot.offset, slot.offset + byte_count(tensor, workload.axes)) for slot, tensor in tensors] + list(placement.bands))
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
        assert spans[-1][1] <= arena_bytes(SPEC)
        for slot, tensor in tensors:
            end = slot.offset + byte_count(tensor, workload.axes)
            assert slot.offset % ALIGN_BYTES == 0
            assert (slot.offset - BAND_BYTES, slot.offset) in placement.bands and (end, end + BAND_BYTES) in placement.bands


def test_a_placement_roams_where_the_arena_has_room() -> None:
    """Where memory lies matters to a kernel's time: a small workload sees all of a large arena, and stays inside it. Offsets are not
    predictable in a small one either."""
    workload, room = SPEC.workloads[0], 10_000_000
    assert len({place(SPEC, workload).outputs[0].offset for _ in range(20)}) > 10
    spare = room - placement_bytes(SPEC, workload)
    placements = [place(SPEC, workload, spare) for _ in range(400)]
    assert all(placement.begin + placement.span <= room and placement.begin % ALIGN_BYTES == 0 for placement in placements)
    assert min(placement.begin for placement in placements) < spare / 20 and max(placement.begin for placement in placements) > spare * 0.95
    assert all(placement.span <= placement_bytes(SPEC, workload) for placement in placements)


@pytest.mark.parametrize("count", [1, 3])
def test_many_placements_in_a_row_fit_wherever_the_last_one_was(count: int) -> None:
    """A placement that is used again begins where the train behind it ends inside the arena; without room at the front, as on a device
    where untouched memory costs time."""
    bench = WorkloadContext(Task(spec=SPEC, reference=lambda *_: []), SPEC.workloads[0])
    room = 4 * placement_bytes(SPEC, SPEC.workloads[0])
    for _ in range(200):
        bench.next_placement(room, 1)
        placement = bench.next_placement(room, count)
        assert placement.begin + count * placement.span <= room
    assert {bench.next_placement(0, 1).begin for _ in range(20)} == {0}


class FakeRunner:
    """A runner that answers everything, and what was to be placed."""

    def __init__(self, clock: wire.Clock = wire.Clock.HOST, arena_bytes: int = 1 << 20) -> None:
        self.device, self.placed, self.counts = EmulatedDevice(), None, list[int]()
        self.device.CLOCK = clock  # type: ignore[misc]
        self.arena = self.device.create_arena(arena_bytes)

    def call(self, call: Call, _limit_s: float, meanwhile: Callable[[], None]) -> Answer:
        self.counts.append(call.count)
        meanwhile()
        return FINE

    def take_train(self, _operation: Operation, _limit_s: float, runs: Sequence[RunCopies], _scalars: object) -> TrainTime:
        return TrainTime(durations_ns=(1,) * len(runs))

    def reply(self) -> Answer:
        return FINE


def test_a_null_run_where_the_last_run_was_makes_no_place() -> None:
    """A null run for other runs, bound otherwise, or for another workload makes one, and so does each run whose inputs a kernel reads."""
    runner = FakeRunner()
    first, second = (WorkloadContext(Task(spec=SPEC, reference=lambda *_: []), workload) for workload in SPEC.workloads)
    null = RunOptions(operation=Operation.NULL, inspect=False)
    for bench, how, placed in (
        (first, RunOptions(), True),
        (first, null, False),
        (first, RunOptions(), True),
        (first, replace(null, copy_out=True), True),
        (first, replace(null, copy_out=True), False),
        (first, replace(null, count=2), True),
        (first, replace(null, count=2), False),
        (first, replace(null, count=3), True),
        (second, replace(null, count=3), True),
        (first, replace(null, count=3), True),
    ):
        runner.counts.clear()
        assert len(run_train(runner, bench, how)) == how.count  # type: ignore[arg-type]
        assert runner.counts == [how.count] * placed


def test_a_train_is_as_long_as_its_places_allow() -> None:
    """By the host's clock it has one run, and so where scalars vary: they go with `go`."""
    spec = replace(SPEC, inputs=(SPEC.inputs[0], SPEC.inputs[2]))
    size_bytes = placement_bytes(spec, spec.workloads[0])

    def longest(arena_bytes: int, spec: wire.ProblemSpec = spec, clock: wire.Clock = wire.Clock.DEVICE_EVENTS) -> int:
        bench = WorkloadContext(Task(spec=spec, reference=lambda *_: []), spec.workloads[0])
        return longest_train(FakeRunner(clock, arena_bytes), bench)  # type: ignore[arg-type]

    assert longest(100 * size_bytes) == TRAIN_LIMIT
    assert longest(3 * size_bytes + mmap.PAGESIZE) == 3 and longest(mmap.PAGESIZE) == 1
    assert longest(100 * size_bytes, SPEC) == longest(100 * size_bytes, clock=wire.Clock.HOST) == 1


def test_every_bit_half_of_the_key_matters() -> None:
    """Values and structure come from different halves, so that neither tells of the other."""
    key = "0" * 32
    base = draw(SPEC.inputs, SPEC.workloads[0].axes, key, EmulatedDevice())[0]
    assert not (base == draw(SPEC.inputs, SPEC.workloads[0].axes, "1" + key[1:], EmulatedDevice())[0]).all()
    assert not (base == draw(SPEC.inputs, SPEC.workloads[0].axes, key[:-1] + "1", EmulatedDevice())[0]).all()


@pytest.mark.parametrize("train_bytes", [0, 2 << 30])
def test_an_arena_does_not_tell_how_large_the_largest_workload_is(train_bytes: int) -> None:
    """The runner is told its size when it loads, before hidden workloads are run: a round number, and enough."""

    def of(size: int) -> int:
        workloads = (*SPEC.workloads, wire.Workload(workload_id="h", axes=dict.fromkeys(SPEC.workloads[0].axes, size), hidden=True))
        return rounded(arena_bytes(replace(SPEC, workloads=workloads), train_bytes))

    def needed(size: int) -> int:
        return placement_bytes(SPEC, replace(SPEC.workloads[0], axes=dict.fromkeys(SPEC.workloads[0].axes, size)))

    sizes = {of(size) for size in range(100, 20_000, 7)}
    assert len(sizes) <= 40 and all(placement % (16 << 20) == 0 for placement in sizes)
    assert all(of(size) >= needed(size) for size in range(100, 20_000, 7))
    assert of(1000) == of(1001) == of(1013)


def test_a_trusted_runner_has_the_arena_that_it_needs() -> None:
    """A runner that knows the sizes takes no memory that the kernel could use."""
    large = wire.Workload(workload_id="n", axes=dict.fromkeys(SPEC.workloads[0].axes, 30_000))
    spec, device = replace(SPEC, workloads=(large,)), EmulatedDevice()
    trusted_bytes, subject_bytes = (runner_job(spec, "cuda", "solve", device, trusted=trusted).arena_bytes for trusted in (True, False))
    assert trusted_bytes == arena_bytes(spec) < subject_bytes == rounded(trusted_bytes)
