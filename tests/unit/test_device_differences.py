"""GPUs of one type that are not equally fast are named; noise, odd reports and too few of them name nothing."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from grader.v1 import competition_pb2
from grader.verdict.device_differences import (
    FEWEST_REPORTS,
    LARGEST_COUNT,
    LEAST_DIFFERENCE,
    SHORTEST_NS,
    BaselineMedians,
    DeviceDifference,
    device_differences,
)
from grader.views.device_differences import sentence

TIMES_NS = {"small": 50_000.0, "large": 2_000_000.0}
BOARDS = 200


def times(gpu: str, factor: float = 1.0, *, problem: str = "p", workloads: dict[str, float] = TIMES_NS) -> BaselineMedians:
    return BaselineMedians(device_uuid=gpu, problem_digest=problem, medians_ns={name: factor * one for name, one in workloads.items()})


def noisy(rng: random.Random, gpu: str, count: int, spread: float, slowdown: float = 1.0, problem: str = "p") -> list[BaselineMedians]:
    """Reports of one GPU that scatter, a tenth of them far out."""
    found = []
    for _ in range(count):
        log = rng.gauss(0, spread) + (rng.expovariate(1 / (10 * spread)) if rng.random() < 0.1 else 0.0)
        found.append(times(gpu, slowdown * math.exp(log), problem=problem))
    return found


@pytest.mark.parametrize("spread", [0.001, 0.01, 0.05])
@pytest.mark.parametrize(("gpu_count", "report_count"), [(2, FEWEST_REPORTS), (2, 40), (8, FEWEST_REPORTS), (8, 25)])
def test_equal_gpus_are_not_reported(gpu_count: int, report_count: int, spread: float) -> None:
    """However much the clock scatters: on at most 2 % of boards, with no correction for the many pairs of eight GPUs."""
    rng = random.Random(3)
    wrong = 0
    for _ in range(BOARDS):
        wrong += bool(device_differences([one for gpu in range(gpu_count) for one in noisy(rng, f"GPU-{gpu}", report_count, spread)]))
    assert wrong <= 0.02 * BOARDS


@pytest.mark.parametrize(("report_count", "spread"), [(FEWEST_REPORTS, 0.003), (10, 0.01), (40, 0.02)])
def test_a_gpu_that_is_a_tenth_slower_is_reported(report_count: int, spread: float) -> None:
    """With every equal neighbour, and with no pair of neighbours; the ratio is near 1.1."""
    rng = random.Random(4)
    found = 0
    for _ in range(BOARDS):
        rows = [
            *noisy(rng, "slow", report_count, spread, 1.1),
            *noisy(rng, "a", report_count, spread),
            *noisy(rng, "b", report_count, spread),
        ]
        pairs = device_differences(rows)
        assert all(one.ratio - 1 > max(one.noise, LEAST_DIFFERENCE) for one in pairs)
        found += {(one.slower_uuid, one.faster_uuid) for one in pairs} == {("slow", "a"), ("slow", "b")}
    assert found >= 0.95 * BOARDS
    assert pairs[0].ratio == pytest.approx(1.1, rel=0.02)


def test_too_few_reports_say_nothing() -> None:
    """Not even of a GPU that is twice as slow; the control has one report more."""
    few = [times("slow", 2.0)] * (FEWEST_REPORTS - 1) + [times("fast")] * 20
    assert device_differences(few) == () and device_differences([]) == ()
    (control,) = device_differences([*few, times("slow", 2.0)])
    assert control == DeviceDifference(slower_uuid="slow", faster_uuid="fast", ratio=pytest.approx(2.0), noise=0.0)


def test_reports_without_a_uuid_are_not_compared() -> None:
    """The emulated device has none."""
    assert device_differences([times("", 2.0)] * 10 + [times("fast")] * 10) == ()


@pytest.mark.parametrize("odd", [0.01, 0.5, 3.0, 1e6])
def test_an_odd_report_neither_makes_nor_hides_a_difference(odd: float) -> None:
    """One of the fewest that are enough."""
    rng = random.Random(6)
    for slowdown in (1.0, 1.1):
        for _ in range(50):
            rows = noisy(rng, "a", 20, 0.002)
            rows += [times("b", slowdown * math.exp(rng.gauss(0, 0.002))) for _ in range(FEWEST_REPORTS - 1)]
            assert bool(device_differences([*rows, times("b", odd)])) is (slowdown > 1)


def test_a_difference_that_does_not_matter_is_not_reported() -> None:
    """However sure it is."""
    sure = [times("a")] * 50
    assert device_differences(sure + [times("b", 0.999 + LEAST_DIFFERENCE)] * 50) == ()
    assert len(device_differences(sure + [times("b", 1.001 + LEAST_DIFFERENCE)] * 50)) == 1


def test_short_workloads_do_not_count() -> None:
    """They are launches, which differ by host. The control is a workload that is long enough."""
    rows = [times("a", workloads={"short": SHORTEST_NS - 1e3, "long": 1e6})] * 9
    assert device_differences(rows + [times("b", workloads={"short": 2e3, "long": 1e6})] * 9) == ()
    assert len(device_differences(rows + [times("b", workloads={"short": 2e3, "long": 2e6})] * 9)) == 1


def test_only_times_of_one_problem_are_compared() -> None:
    """One GPU had the short problem and the other the long one; then both have both, and the ratio is the geometric mean."""
    apart = [times("a")] * 9 + [times("b", 5.0, problem="q")] * 9
    assert device_differences(apart) == ()
    (found,) = device_differences([*apart, *[times("b", 1.21)] * 9, *[times("a", 5.0, problem="q")] * 9])
    assert (found.slower_uuid, found.ratio) == ("b", pytest.approx(1.1))


def test_a_report_without_a_workload_that_others_have_is_left_out() -> None:
    """Its mean would be of other sizes. A workload that only it has does not count."""
    rows = [times("a")] * 9 + [times("b")] * 9
    assert (
        device_differences([*rows, *[times("b", workloads={"small": 5e4})] * 4, *[times("a", workloads={**TIMES_NS, "odd": 1e9})] * 4])
        == ()
    )


@pytest.mark.parametrize("value", [0.0, -5.0, math.nan, math.inf])
def test_a_time_that_is_none_is_not_counted(value: float) -> None:
    """A difference to the null run may be negative."""
    rows = [times("a")] * 9 + [times("b")] * 9
    assert device_differences(rows + [times("b", workloads={"small": value, "large": value})] * 9) == ()


def test_the_order_of_reports_does_not_matter() -> None:
    """The largest difference is first, whatever order the database has; of many pairs the largest are kept."""
    rng = random.Random(8)
    rows = [one for gpu in range(20) for one in noisy(rng, f"GPU-{gpu:02}", 9, 0.001, 1.03**gpu)]
    found = device_differences(rows)
    rng.shuffle(rows)
    assert device_differences(rows) == found and len(found) == LARGEST_COUNT
    assert [one.ratio for one in found] == sorted((one.ratio for one in found), reverse=True)
    assert (found[0].slower_uuid, found[0].faster_uuid) == ("GPU-19", "GPU-00")


def test_a_difference_has_nothing_of_single_workloads() -> None:
    """Secret ones are among them: a new field has to be an aggregate, and to be added here."""
    assert {one.name for one in dataclasses.fields(DeviceDifference)} == {"slower_uuid", "faster_uuid", "ratio", "noise"}
    shown = set(competition_pb2.DeviceDifference.DESCRIPTOR.fields_by_name)
    assert shown == {"device", "slower_gpu", "faster_gpu", "ratio", "noise"}


def test_the_sentence_names_the_two_that_differ_most() -> None:
    """With figures; of several it says how many. Control characters in a device's name are escaped."""
    first, second = (
        competition_pb2.DeviceDifference(device="NVIDIA H100", slower_gpu=slower, faster_gpu="99ff00aa", ratio=ratio, noise=0.012)
        for slower, ratio in (("1a2b3c4d", 1.083), ("0badcafe", 1.05))
    )
    assert sentence([]) == ""
    figures = "…1a2b3c4d is 8.3 % slower than …99ff00aa (noise 1.2 %). Compare their entries with care."
    assert sentence([first]) == f"2 GPUs of type NVIDIA H100 differ: {figures}"
    assert sentence([second, first]) == f"3 GPUs of type NVIDIA H100 differ, most of all these: {figures}"
    assert "\x1b" not in sentence([competition_pb2.DeviceDifference(device="\x1b[31mH100", ratio=1.1)])
