"""Rates, shares of ceilings by unit, occupancy, and intervals of medians."""

import random
import statistics

import pytest

from grader.v1 import report_pb2
from grader.verdict.scores import FEWEST, median_interval, ratio_of_medians
from grader.views import figures, formatting
from grader.views.figures import occupancy

H200 = {
    "bytes_per_s": 4e12,
    "flops_per_s:float32_ieee": 5e13,
    "flops_per_s:float32": 4e14,
    "flops_per_s:float16": 8e14,
    "flops_per_s:float8_e4m3fn": 1.6e15,
}


def measured(certified_ns, *, dtype="float32", **amounts):
    measurement = report_pb2.Measurement(declared_work=report_pb2.DeclaredWork(dtype=dtype, **amounts))
    measurement.certified.median_duration.FromNanoseconds(certified_ns)
    return measurement


def test_float32_is_compared_with_both_of_its_units():
    """40 GFLOP in 1 ms are 40 TFLOP/s: 80 % of the FP32 units, 10 % of the TF32 tensor cores; never the FP16 ones."""
    throughput = figures.throughput(measured(1_000_000, moved_bytes=400_000_000, flops=40_000_000_000), H200)
    assert [(share.unit, round(share.share, 3)) for share in throughput.shares] == [("FP32 units", 0.8), ("TF32 tensor cores", 0.1)]
    assert (throughput.bytes_per_s, throughput.intensity, throughput.limit) == (pytest.approx(4e11), 100, "FP32 units")


def test_the_nearest_ceiling_is_the_memory_where_little_is_computed():
    """An addition: 3 TB/s of 4, and next to nothing of the units."""
    throughput = figures.throughput(measured(1_000_000, moved_bytes=3_000_000_000, flops=250_000_000), H200)
    assert throughput.limit == "memory bandwidth"
    rates = "3.00 TB/s (75 % of memory bandwidth), 250 GFLOP/s (0.5 % of FP32 units, 0.062 % of TF32 tensor cores)"
    assert ", ".join(formatting.throughput(throughput)) == f"{rates}, 0.0833 FLOP/byte, nearest ceiling: memory bandwidth"


def test_nothing_is_guessed():
    """No amounts, a time that was not resolved, a dtype without a ceiling, a device of which nothing was measured."""
    assert figures.throughput(measured(1_000), H200) is None
    assert figures.throughput(measured(0, flops=1), H200) is None
    assert figures.throughput(report_pb2.Measurement(), H200) is None
    assert figures.throughput(measured(1_000, flops=1, dtype="int64"), H200).shares == ()
    bare = figures.throughput(measured(1_000, moved_bytes=1_000, flops=1), {})
    assert (bare.bandwidth, bare.shares, bare.limit) == (None, (), "")


@pytest.mark.parametrize(
    ("architecture", "registers", "shared", "threads", "share", "limit"),
    [
        ("sm_90", 32, 0, 256, 1.0, "threads"),
        ("sm_90", 128, 0, 256, 0.25, "registers"),
        ("sm_90", 255, 0, 128, 0.125, "registers"),
        ("sm_90", 40, 0, 1024, 0.5, "registers"),
        ("sm_90", 32, 48 << 10, 128, 0.25, "shared memory"),
        ("sm_80", 32, 48 << 10, 128, 0.1875, "shared memory"),
        ("sm_86", 32, 0, 1024, 2 / 3, "threads"),
        ("sm_90a", 32, 0, 32, 0.5, "blocks"),
        ("sm_90", 255, 0, 1024, 0.0, "registers"),
    ],
)
def test_theoretical_occupancy_is_nvidias(architecture, registers, shared, threads, share, limit):
    limits = occupancy(architecture, registers, shared, threads)
    assert (limits.share, limits.limit) == (pytest.approx(share), limit)


def test_the_interval_of_a_median_covers_it_as_often_as_it_says():
    """Of skewed samples, as times are: 95 %, less what 1000 draws may be off."""
    draw = random.Random(7)
    truth = 100 * statistics.NormalDist().cdf(0) * 2  # the median of 100 * lognormal
    inside = 0
    for _ in range(1000):
        interval = median_interval([100 * draw.lognormvariate(0, 0.3) for _ in range(41)])
        inside += interval.low <= truth <= interval.high
    assert 925 <= inside <= 985


def test_too_few_samples_have_no_interval():
    """Nor have those of which one took no longer than an empty call. Thousands do, and equal ones are certain."""
    assert median_interval([1.0] * (FEWEST - 1)) is None and median_interval([0.0, *[1.0] * 9]) is None
    assert ratio_of_medians([1.0] * 9, []) is None
    many = median_interval([1.0 + index / 1e6 for index in range(20_000)])
    assert many.low < many.value < many.high and many.high / many.low < 1.0005
    same = median_interval([5.0] * 10)
    assert (same.low, same.value, same.high) == (5, 5, 5)
