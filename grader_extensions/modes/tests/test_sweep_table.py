"""Views of the reports of a sweep: points, a table, CSV and SVG. A wrong size is a gap and never a number."""

import csv
import io
import json
import math
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from rich.console import Console

from grader.api import messages
from grader.cli.exits import UsageError
from grader.formats import native
from grader.model import Report, Submission, SubmissionState, Verdict
from grader.rules.disclosure import Redactor
from grader.v1 import problem_pb2
from grader_extensions.authoring.commands import sweep_range
from grader_extensions.modes import sweep_command as command
from grader_extensions.modes.sweep import sweep_problem
from grader_extensions.modes.sweep_command import NOT_RUN, SweepMetric, collate, table_rows, to_csv
from grader_extensions.modes.tests.test_sweep import EXAMPLES
from grader_extensions.web.tests.test_plots import marks
from sandbox.protocol import wire
from tests import fakes
from tests.unit.test_cli_commands import address, run, write  # noqa: F401  # address is a fixture
from tests.unit.test_disclosure import NOW

PROBLEM = sweep_problem(native.load(EXAMPLES / "elementwise_square"), problem_pb2.Sweep(), ("emulated",))
SIZES = [workload.axes["cols"] for workload in PROBLEM.spec.workloads]


def submission(right=lambda size: True, *, factor=1, clock=wire.Clock.HOST, verdict=Verdict.ACCEPTED):
    """Return what the API shows of a kernel that takes factor ns for each column, and eager twice that; wrong where right is false."""
    trials, measurements = [], []
    for workload in PROBLEM.spec.workloads:
        size = workload.axes["cols"]
        outcome = wire.TrialOutcome.PASSED if right(size) else wire.TrialOutcome.UNWRITTEN
        trials.append(fakes.trial(workload.workload_id, outcome=outcome))
        if right(size):
            times = wire.Samples(durations_ns=tuple(size * factor * 100 + change for change in (-2, -1, 0, 1, 2)))
            eager = wire.Samples(durations_ns=tuple(2 * time for time in times.durations_ns))
            row = replace(fakes.measurement(workload.workload_id), clock=clock, certified=times, baselines={"eager": eager})
            measurements.append(row)
    report = Report(
        verdict=verdict,
        reason="",
        summary="It never wrote 3 elements.",
        trials=tuple(trials),
        measurements=tuple(measurements),
        environment=wire.Environment(device="a device", device_kind="emulated", clock=clock),
    )
    swept = Submission(
        submission_id="s1",
        new=fakes.new_submission(problem_id="elementwise_square", mode=wire.Mode.SWEEP),
        problem_digest="d",
        state=SubmissionState.SUCCEEDED,
        create_time=NOW,
        report=report,
    )
    return messages.submission_to_proto(swept, Redactor.for_problem(PROBLEM), full=True)


WRONG = submission(lambda size: size <= 1024, verdict=Verdict.WRONG_ANSWER)
TABLE = collate([("right", submission()), ("wide", WRONG)])


def test_a_wrong_size_has_its_outcome_and_no_figure():
    points = TABLE.of("wide")
    assert [points[size].outcome for size in SIZES] == ["right", "right", "unwritten", "unwritten", "unwritten"]
    for metric in SweepMetric:
        assert all(math.isnan(value) for value in points[SIZES[-1]].figure(metric))
        assert all(value > 0 for value in points[SIZES[0]].figure(metric))


def test_a_rate_is_the_declared_amount_in_the_certified_time():
    """GB/s are 1e9 bytes a second; a short time is the upper end."""
    point = TABLE.of("right")[512]
    assert (point.certified_ns, point.low_ns, point.high_ns) == pytest.approx((51200.0, 51197.9, 51202.1))
    value, low, high = point.figure(SweepMetric.BANDWIDTH)
    assert value == pytest.approx(8 * 256 * 512 / 51200) and low < value < high
    assert point.figure(SweepMetric.COMPUTE)[0] == pytest.approx(256 * 512 / 51200 / 1e3)
    assert point.figure(SweepMetric.TIME)[0] == pytest.approx(51.2)


