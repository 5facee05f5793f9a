"""What of `make gpu` needs no GPU: limits, statistics, tables, the mix of the soak, the groups of tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION
from tests.harness.grading import load_problem
from tools.gpu import __main__ as program
from tools.gpu.figures import Interval, certified_limit_us, quantile, reported_limit_us, same_against_same
from tools.gpu.plain import Plain, plan_of
from tools.gpu.problems import FAMILIES, SAME
from tools.gpu.sections import agreement, soak, suites
from tools.gpu.sections.six import N, at_full_size

if AFTER_COLLECTION:
    from tools.gpu import offsets, page


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
    found = same_against_same(
        [
            Interval(ratio=1.0, low=0.995, high=1.005),
            Interval(ratio=1.007, low=1.005, high=1.009),
            Interval(ratio=1.03, low=1.02, high=1.04),
            Interval(ratio=0.97, low=0.96, high=0.98),
            None,
        ]
    )
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
    """100 us plain against 101.9 and 102.1 us reported; no measurement is None, which no claim takes for yes."""
    plain = Plain(times_us={"n8": [[99.0, 100.0, 180.0], [100.0], [101.0]]}, settling_us={"n8": [300.0]}, versions={})
    near, far, certified_far = (
        agreement.comparison("add", "n8", plain, "ACCEPTED", [measured("n8", reported_ns=reported, certified_ns=certified)])
        for reported, certified in ((101_900, 108_000), (102_100, 108_000), (100_000, 111_000))
    )
    missing = agreement.comparison("add", "n8", plain, "ACCEPTED", [])
    assert [agreement.reported_agrees(one) for one in (near, far, missing)] == [True, False, None]
    assert [agreement.certified_agrees(one) for one in (near, certified_far, missing)] == [True, False, None]
    assert near["plain_us"] == 100.0 and near["batch_size"] == 64 and near["plain_settling_us"] == 300.0


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


def test_the_judge_can_be_told_of_every_problem() -> None:
    """Its specification goes over the wire and comes back; every workload gives every axis of every shape."""
    for family in (*FAMILIES, SAME):
        spec = family.problem().spec
        job = wire.Job(
            job_id="j", problem=spec, language="cuda", entry="", mode=wire.Mode.TEST, link_path="", artifact_path="", artifact_digest=""
        )
        assert wire.decode(wire.encode(job)) == job
        named = {axis for tensor in (*spec.inputs, *spec.outputs) for axis in tensor.shape}
        assert all(named <= set(workload.axes) and tuple(workload.axes) == spec.axes for workload in spec.workloads)


def test_the_plain_process_is_told_shapes_and_axes_in_the_kernels_order() -> None:
    """A softmax of rows x cols has one input, one output of its shape."""
    family = next(one for one in FAMILIES if one.name == "row_softmax")
    plan = plan_of(family, Path("artifact"), device="cuda", repetitions=3, seed=1)
    assert plan["sizes"][0] == {"name": "4096x1024", "inputs": [[4096, 1024]], "output": [4096, 1024], "axes": [4096, 1024]}
    assert json.loads(json.dumps(plan)) == plan


def test_the_six_are_graded_at_full_size_whether_or_not_the_problem_has_it() -> None:
    """Added once, for the GPU only; a problem that has it stays as it is."""
    problem = at_full_size(load_problem("tril_matmul"))
    full = [one for one in problem.spec.workloads if one.axes == {"n": N}]
    assert len(full) == 1 and full[0].device_kind == "cuda"
    assert at_full_size(problem) is problem


def test_the_soak_has_good_and_bad_kernels_and_the_same_order_for_the_same_seed() -> None:
    """Every kernel comes up before one comes up twice; those that wait for a limit are left out."""
    items = soak.mixed(emulated=True)
    expected = {one.expected[0].split()[0] for one in items}
    assert {"ACCEPTED", "WRONG_ANSWER", "COMPILE_ERROR", "RUNTIME_ERROR"} <= expected
    assert not soak.SLOW & {one.name for one in items}
    order = [one.name for one in soak.ordered(items, 2 * len(items), seed=5)]
    assert sorted(order[: len(items)]) == sorted(one.name for one in items)
    assert order == [one.name for one in soak.ordered(items, 2 * len(items), seed=5)]


def test_on_a_gpu_the_soak_has_faults_too() -> None:
    """Those of the GPU tests that are not slow, with their headers in them."""
    fault = next(one for one in soak.mixed(emulated=False) if one.name.startswith("illegal_address"))
    assert fault.expected[0].startswith("RUNTIME_ERROR")
    assert '#include "work.h"' not in fault.source


def test_a_table_is_markdown_and_a_cell_can_not_break_it() -> None:
    """Bars are escaped, line ends are spaces, columns of numbers stand at the right."""
    section = page.Section(name="six", title="Six", budget_s=60)
    section.table("kernel", "us").rows.append(("a|b\nc", "12.5 us"))
    lines = page.markdown("Page", {"device": "none"}, [section]).splitlines()
    assert "| a\\|b c | 12.5 us |" in lines and "| --- | ---: |" in lines


def test_a_claim_that_fails_and_a_section_that_broke_are_seen_at_the_top() -> None:
    """Both stand among the claims, and neither section succeeded; a claim that could not be looked into fails nothing."""
    failing, broken, open_ = (page.Section(name=name, title=name, budget_s=1) for name in ("failing", "broken", "open"))
    failing.claim("one is two", False, "it is not")
    broken.failure = "Traceback\nRuntimeError: gone"
    open_.claim("two GPUs", None, "one here")
    assert [one.succeeded for one in (failing, broken, open_)] == [False, False, True]
    text = page.markdown("Page", {}, [failing, broken, open_])
    assert "| failing | one is two | **FAILS** | it is not |" in text
    assert "| broken | the section was finished | **FAILS** | RuntimeError: gone |" in text
    assert json.loads(json.dumps(page.data({}, [failing, broken, open_])))["sections"][0]["claims"][0]["holds"] is False


def test_the_rows_that_tests_print_are_taken_over() -> None:
    """Also behind the test runner's dots; what lies between two tables parts them."""
    output = ".| kernel | verdict |\n| --- | --- |\n| a | b |\n.\nsome words\n| other |\n| --- |\n3 passed\n"
    assert page.pasted_rows(output) == ["| kernel | verdict |", "| --- | --- |", "| a | b |", "", "| other |", "| --- |"]


