"""Tensors lie apart, aligned, in the arena, and somewhere else each time."""

from itertools import pairwise

import pytest

from sandbox import wire
from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge.inputs import draw, fresh_key
from sandbox.judge.placement import ALIGN_BYTES, BAND_BYTES, arena_bytes, byte_count, place

SPEC = wire.ProblemSpec(
    problem_id="p",
    format="native",
    entry="solve",
    inputs=(
        wire.TensorSpec(name="a", dtype="float32", shape=("n", "m")),
        wire.TensorSpec(name="s", dtype="float32", shape=()),
        wire.TensorSpec(name="i", dtype="int8", shape=("n",)),
    ),
    outputs=(wire.TensorSpec(name="c", dtype="float16", shape=("m", 3)),),
    workloads=(wire.Workload(workload_id="w", axes={"n": 33, "m": 7}), wire.Workload(workload_id="x", axes={"n": 1, "m": 1})),
    tolerance=wire.Tolerance(),
    reference="",
    axes=("n", "m"),
)


@pytest.mark.parametrize("axes", [one.axes for one in SPEC.workloads])
def test_nothing_overlaps_and_bands_touch_their_tensors(axes: dict[str, int]) -> None:
    """Every tensor has a full guard band directly before and behind it, inside the arena."""
    for _ in range(50):
        placement = place(SPEC, axes)
        tensors = [(placement.inputs[0], SPEC.inputs[0]), (placement.inputs[2], SPEC.inputs[2]), (placement.outputs[0], SPEC.outputs[0])]
        spans = sorted([(slot.offset, slot.offset + byte_count(tensor, axes)) for slot, tensor in tensors] + list(placement.bands))
        assert all(left[1] <= right[0] for left, right in pairwise(spans))
        assert spans[-1][1] <= arena_bytes(SPEC)
        for slot, tensor in tensors:
            end = slot.offset + byte_count(tensor, axes)
            assert slot.offset % ALIGN_BYTES == 0
            assert (slot.offset - BAND_BYTES, slot.offset) in placement.bands and (end, end + BAND_BYTES) in placement.bands


def test_offsets_are_not_predictable() -> None:
    """Twenty placements do not share one output offset."""
    assert len({place(SPEC, SPEC.workloads[0].axes).outputs[0].offset for _ in range(20)}) > 10


def test_a_key_draws_the_same_inputs_and_another_key_others() -> None:
    """A trial can be repeated from its key, and only from its key."""
    key = fresh_key()
    first, again, other = (draw(SPEC.inputs, SPEC.workloads[0].axes, one, EmulatedDevice()) for one in (key, key, fresh_key()))
    assert all((left == right).all() for left, right in zip(first, again, strict=True))
    assert not (first[0] == other[0]).all()


def test_every_bit_half_of_the_key_matters() -> None:
    """Values and structure come from different halves, so that neither tells of the other."""
    key = "0" * 32
    base = draw(SPEC.inputs, SPEC.workloads[0].axes, key, EmulatedDevice())[0]
    assert not (base == draw(SPEC.inputs, SPEC.workloads[0].axes, "1" + key[1:], EmulatedDevice())[0]).all()
    assert not (base == draw(SPEC.inputs, SPEC.workloads[0].axes, key[:-1] + "1", EmulatedDevice())[0]).all()