def test_a_baseline_is_a_provider_and_is_timed_next_to_the_kernels():
    """Its samples are those next to all of them; where no kernel is right it has none."""
    eager = TABLE.of("PyTorch eager")
    assert TABLE.providers == ("right", "wide", "PyTorch eager")
    assert (eager[512].sample_count, eager[8192].sample_count) == (10, 5)
    alone = collate([("wide", WRONG)]).of("PyTorch eager")
    assert alone[8192].outcome == NOT_RUN and alone[512].certified_ns == 102400.0


def test_a_disqualified_or_unbuilt_kernel_is_named_so():
    for verdict, outcome in ((Verdict.DISQUALIFIED, "disqualified"), (Verdict.COMPILE_ERROR, "compile error")):
        swept = submission(verdict=verdict)
        del swept.report.measurements[:]
        assert {point.outcome for point in collate([("bad", swept)]).of("bad").values()} == {outcome}


def test_a_time_below_the_clock_is_not_resolved():
    table = collate([("quick", submission(factor=0))])
    assert {point.outcome for point in table.of("quick").values()} == {"not resolved"}


def test_csv_has_every_column_in_full():
    read = list(csv.DictReader(io.StringIO(to_csv(TABLE))))
    assert len(read) == 3 * len(SIZES) and list(read[0]) == list(table_rows(TABLE)[0])
    for column in (
        "certified_ns",
        "certified_low_ns",
        "certified_high_ns",
        "gb_per_s",
        "tflop_per_s_high",
        "axis_rows",
        "speedup_over_eager_low",
    ):
        assert column in read[0]
    first = next(row for row in read if row["provider"] == "right" and row["size"] == "512")
    assert float(first["gb_per_s"]) == TABLE.of("right")[512].figure(SweepMetric.BANDWIDTH)[0]
    wrong = next(row for row in read if row["provider"] == "wide" and row["size"] == "8192")
    assert (wrong["outcome"], wrong["certified_ns"], wrong["gb_per_s"], wrong["speedup_over_eager"]) == ("unwritten", "", "", "")


def drawn(table):
    return ET.fromstring(command.draw(table, SweepMetric.BANDWIDTH))


def printed(table, ended):
    """The table as a terminal shows it."""
    console = Console(file=io.StringIO(), width=200)
    for part in command.render(table, SweepMetric.BANDWIDTH, ended):
        console.print(part)
    return console.file.getvalue()


def test_the_plot_has_a_mark_for_each_right_size_only():
    plot = drawn(TABLE)
    assert [len(marks(plot, index)) for index in range(3)] == [5, 2, 5]
    assert "wide (wrong at 3 of 5)" in "".join(plot.itertext())


def test_practice_times_are_marked_on_plot_and_table():
    """The control: times of a device's clock are not."""
    for clock, marked in ((wire.Clock.HOST, True), (wire.Clock.DEVICE_EVENTS, False)):
        ended = [("k", submission(clock=clock))]
        table = collate(ended)
        assert ("practice" in "".join(drawn(table).itertext())) is marked
        assert ("practice" in printed(table, ended)) is marked
        assert {row["clock"] for row in table_rows(table)} == {"host" if marked else "device"}


def test_the_table_has_a_cell_for_each_provider_and_what_is_wrong():
    text = printed(TABLE, [("right", submission()), ("wide", WRONG)])
    assert "elementwise_square, rows = 256: GB/s, median (95 % interval)" in text
    assert "unwritten" in text and "wide: WRONG_ANSWER: It never wrote 3 elements." in text
    assert "20.48 (20.5 to 20.5)" in text