def test_every_gpu_test_file_belongs_to_one_section(tmp_path: Path) -> None:
    """By its name; those of no group are in `tests`."""
    for name in ("attacks", "honest", "faults", "conformance", "extensions", "cuda_device"):
        (tmp_path / f"test_{name}.py").touch()
    found = {group: [path.stem for path in suites.files_of(group, tmp_path)] for group in (*suites.GROUPS, "tests")}
    assert found == {
        "attacks": ["test_attacks"],
        "honest": ["test_honest"],
        "faults": ["test_faults"],
        "conformance": ["test_conformance"],
        "tests": ["test_cuda_device", "test_extensions"],
    }


def test_pytests_result_file_is_counted() -> None:
    """An error in a fixture is a failure too."""
    xml = """<testsuites><testsuite><testcase classname="tests.gpu.test_a" name="t1"/>
    <testcase classname="tests.gpu.test_a" name="t2"><failure/></testcase><testcase name="t3"><skipped/></testcase>
    <testcase classname="x" name="t4"><error/></testcase></testsuite></testsuites>"""
    assert suites.counted(xml) == suites.Outcome(passed=1, skipped=1, failed=("test_a::t2", "x::t4"))


def test_a_section_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that do."""
    with pytest.raises(SystemExit) as ended:
        program.main(["--only", "six,nonsense"])
    assert ended.value.code == 2
    assert "'nonsense'; choose from naive, six" in capsys.readouterr().err


def test_the_tables_that_tests_write_are_taken_over_by_their_names(tmp_path: Path) -> None:
    """A file each, its heading left out."""
    (tmp_path / "attacks.md").write_text("# attacks\n\n| id |\n| --- |\n| A1 |\n")
    (tmp_path / "result.xml").write_text("| no |")
    assert suites.tables_in(tmp_path) == ["attacks:\n\n| id |\n| --- |\n| A1 |"]


def test_a_record_of_the_clock_becomes_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Turns in microseconds; what the subject's own null runs say is beside what the trusted one's say."""
    turns = {"subject": [[500_000] * 4] * 12, "eager": [[480_000] * 4] * 12, "null with copy": [[400_000] * 4] * 12}
    alone = {"null_ns": {"False": [401_000] * 3, "True": [401_000] * 3}, "floor_ns": [400_000], "run_ns": {"eager": [480_000] * 3}}
    data = {"workload": "n1", "copies": True, "launch_ns": 4_000.0, "alone": alone, "turns": turns}
    (tmp_path / "1-1.json").write_text(json.dumps(data), "utf-8")
    turns["the subject's null"] = [[410_000] * 4] * 12
    data["reported"] = {"subject": 93_100.0, "eager": 92_500.0}
    (tmp_path / "1-2.json").write_text(json.dumps(data), "utf-8")
    assert offsets.main([str(tmp_path)]) == 0
    first, second, summary = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| n1")]
    assert "100.0 ± 0.0" in first and "90.0 ± 0.0" not in first
    assert "90.0 ± 0.0" in second and "401.0" in second and second.endswith("| 0.0 | 0.6 |")
    # Of the 10 us that its own null runs take longer, 2 are believed: 500 - 402 + 4 - 93.1.
    assert summary == "| n1 | 2 | 15.00 | 5.00 | 20.00 | 0.00 | 8.90 | 8.90 |"
    assert offsets.main(["nowhere"]) == 2 and "GRADER_CLOCK_RECORD" in capsys.readouterr().err
