"""The comparison of two submissions: faster, slower, or can't tell; and what changed in the sources."""

import random

import pytest

from grader.v1 import report_pb2, submission_pb2
from grader_extensions.web.comparison import SOURCE_LINES, SpeedChange, source_changes, workload_changes
from tests.unit.step_counts import call_steps
from tests.unit.test_linear_text import SOUPS, is_linear, submitted


def timed(certified_ns, *, workload_id="n64", speedup=None, spread=0.01, count=40, seed=1):
    """A measurement whose samples scatter by spread about certified_ns. speedup: over eager, known to 1 %."""
    draw = random.Random(seed)
    samples = [round(certified_ns * draw.lognormvariate(0, spread)) for _ in range(count)]
    found = report_pb2.Measurement(workload_id=workload_id, certified=report_pb2.Samples(sample_durations_ns=samples))
    if speedup:
        found.speedups.add(baseline="eager", ratio=speedup, ratio_low=speedup * 0.99, ratio_high=speedup * 1.01)
    return found


def submission(*measurements, name="a", device="H200", sources=(), clock=report_pb2.CLOCK_DEVICE_EVENTS):
    environment = report_pb2.Environment(device=device, device_kind="cuda", clock=clock)
    report = report_pb2.Report(verdict=report_pb2.VERDICT_ACCEPTED, measurements=measurements, environment=environment)
    files = [submission_pb2.SourceFile(path=path, content=content) for path, content in sources]
    return submission_pb2.Submission(name=f"submissions/{name}", problem="problems/p", report=report, sources=files)


def changed(first, second):
    [found] = workload_changes(first, second)
    return found


def test_a_faster_one_is_faster_and_the_other_way_round():
    """Twice as fast, by the times and by the speedups; the interval holds the truth."""
    first, second = submission(timed(2_000_000, speedup=1.0)), submission(timed(1_000_000, speedup=2.0, seed=2))
    forth, back = changed(first, second), changed(second, first)
    assert (forth.change, back.change) == (SpeedChange.FASTER, SpeedChange.SLOWER)
    assert forth.ratio.low < 2 < forth.ratio.high and back.ratio.low < 0.5 < back.ratio.high
    assert forth.against.value == pytest.approx(2) and forth.baseline == "eager"


def test_the_same_kernel_twice_is_rarely_called_different():
    """Of 200 pairs of one kernel, at most about one in twenty; most say that 1x is within the interval."""
    verdicts = [
        changed(submission(timed(1_000_000, spread=0.05, seed=seed)), submission(timed(1_000_000, spread=0.05, seed=seed + 1000))).change
        for seed in range(200)
    ]
    assert verdicts.count(SpeedChange.UNKNOWN) >= 180


def test_a_device_that_changed_is_not_taken_for_the_kernel():
    """Every time of the second grading is 20 % longer, PyTorch's too: the times differ, the speedups do not."""
    first, second = submission(timed(1_000_000, speedup=2.0)), submission(timed(1_200_000, speedup=2.0, seed=2))
    found = changed(first, second)
    assert found.change is SpeedChange.UNKNOWN and found.ratio.high < 1 and "does not confirm" in found.reason
    unprotected = changed(submission(timed(1_000_000)), submission(timed(1_200_000, seed=2)))  # the control: no speedups to compare
    assert unprotected.change is SpeedChange.SLOWER


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (submission(timed(500_000, speedup=2.0), device="H100"), "different devices, H200 and H100"),
        (submission(timed(500_000, speedup=2.0), clock=report_pb2.CLOCK_HOST), "different clocks"),
        (submission(timed(500_000, speedup=2.0, count=3)), "too few samples"),
        (submission(timed(0, speedup=2.0)), "too few samples, or a time that was not resolved"),
        (submission(), "b has no certified time"),
    ],
)
def test_what_can_not_be_compared_is_not(second, reason):
    """The control: on one device with enough samples it is faster."""
    first = submission(timed(1_000_000, speedup=1.0))
    found = changed(first, second)
    assert found.change is SpeedChange.UNKNOWN and reason in found.reason
    assert changed(first, submission(timed(500_000, speedup=2.0))).change is SpeedChange.FASTER


def test_the_source_diff_is_a_unified_diff_by_file():
    """Changed, added and removed files; the same file is not there."""
    first = submission(sources=[("k.cu", "a\nb\nc"), ("same.h", "x"), ("old.h", "y"), ("older.h", "y")])
    second = submission(sources=[("k.cu", "a\nB\nc"), ("same.h", "x"), ("new.h", "z")])
    found = {one.path: one.lines for one in source_changes(first, second)}
    assert found["k.cu"] == ("--- a/k.cu", "+++ b/k.cu", "@@ -1,3 +1,3 @@", " a", "-b", "+B", " c")
    assert found["new.h"][:2] == ("--- /dev/null", "+++ b/new.h") and found["old.h"][1] == "+++ /dev/null" and len(found) == 4
    assert not list(source_changes(first, first))


def test_sources_that_are_too_long_are_not_compared():
    """difflib takes quadratic time, and they are a stranger's."""
    long = "\n".join(str(line) for line in range(SOURCE_LINES + 1))
    [found] = source_changes(submission(sources=[("k.cu", long)]), submission(sources=[("k.cu", "x")]))
    assert len(found.lines) == 1 and "too long to compare" in found.lines[0]


def compared(text: str) -> None:
    """Most lines differ, and the others are apart from each other: difflib's worst case."""
    first = "\n".join(f"{text[:10]}{line // 2}{'x' * (line % 2)}" for line in range(len(text) // 8))
    list(source_changes(submitted(first), submitted(first.replace("x", "y"))))
    list(source_changes(submitted(text), submitted(text[1:])))


def test_sources_are_compared_in_linear_time() -> None:
    assert not [soup for soup in SOUPS if not is_linear(lambda text: call_steps(lambda: compared(text)), soup, 200)]