def test_a_problem_says_its_sweeps_in_words():
    shown = messages.problem_to_proto(native.load(EXAMPLES / "elementwise_square")).sweeps
    assert [sweep_range(sweep) for sweep in shown] == [
        "cols = 256 to 12672, in steps of 512, with rows = 4096, on cuda",
        "cols = 512 to 8192, each 2 times the one before, with rows = 256, on emulated",
    ]


@pytest.mark.parametrize("text", ["rows", "rows=", "rows=x", "rows=-1", "rows=" + "9" * 40])
def test_the_size_of_another_axis_is_a_number(text):
    with pytest.raises(UsageError, match="rows=4096"):
        command.axis_sizes([text])


RANGE = ("--axis", "n", "--start", "16", "--stop", "64", "--factor", "2")


@pytest.fixture
def kernels(tmp_path):
    """Return a kernel that is right at every size, and one that is wrong at all but the first."""
    return write(tmp_path, "accept"), write(tmp_path, "wrong")


def test_a_sweep_is_a_table_a_plot_and_a_csv_file(address, kernels, tmp_path):  # noqa: F811
    """With a column for each kernel and for PyTorch; a wrong kernel exits with 1."""
    ended = run("sweep", *kernels, *RANGE, "--server", address, "--out", tmp_path / "plots", "--metric", "time")
    assert ended.exit_code == 1, ended.output
    assert "kernel 1 of 2: accept" in ended.stdout and "verifying n-32" in ended.stdout
    table = ended.stdout[ended.stdout.index("sum: us, median") :].splitlines()
    assert table[1].split() == ["n", "accept", "wrong", "PyTorch", "eager"]
    assert "mismatched" not in table[2] and "mismatched" in table[3] and "mismatched" in table[4]
    assert "practice" in ended.stdout and "wrong: WRONG_ANSWER" in ended.stdout
    ET.fromstring((tmp_path / "plots" / "sum_n.svg").read_text())
    read = list(csv.DictReader((tmp_path / "plots" / "sum_n.csv").open()))
    assert [row["certified_ns"] for row in read if row["provider"] == "accept"] == ["1600.0", "3200.0", "6400.0"]
    assert [row["outcome"] for row in read if row["provider"] == "wrong"] == ["right", "mismatched", "mismatched"]


def test_kernels_that_are_right_everywhere_exit_0_with_json(address, kernels):  # noqa: F811
    ended = run("sweep", kernels[0], *RANGE, "--server", address, "--json")
    assert ended.exit_code == 0, ended.output
    data = json.loads(ended.stdout)
    assert (data["axis"], data["metric"], data["practice"]) == ("n", "time", True)
    assert [point["certified_ns"] for point in data["points"] if point["role"] == "kernel"] == [1600.0, 3200.0, 6400.0]
    assert data["submissions"][0]["mode"] == "MODE_SWEEP" and "sources" not in data["submissions"][0]
    assert "sample_durations_ns" not in ended.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "has no sweep for a device of kind emulated; add a [[sweep]] to its problem.toml"),
        ((*RANGE, "--at", "rows"), "write it such as rows=4096"),
        ((*RANGE, "--seconds", "1000"), "at most 30 s"),
        ((*RANGE, "--seconds", "inf"), "--seconds: inf is not a number of seconds"),
    ],
)
def test_what_cannot_be_swept_is_misuse_that_says_why(address, kernels, words, message):  # noqa: F811
    ended = run("sweep", kernels[0], *words, "--server", address)
    assert ended.exit_code == 2 and message in " ".join(ended.stderr.split())


def test_kernels_of_several_problems_are_not_swept_together(address, kernels, tmp_path):  # noqa: F811
    other_path = tmp_path / "other.cu"
    other_path.write_text(kernels[0].read_text().replace("problem=sum", "problem=other"))
    ended = run("sweep", kernels[0], other_path, *RANGE, "--server", address)
    assert ended.exit_code == 2 and "several problems (sum, other)" in ended.stderr
