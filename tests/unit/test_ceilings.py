"""The physical floor: what the declared work takes at the device's best rates, a tenth of it forgiven."""

import pytest

from sandbox.devices.ceilings import physical_floor_ns

CEILINGS = {"bytes_per_s": 4e12, "flops_per_s:float32": 4e14, "l2_bytes": 60e6}


def test_the_longer_of_both_is_the_floor():
    """Memory and arithmetic may overlap; neither can be left out."""
    assert physical_floor_ns(4_000_000_000, 1, ["float32"], 0, CEILINGS) == 900_000
    assert physical_floor_ns(1, 4_000_000_000_000, ["float32"], 0, CEILINGS) == 9_000_000


def test_an_output_may_still_be_in_the_cache():
    """As much of it as fits there."""
    assert physical_floor_ns(200_000_000, None, ["float32"], 40_000_000, CEILINGS) == 36_000
    assert physical_floor_ns(200_000_000, None, ["float32"], 100_000_000, CEILINGS) == 31_500
    assert physical_floor_ns(40_000_000, None, ["float32"], 40_000_000, CEILINGS) == 0
    assert physical_floor_ns(1_000, None, ["float32"], 40_000_000, CEILINGS) == 0


@pytest.mark.parametrize(
    ("moved_bytes", "flops", "dtype", "ceilings"),
    [
        (None, None, "float32", CEILINGS),
        (1_000, 1_000, "float32", {}),
        (None, 1_000, "float64", CEILINGS),
        (1_000, None, "float32", {"bytes_per_s": 0.0}),
    ],
)
def test_what_is_not_known_makes_no_floor(moved_bytes, flops, dtype, ceilings):
    """Not declared, or not measured."""
    assert physical_floor_ns(moved_bytes, flops, [dtype], 0, ceilings) is None


def test_one_of_both_is_enough():
    """A dtype without a rate leaves the bytes."""
    assert physical_floor_ns(4_000_000_000, 10**18, ["int64"], 0, CEILINGS) == 900_000


def test_the_quickest_dtype_that_takes_part_makes_the_floor():
    """A float64 scalar beside float16 matrices, or labels beside them, must not make a floor that a good kernel falls under."""
    rates = {"flops_per_s:float64": 6e13, "flops_per_s:float32": 4e14, "flops_per_s:float16": 8e14}
    assert physical_floor_ns(None, 8 * 10**12, {"float64", "float16", "int64"}, 0, rates) == 9_000_000
    assert physical_floor_ns(None, 8 * 10**12, {"float32"}, 0, rates) == 9_000_000  # where the tolerance allows it, half does its work


def test_rates_that_are_only_shown_make_no_floor():
    """float8, next to a float4 that is faster and not measured; float32 on the FP32 units, where the tolerance may allow TF32."""
    rates = {"flops_per_s:float8_e4m3fn": 1e15, "flops_per_s:float32_ieee": 5e13}
    assert physical_floor_ns(None, 8 * 10**12, {"float4_e2m1fn_x2", "float8_e4m3fn"}, 0, rates) is None
    assert physical_floor_ns(None, 8 * 10**12, {"float32"}, 0, rates) is None
    assert physical_floor_ns(None, 8 * 10**12, {"float32"}, 0, {**rates, "flops_per_s:float32": 4e14}) == 18_000_000
