"""What the GPU tests compute without a GPU: limits, intervals, problems, the mix of the soak, what an attack gains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grader.model import Report, Verdict
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION
from tests.exploits import attack_files
from tests.gpu import test_agreement, test_exploits, test_soak
from tests.gpu.families import FAMILIES, SAME
from tests.gpu.figures import certified_limit_us, quantile, reported_limit_us, same_against_same, saturated_rate
from tests.gpu.gains import gain_of
from tests.gpu.plain_bench import plan_of
from tests.harness.grading import Graded
from tests.harness.messages import SECRET

if AFTER_COLLECTION:
    from tests.gpu import clock_records

SLOW_ATTACK = attack_files.attack("slows_baseline")


@pytest.mark.parametrize(("plain_us", "limit_us"), [(5, 1.0), (20, 1.0), (49, 2.45), (50, 1.0), (100, 2.0), (5000, 100.0)])
def test_the_reported_time_has_two_percent_from_50_us_and_more_below(plain_us: float, limit_us: float) -> None:
    """max(1 us, 5 %) below 50 us."""
    assert reported_limit_us(plain_us) == pytest.approx(limit_us)


@pytest.mark.parametrize(("reported_us", "limit_us"), [(5, 10.0), (333, 10.0), (1000, 30.0)])
def test_the_certified_time_has_ten_microseconds_or_three_percent(reported_us: float, limit_us: float) -> None:
    """Whichever is more."""
    assert certified_limit_us(reported_us) == pytest.approx(limit_us)


def test_a_quantile_lies_between_two_values() -> None:
    """Linear between neighbours; a single value is every quantile."""
    assert quantile([4, 1, 3, 2], 0.5) == 2.5
    assert quantile([1, 2, 3, 4, 5, 6], 0.2) == 2
    assert quantile([7], 0.8) == 7


def test_an_interval_inside_the_dead_band_is_no_winner() -> None:
    """Only beyond 1 % does it count, on either side; one that is missing is counted as such."""
    intervals = [(1.0, 0.995, 1.005), (1.007, 1.005, 1.009), (1.03, 1.02, 1.04), (0.97, 0.96, 0.98)]
    speedups = [wire.Speedup(baseline="eager", ratio=ratio, ratio_low=low, ratio_high=high) for ratio, low, high in intervals]
    found = same_against_same([*speedups, None])
    assert (found.count, found.unresolved, found.winners, found.losers, found.containing) == (5, 1, 1, 1, 1)
    assert found.half_width_most == pytest.approx(0.01 / 0.97)
    assert found.ratio == pytest.approx(1.0035)


def test_no_intervals_at_all_are_no_success() -> None:
    """All of them are missing, and nothing is divided by."""
    assert same_against_same([None, None]).unresolved == 2


def measured(size: str, *, reported_ns: int, certified_ns: int) -> wire.Measurement:
    """A measurement of two medians."""
    return wire.Measurement(
        workload_id=size,
        clock=wire.Clock.DEVICE_EVENTS,
        certified=wire.Samples(durations_ns=(certified_ns - 1000, certified_ns, certified_ns + 1000)),
        bound_ns=certified_ns,
        floor_ns=0,
        reported=wire.Samples(durations_ns=(reported_ns,)),
        batch=wire.Samples(durations_ns=(reported_ns,)),
        batch_size=64,
    )


def test_agreement_is_between_medians_and_a_missing_time_disagrees() -> None:
    """100 us plain against 101.9 and 102.1 us reported; no measurement agrees with nothing."""
    plain = {"times_us": {"n8": [[99.0, 100.0, 180.0], [100.0], [101.0]]}}
    plain |= {"as_allocated_us": {"n8": [[106.0]]}, "settling_us": {"n8": [300.0]}}
    near, far, certified_far = (
        test_agreement.comparison("add", "n8", plain, [measured("n8", reported_ns=reported, certified_ns=certified)])
        for reported, certified in ((101_900, 108_000), (102_100, 108_000), (100_000, 111_000))
    )
    missing = test_agreement.comparison("add", "n8", plain, [])
    assert [test_agreement.reported_agrees(one) for one in (near, far, missing)] == [True, False, False]
    assert [test_agreement.certified_agrees(one) for one in (near, certified_far, missing)] == [True, False, False]
    assert near["plain_us"] == 100.0 and near["batch_size"] == 64 and near["plain_settling_us"] == 300.0
    assert near["as_allocated_us"] == 106.0


def test_the_kernels_of_the_table_are_enough_and_their_problems_differ() -> None:
    """At least twelve, from 5 us to some ms, raw and of torch; sizes named apart; every digest another, and the same twice."""
    sizes = [(family.name, size.name) for family in FAMILIES for size in family.sizes]
    about = [size.about_us for family in FAMILIES for size in family.sizes]
    assert len(sizes) == len(set(sizes)) >= 12
    assert min(about) <= 5 and max(about) >= 2000
    assert sum(family.language == "torch_extension" for family in FAMILIES) >= 3
    digests = [family.problem(tiny=tiny).digest for family in (*FAMILIES, SAME) for tiny in (True, False)]
    assert len(set(digests)) == len(digests)
    assert FAMILIES[0].problem().digest == digests[1]


def test_every_problem_can_be_sent_to_the_judge() -> None:
    """Its specification goes over the wire and comes back; every workload gives every axis of every shape."""
    for family in (*FAMILIES, SAME):
        spec = family.problem().spec
        job = wire.Job(
            job_id="j", problem=spec, language="cuda", entry="", mode=wire.Mode.TEST, link_path="", artifact_path="", artifact_digest=""
        )
        assert wire.decode(wire.encode(job)) == job
        named = {axis for tensor in (*spec.inputs, *spec.outputs) for axis in tensor.shape}
        assert all(named <= set(workload.axes) and tuple(workload.axes) == spec.axes for workload in spec.workloads)


def test_the_plain_process_is_given_shapes_and_axes_in_the_kernels_order() -> None:
    """A softmax of rows x cols has one input, one output of its shape."""
    family = next(one for one in FAMILIES if one.name == "row_softmax")
    plan = plan_of(family, Path("artifact"), device="cuda", repetitions=3, seed=1)
    assert plan["sizes"][0] == {"name": "4096x1024", "inputs": [[4096, 1024]], "output": [4096, 1024], "axes": [4096, 1024]}
    assert json.loads(json.dumps(plan)) == plan


def test_the_soak_has_good_and_bad_kernels_and_the_same_order_each_time() -> None:
    """Every kernel comes up before one comes up twice; those that wait for a limit are left out."""
    items = test_soak.mixed(emulated=True)
    expected = {one.expected[0].split()[0] for one in items}
    assert {"ACCEPTED", "WRONG_ANSWER", "COMPILE_ERROR", "RUNTIME_ERROR"} <= expected
    assert not {f"{problem}/{name}.cu" for problem in ("vector_add", "row_softmax") for name in test_soak.SLOW} & {
        one.name for one in items
    }
    order = [one.name for one in test_soak.ordered(items, 2 * len(items))]
    assert sorted(order[: len(items)]) == sorted(one.name for one in items)
    assert order == [one.name for one in test_soak.ordered(items, 2 * len(items))]


def test_on_a_gpu_the_soak_has_faults_too() -> None:
    """Those of the GPU tests that are not slow, with their headers in them."""
    fault = next(one for one in test_soak.mixed(emulated=False) if one.name.startswith("illegal_address"))
    assert fault.expected[0].startswith("RUNTIME_ERROR")
    assert '#include "work.h"' not in fault.source


def test_a_record_of_the_clock_becomes_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Turns in microseconds; what the subject's own null runs take is beside what the trusted ones take."""
    times_ns = {"subject": 500_000, "eager": 480_000, "null with copy": 400_000, "the subject's null": 410_000}
    turns = {arm: [[one] * 4] * 12 for arm, one in times_ns.items()}
    alone = {"null_ns": {"False": [401_000] * 3, "True": [401_000] * 3}, "floor_ns": [400_000], "run_ns": {"eager": [480_000] * 3}}
    data = {"workload": "n1", "copies": True, "launch_ns": 4_000.0, "alone": alone, "turns": turns}
    (tmp_path / "1-1.json").write_text(json.dumps(data), "utf-8")
    (tmp_path / "1-2.json").write_text(json.dumps(data | {"reported": {"subject": 93_100.0, "eager": 92_500.0}}), "utf-8")
    assert clock_records.main([str(tmp_path)]) == 0
    _, summary, first, second = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| n1")]
    assert "100.0 ± 0.0" in first and "90.0 ± 0.0" in first and "401.0" in first and first.endswith("| 0.0 |  |")
    assert second.endswith("| 0.0 | 0.6 |")
    # Of the 10 us that its own null runs take longer, 2 are believed: 500 - 402 + 4 - 93.1.
    assert summary == "| n1 | 2 | 10.00 | 0.00 | 10.00 | 0.00 | 8.90 | 8.90 |"
    assert clock_records.main(["nowhere"]) == 2 and "GRADER_CLOCK_RECORD" in capsys.readouterr().err


