"""Inputs are what their distribution says, and change with the key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge import inputs


KEY = "0123456789abcdef" * 2
AXES = {"rows": 64, "cols": 256, "classes": 10}


def drawn(kind: str = "normal", dtype: str = "float32", shape: tuple[str | int, ...] = ("rows", "cols"), key: str = KEY, **fields: object):
    tensor = wire.TensorSpec(name="x", dtype=dtype, shape=shape, distribution=wire.Distribution(kind=kind, **fields))  # type: ignore[arg-type]
    (drawn_tensor,) = inputs.draw((tensor,), AXES, key, EmulatedDevice())
    assert drawn_tensor.dtype == getattr(torch, dtype) and drawn_tensor.is_contiguous()
    return drawn_tensor


@pytest.mark.parametrize(
    "kind", ["normal", "uniform", "integers", "heavy_tail", "index", "sorted", "permutation", "probabilities", "constant", "mixture"]
)
def test_a_key_gives_the_same_values_again(kind: str) -> None:
    parts = (wire.Distribution(), wire.Distribution(kind="uniform"))
    first, again, second = (drawn(kind, high=5.0, parts=parts, key=key) for key in (KEY, KEY, KEY[::-1]))
    assert torch.equal(first, again)
    assert torch.equal(first, second) == (kind == "constant")


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize(("kind", "structure"), [("heavy_tail", None), ("sorted", None), ("normal", "lower_triangular"), ("mixture", None)])
def test_float8_holds_the_numbers_nearest_to_those_drawn(dtype: str, kind: str, structure: str | None) -> None:
    """The largest where they are too large: no NaN and no infinity."""
    fields = {"scale": 300.0, "low": -9.0, "structure": structure, "parts": (wire.Distribution(scale=300.0), wire.Distribution())}
    drawn8, drawn32 = (drawn(kind, of, **fields).double() for of in (dtype, "float32"))
    largest = torch.finfo(getattr(torch, dtype)).max
    assert torch.equal(drawn8, drawn32.clamp(-largest, largest).to(getattr(torch, dtype)).double()) and bool(drawn8.isfinite().all())


@pytest.mark.parametrize("kind", ["normal", "heavy_tail"])
def test_scale_offset_and_needles_can_be_switched_off(kind: str) -> None:
    """Then what is left is the distribution itself; the control has them."""
    plain = [drawn("normal", scale_spread=0.0, offset=0.0, needles=0, key=f"{number:032x}") for number in range(8)]
    assert all(abs(float(tensor.mean())) < 0.03 and abs(float(tensor.std()) - 1) < 0.03 for tensor in plain)
    usual = [drawn("normal", key=f"{number:032x}") for number in range(8)]
    assert max(abs(float(tensor.mean())) for tensor in usual) > 0.03 and max(abs(float(tensor.std()) - 1) for tensor in usual) > 0.1


def test_needles_are_as_many_and_as_large_as_is_said() -> None:
    tensor = drawn(scale_spread=0.0, offset=0.0, needles=16, needle_factor=1000.0).abs()
    assert int((tensor == 1000.0).sum()) == 16 and float(tensor[tensor < 1000.0].max()) < 10
    assert int((drawn(scale_spread=0.0, offset=0.0, needles=16, needle_factor=1000.0, shape=(8, 8)).abs() == 1000.0).sum()) == 1


def test_an_offset_goes_with_the_scale() -> None:
    """So that a mean is never where somebody would look for it."""
    means = [float(drawn(scale=4.0, scale_spread=0.0, offset=2.0, needles=0, key=f"{number:032x}").mean()) for number in range(16)]
    assert 4 < max(means) - min(means) <= 16.5 and all(abs(tensor) < 8.2 for tensor in means)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_an_index_is_below_its_axis(dtype: str) -> None:
    assert drawn("index", dtype, high_axis="classes").unique().tolist() == list(range(10))
    assert drawn("index", dtype, low=3.0, high=5.0).unique().tolist() == [3, 4]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_sorted_values_never_fall(dtype: str) -> None:
    tensor = drawn("sorted", dtype, high_axis="cols")
    assert bool((tensor[:, 1:] >= tensor[:, :-1]).all()) and bool((tensor[:, 0] < tensor[:, -1]).all())
    assert float(tensor.min()) >= 0 and float(tensor.max()) <= 256
    assert not torch.equal(tensor, drawn("sorted", dtype, high_axis="cols", key=KEY[::-1]))


def test_a_permutation_has_every_number_once_in_each_row() -> None:
    tensor = drawn("permutation", "int64")
    assert torch.equal(tensor.sort(dim=-1).values, torch.arange(256).expand(64, 256)) and not torch.equal(tensor[0], tensor[1])


def test_probabilities_add_up_to_one() -> None:
    even, uneven = drawn("probabilities", scale=0.1), drawn("probabilities", scale=8.0)
    assert torch.allclose(uneven.sum(-1), torch.ones(64)) and bool((uneven >= 0).all())
    assert float(uneven.max()) > 10 * float(even.max())


def test_a_mixture_takes_its_parts_by_weight() -> None:
    parts = (wire.Distribution(kind="constant", high=0.0, weight=9.0), wire.Distribution(kind="uniform", low=5.0, high=6.0, weight=1.0))
    tensor = drawn("mixture", parts=parts)
    assert 0.08 < float((tensor >= 5).float().mean()) < 0.12 and bool(((tensor == 0) | (tensor >= 5)).all())


SQUARE = ("rows", "rows")
PLACES = {
    "lower_triangular": lambda row, column: column <= row,
    "upper_triangular": lambda row, column: column >= row,
    "banded": lambda row, column: (column - row).abs() <= 2,
    "diagonal": lambda row, column: column == row,
}


@pytest.mark.parametrize("structure", PLACES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_a_structure_has_values_in_its_places_only(structure: str, dtype: str) -> None:
    """The same values as without it; elsewhere is zero, in each matrix of a batch."""
    bandwidth = {"bandwidth": 2} if structure == "banded" else {}
    shape = (3, *SQUARE)
    full, tensor = drawn(dtype=dtype, shape=shape), drawn(dtype=dtype, shape=shape, structure=structure, **bandwidth)
    places = PLACES[structure](torch.arange(64).unsqueeze(1), torch.arange(64))
    assert torch.equal(tensor, torch.where(places, full, torch.zeros_like(full))) and int((tensor != 0).sum()) > 100


def test_a_symmetric_matrix_is_its_own_transpose() -> None:
    full, tensor = drawn(shape=SQUARE), drawn(shape=SQUARE, structure="symmetric")
    assert torch.equal(tensor, tensor.T) and torch.equal(tensor.tril(), full.tril()) and not torch.equal(full, full.T)


def test_a_sparse_tensor_has_about_as_many_values_as_its_density() -> None:
    tensor, second = (drawn(structure="sparse", density=0.1, key=key) for key in (KEY, KEY[::-1]))
    assert 0.08 < float((tensor != 0).float().mean()) < 0.12 and not torch.equal(tensor != 0, second != 0)


@pytest.mark.parametrize("kind", ["constant", "normal"])
def test_a_permutation_matrix_has_one_value_in_each_row_and_column(kind: str) -> None:
    tensor = drawn(kind, shape=(2, *SQUARE), structure="permutation")
    assert bool(((tensor != 0).sum(-1) == 1).all()) and bool(((tensor != 0).sum(-2) == 1).all())
    assert bool((tensor[tensor != 0] == 1).all()) == (kind == "constant") and not torch.equal(tensor[0] != 0, tensor[1] != 0)


def test_one_hot_rows_have_one_value_each() -> None:
    tensor = drawn("constant", shape=("cols", "classes"), structure="one_hot")
    assert bool((tensor.sum(-1) == 1).all()) and bool((tensor.sum(0) > 0).all())


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_sorted_structure_sorts_each_row_of_its_kind(dtype: str) -> None:
    tensor = drawn("heavy_tail", dtype, structure="sorted")
    assert torch.equal(tensor, drawn("heavy_tail", dtype).sort(dim=-1).values)


def test_a_workload_may_draw_an_input_from_another_distribution() -> None:
    tensor = wire.TensorSpec(name="x", dtype="float32", shape=("rows", "cols"))
    usual = wire.Workload(workload_id="a", axes=AXES)
    special = wire.Workload(workload_id="b", axes=AXES, distributions={"x": wire.Distribution(kind="constant", high=3.0)})
    second = wire.TensorSpec(name="y", dtype="float32", shape=("rows",))
    problem = replace(fakes.problem().spec, inputs=(tensor, second), workloads=(usual, special))
    assert inputs.of_workload(problem, usual, None, KEY, EmulatedDevice())[0].unique().numel() > 1000
    x, y = inputs.of_workload(problem, special, None, KEY, EmulatedDevice())
    assert bool((x == 3).all()) and y.unique().numel() > 1
    assert wire.decode(wire.encode(wire.AdmissionJob(job_id="j", problem=problem))).problem == problem
