"""The physical floor: what the declared work takes at the device's best rates, a tenth of it forgiven."""

import pytest

from sandbox.judge.timing import physical_floor_ns

CEILINGS = {"bytes_per_s": 4e12, "flops_per_s:float32": 4e14, "l2_bytes": 60e6}


RATES = {"flops_per_s:float64": 6e13, "flops_per_s:float32": 4e14, "flops_per_s:float16": 8e14}
SHOWN_ONLY = {"flops_per_s:float8_e4m3fn": 1e15, "flops_per_s:float32_ieee": 5e13}
FLOAT32, MIB_40, TFLOP_8 = {"float32"}, 40_000_000, 8 * 10**12


@pytest.mark.parametrize(
    ("moved_bytes", "flops", "dtypes", "output_bytes", "rates", "floor_ns"),
    [
        pytest.param(4_000_000_000, 1, FLOAT32, 0, CEILINGS, 900_000, id="memory takes longer than arithmetic"),
        pytest.param(1, 4_000_000_000_000, FLOAT32, 0, CEILINGS, 9_000_000, id="arithmetic takes longer than memory"),
        pytest.param(200_000_000, None, FLOAT32, MIB_40, CEILINGS, 36_000, id="an output may still be in the cache"),
        pytest.param(200_000_000, None, FLOAT32, 100_000_000, CEILINGS, 31_500, id="as much of an output as fits into the cache"),
        pytest.param(40_000_000, None, FLOAT32, MIB_40, CEILINGS, 0, id="an output alone, in the cache"),
        pytest.param(1_000, None, FLOAT32, MIB_40, CEILINGS, 0, id="an output larger than what is moved"),
        pytest.param(None, None, FLOAT32, 0, CEILINGS, None, id="nothing declared"),
        pytest.param(1_000, 1_000, FLOAT32, 0, {}, None, id="nothing measured"),
        pytest.param(None, 1_000, {"float64"}, 0, CEILINGS, None, id="a dtype without a rate"),
        pytest.param(1_000, None, FLOAT32, 0, {"bytes_per_s": 0.0}, None, id="a rate of zero"),
        pytest.param(4_000_000_000, 10**18, {"int64"}, 0, CEILINGS, 900_000, id="a dtype without a rate leaves the bytes"),
        # A float64 scalar next to float16 matrices, or labels, must not make a floor that a good kernel falls under.
        pytest.param(None, TFLOP_8, {"float64", "float16", "int64"}, 0, RATES, 9_000_000, id="the quickest dtype that takes part"),
        pytest.param(None, TFLOP_8, FLOAT32, 0, RATES, 9_000_000, id="float16 where the tolerance of float32 allows it"),
        # float8, next to a float4 that is faster and not measured; float32 on the FP32 units, where the tolerance may allow TF32.
        pytest.param(None, TFLOP_8, {"float4_e2m1fn_x2", "float8_e4m3fn"}, 0, SHOWN_ONLY, None, id="a rate of float8 is only shown"),
        pytest.param(None, TFLOP_8, FLOAT32, 0, SHOWN_ONLY, None, id="a rate of the FP32 units is only shown"),
        pytest.param(None, TFLOP_8, FLOAT32, 0, {**SHOWN_ONLY, "flops_per_s:float32": 4e14}, 18_000_000, id="a rate of TF32 counts"),
    ],
)
def test_the_floor_is_what_the_work_takes_at_the_best_rates(moved_bytes, flops, dtypes, output_bytes, rates, floor_ns):
    assert physical_floor_ns(moved_bytes, flops, dtypes, output_bytes, rates) == floor_ns