def graded(verdict: Verdict, reason: str = "", output: str = "", certified_ns: int | None = None) -> Graded:
    samples = wire.Samples(durations_ns=(certified_ns or 1,) * 3)
    timed = wire.Measurement(workload_id="n1537", clock=wire.Clock.HOST, certified=samples, reported=samples, bound_ns=0, floor_ns=0)
    report = Report(verdict=verdict, reason=reason, summary="", measurements=() if certified_ns is None else (timed,))
    return Graded(report=report, facts=(wire.RunEnd(cause="exited", output=output),))  # a report of ranked mode shows none of it


def test_a_faster_time_than_the_honest_twins_is_a_gain() -> None:
    """By more than 10 us, and 1 % of a long kernel; less is the clock's own."""
    problem = test_exploits.problem_of(SLOW_ATTACK)
    honest = graded(Verdict.ACCEPTED, certified_ns=500_000)
    gains = {ns: gain_of(graded(Verdict.ACCEPTED, certified_ns=ns), honest, problem) for ns in (480_000, 491_000, 600_000)}
    assert gains == {480_000: "20.0 us", 491_000: None, 600_000: None}


def test_what_an_accepted_attack_gains() -> None:
    """Everything where its file does not allow it; it is not known where the honest twin was refused."""
    bomb, accepted = attack_files.attack("memory_bomb"), graded(Verdict.ACCEPTED, certified_ns=500_000)
    assert test_exploits.gained_by(bomb, accepted, None) == "accepted"
    assert test_exploits.gained_by(bomb, graded(Verdict.MEMORY_LIMIT_EXCEEDED, "HOST_MEMORY"), None) is None
    assert test_exploits.gained_by(SLOW_ATTACK, accepted, graded(Verdict.WRONG_ANSWER)) == "not known: its honest twin failed"
    assert test_exploits.gained_by(SLOW_ATTACK, accepted, accepted) is None


