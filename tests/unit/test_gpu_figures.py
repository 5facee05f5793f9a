"""Computations of the GPU tests that need no GPU: problems, intervals, and what an attack gains."""

from __future__ import annotations

import pytest

from grader.model import Report, Verdict
from sandbox.protocol import wire
from tests.exploits import attack_files
from tests.gpu import test_exploits
from tests.gpu.figures import gain_of, same_against_same
from tests.harness.grading import Graded
from tests.harness.messages import SECRET

SLOW_ATTACK = attack_files.attack("slows_baseline")


def graded(verdict: Verdict, reason: str = "", output: str = "", certified_ns: int | None = None, ratio: float = 1.0) -> Graded:
    samples = wire.Samples(durations_ns=(certified_ns or 1,) * 3)
    timed = wire.Measurement(workload_id="n1537", clock=wire.Clock.HOST, certified=samples, reported=samples, bound_ns=0, floor_ns=0)
    speedup = wire.Speedup(baseline="compile", ratio=ratio, ratio_low=ratio, ratio_high=ratio)
    measurements = () if certified_ns is None else (timed,)
    report = Report(verdict=verdict, reason=reason, summary="", measurements=measurements, speedups=(speedup,))
    return Graded(report=report, facts=(wire.RunEnd(cause="exited", output=output),))  # a report of ranked mode shows none of it


def test_a_faster_time_than_the_honest_twins_is_a_gain() -> None:
    """By more than 10 us, and 1 % of a long kernel; less is the clock's own."""
    problem = test_exploits.problem_of(SLOW_ATTACK)
    honest = graded(Verdict.ACCEPTED, certified_ns=500_000)
    gains = {ns: gain_of(graded(Verdict.ACCEPTED, certified_ns=ns), honest, problem) for ns in (480_000, 491_000, 600_000)}
    assert gains == {480_000: "20.0 us", 491_000: None, 600_000: None}


def test_a_better_speedup_than_the_honest_twins_is_a_gain() -> None:
    """By more than 15 %, and by 2 us of the baseline's time: beside a kernel of 20 ms a baseline of 6 us is not known better."""
    problem, gains = test_exploits.problem_of(SLOW_ATTACK), dict[tuple[int, float], str | None]()
    for ns, honest, ratio in ((17_000, 1.5, 1.8), (17_000, 1.5, 1.7), (20_000_000, 0.0003, 0.00036)):
        twin, attack = (graded(Verdict.ACCEPTED, certified_ns=ns, ratio=value) for value in (honest, ratio))
        gains[ns, ratio] = gain_of(attack, twin, problem)
    assert gains == {(17_000, 1.8): "compile: 1.80 times, not 1.50", (17_000, 1.7): None, (20_000_000, 0.00036): None}


def test_what_an_accepted_attack_gains() -> None:
    """Everything where its file does not allow it; it is not known where the honest twin was refused."""
    bomb, accepted = attack_files.attack("memory_bomb"), graded(Verdict.ACCEPTED, certified_ns=500_000)
    assert test_exploits.gained_by(bomb, accepted, None) == "accepted"
    assert test_exploits.gained_by(bomb, graded(Verdict.MEMORY_LIMIT_EXCEEDED, "HOST_MEMORY"), None) is None
    assert test_exploits.gained_by(SLOW_ATTACK, accepted, graded(Verdict.WRONG_ANSWER)) == "not known: its honest twin failed"
    assert test_exploits.gained_by(SLOW_ATTACK, accepted, accepted) is None


@pytest.mark.parametrize(
    ("name", "outcome", "complaints"),
    [
        ("memory_bomb", graded(Verdict.WRONG_ANSWER), ["expected MEMORY_LIMIT_EXCEEDED HOST_MEMORY"]),
        ("stale_graph", graded(Verdict.WRONG_ANSWER, "MISMATCH"), ["no attack took place"]),
        ("reads_reference", graded(Verdict.WRONG_ANSWER, "UNWRITTEN_OUTPUT", "FOUND /x"), ["found 'FOUND'"]),
        ("computes_nothing", graded(Verdict.WRONG_ANSWER, "UNWRITTEN_OUTPUT", SECRET), [f"found '{SECRET}'"]),
        ("stale_graph", graded(Verdict.WRONG_ANSWER, "MISMATCH", "captured"), []),
    ],
)
def test_what_is_not_as_the_file_says_is_named(name: str, outcome: Graded, complaints: list[str]) -> None:
    """Another verdict, an attack that did not take place, something found that is not the kernel's; the last one is the control."""
    assert list(test_exploits.complaints(attack_files.attack(name), outcome)) == complaints


def test_every_attack_is_for_a_gpu_or_says_why_not() -> None:
    """Nothing is left out in silence, and what is accepted at most gains nothing."""
    on_a_gpu = attack_files.attacks_on_a_gpu()
    left_out = [attack for attack in attack_files.all_in("attacks") if attack.name not in {kernel.name for kernel in on_a_gpu}]
    assert all(attack.emulated_only.startswith("emulated; ") for attack in left_out)
    assert len(on_a_gpu) >= 120
    assert all("ACCEPTED" not in attack.expect or attack.no_gain for attack in on_a_gpu)
    assert {expected.split()[0] for attack in on_a_gpu for expected in attack.expect} <= {verdict.value for verdict in Verdict}


def test_an_interval_inside_the_dead_band_is_no_winner() -> None:
    """Only beyond 1 % does it count, on either side; one that is missing is counted as such."""
    intervals = [(1.0, 0.995, 1.005), (1.007, 1.005, 1.009), (1.03, 1.02, 1.04), (0.97, 0.96, 0.98)]
    speedups = [wire.Speedup(baseline="eager", ratio=ratio, ratio_low=low, ratio_high=high) for ratio, low, high in intervals]
    comparison = same_against_same([*speedups, None])
    assert (comparison.count, comparison.unresolved, comparison.winners, comparison.losers, comparison.containing) == (5, 1, 1, 1, 1)
    assert comparison.half_width_most == pytest.approx(0.01 / 0.97)
    assert comparison.ratio == pytest.approx(1.0035)
    assert same_against_same([None, None]).unresolved == 2  # nothing is divided by