@pytest.mark.parametrize(
    ("name", "one", "complaints"),
    [
        ("memory_bomb", graded(Verdict.WRONG_ANSWER), ["expected MEMORY_LIMIT_EXCEEDED HOST_MEMORY"]),
        ("stale_graph", graded(Verdict.WRONG_ANSWER, "MISMATCH"), ["no attack took place"]),
        ("reads_reference", graded(Verdict.WRONG_ANSWER, "UNWRITTEN_OUTPUT", "FOUND /x"), ["found 'FOUND'"]),
        ("computes_nothing", graded(Verdict.WRONG_ANSWER, "UNWRITTEN_OUTPUT", SECRET), [f"found '{SECRET}'"]),
        ("stale_graph", graded(Verdict.WRONG_ANSWER, "MISMATCH", "captured"), []),
    ],
)
def test_what_is_not_as_the_file_says_is_named(name: str, one: Graded, complaints: list[str]) -> None:
    """Another verdict, an attack that did not take place, something found that is not the kernel's; the last one is the control."""
    assert list(test_exploits.complaints(attack_files.attack(name), one)) == complaints


def test_every_attack_is_for_a_gpu_or_says_why_not() -> None:
    """Nothing is left out in silence, and what is accepted at most gains nothing."""
    on_a_gpu = attack_files.attacks_on_a_gpu()
    left_out = [one for one in attack_files.all_in("attacks") if one.name not in {kernel.name for kernel in on_a_gpu}]
    assert all(one.emulated_only.startswith("emulated; ") for one in left_out)
    assert len(on_a_gpu) >= 120
    assert all("ACCEPTED" not in one.expect or one.no_gain for one in on_a_gpu)
    assert {expected.split()[0] for one in on_a_gpu for expected in one.expect} <= {one.value for one in Verdict}


def test_a_rate_at_saturation_leaves_out_start_and_end() -> None:
    """Two lanes that end a job a second each, from the tenth second on; the last job of one comes late."""
    assert saturated_rate([10.0, 11.0, 12.0, 13.0], 1) == 60.0
    ends = [10.0, 10.5, 11.0, 11.5, 12.0, 12.5, 13.0, 20.0]
    assert saturated_rate(ends, 2) == 120.0
    assert 60 * len(ends) / (max(ends) - 9.0) < 50.0  # the control: all of the run
