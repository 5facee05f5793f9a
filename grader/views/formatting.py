"""How enums, times, shares and flags are said to people.  Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.duration_pb2 import Duration

from grader.v1 import report_pb2, submission_pb2
from grader.views.sanitize import one_line

PRACTICE = "practice, not official: times are of an emulated device"
FLAGS = {
    "REPORTED_TIME_NOT_CONFIRMED": "the judge's clock does not confirm the time that the kernel reported; the certified one counts",
    "DONE_TOO_EARLY": "the kernel signalled completion while GPU work was still running; only the minimum timing overhead was subtracted",
    "DEVICE_NOT_QUIET": "the GPU or host was busy during timing; only the minimum overhead was subtracted, so it may be faster than shown",
    "BASELINE_SLOWED": "PyTorch ran slower next to this kernel than alone; its time alone was used",
    "SPEEDUP_NOT_RESOLVED": "a time is too short, or this machine too busy, to measure reliably; that workload is not scored",
    "THROTTLED": "the device reduced its clocks during timing, because of heat or power; cool it, and grade again",
    "NOT_SCORED": "a workload has no speedup or time in at least one process; the submission is on no board",
}
NOT_RESOLVED = "not resolved"
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def name_of(enum: Any, value: int, prefix: str) -> str:
    """An enum value's name without its prefix; a value that is newer than this program by its number."""
    return str(enum.Name(value)).removeprefix(prefix) if value in enum.values() else f"UNKNOWN_{value}"


def verdict_name(report: report_pb2.Report) -> str:
    """The verdict, such as WRONG_ANSWER."""
    return name_of(report_pb2.Verdict, report.verdict, "VERDICT_")


def state_name(submission: submission_pb2.Submission) -> str:
    """The state, such as QUEUED."""
    return name_of(submission_pb2.SubmissionState, submission.state, "SUBMISSION_STATE_")


def outcome_name(trial: report_pb2.Trial) -> str:
    """A trial's outcome in lower case, such as unwritten."""
    return name_of(report_pb2.TrialOutcome, trial.outcome, "TRIAL_OUTCOME_").lower().replace("_", " ")


def wrong_element(found: report_pb2.WrongElement) -> tuple[str, str, str]:
    """An element's place, such as c[0, 3], what is expected there, and what is there."""
    place = f"{one_line(found.output)}[{', '.join(map(str, found.index))}]" if found.index else one_line(found.output)
    return place, f"{found.expected:.9g}", f"{found.actual:.9g}"


def duration_ns(duration: Duration) -> int:
    """A protobuf duration in nanoseconds."""
    return duration.seconds * 1_000_000_000 + duration.nanos


def time(nanoseconds: float) -> str:
    """A time with three digits and its unit; what is no more than the clock itself takes is not resolved."""
    if nanoseconds < 0.5:
        return NOT_RESOLVED
    for size, unit in _UNITS:
        if abs(nanoseconds) >= size:
            return f"{_three_digits(nanoseconds / size)} {unit}"
    return f"{nanoseconds:.0f} ns"


def median(samples: report_pb2.Samples) -> str:
    """The median of samples, as a time."""
    return time(duration_ns(samples.median_duration))


def spread(samples: report_pb2.Samples) -> str:
    """The median of samples with the range that three fifths of them are in, in one unit."""
    middle = duration_ns(samples.median_duration)
    ends = [duration_ns(end) for end in (samples.p20_duration, samples.p80_duration)]
    if not any(ends) or middle <= 0:
        return time(middle)
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(middle) >= size), (1.0, "ns"))
    low, high = (_three_digits(end / size) for end in ends)
    return f"{_three_digits(middle / size)} {unit} ({low} to {high})"


def ceilings(of: Mapping[str, float]) -> str:
    """What a device does at most: bandwidth first, then arithmetic by dtype."""
    message = [f"{of['bytes_per_s'] / 1e12:.3g} TB/s"] if "bytes_per_s" in of else []
    rates = {name.removeprefix("flops_per_s:"): value for name, value in of.items() if name.startswith("flops_per_s:")}
    message += [f"{one_line(name)} {rates[name] / 1e12:.3g} Tflop/s" for name in sorted(rates)]
    return ", ".join(message) or "nothing"


def share(count: int, of: int) -> str:
    """A part of a whole in per cent; what is not none never reads as 0, and what is not all never as 100."""
    if of <= 0:
        return "-"
    if count in (0, of):
        return "0 %" if count == 0 else "100 %"
    return f"{min(max(100 * count / of, 0.01), 99.99):.2f} %"


def error(value: float | None) -> str:
    """An error with three digits."""
    return "-" if value is None else f"{value:.3g}"


def ratio(speedup: report_pb2.Speedup) -> str:
    """A speedup with its interval."""
    return f"{speedup.ratio:.3g}x ({speedup.ratio_low:.3g} to {speedup.ratio_high:.3g})"


def score(value: float, low: float, high: float, kind: int) -> str:
    """A score with its interval: 2.31x (2.28..2.35), or 1.23 ms (1.20..1.25)."""
    if kind != report_pb2.SCORE_KIND_TIME:
        return f"{value:.3g}x ({low:.3g}..{high:.3g})"
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(value) >= size), (1.0, "ns"))
    return f"{_three_digits(value / size)} {unit} ({_three_digits(low / size)}..{_three_digits(high / size)})"


def middle_time(measurements: Sequence[report_pb2.Measurement], field: str) -> str:
    """The median over workloads of a field of samples, as one figure for a table."""
    known = [duration_ns(getattr(one, field).median_duration) for one in measurements if one.HasField(field)]
    return time(statistics.median(known)) if known else "-"


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:.0f}"


def byte_count(size_bytes: int) -> str:
    """A size for people, such as `12.3 kB`."""
    value, units = float(size_bytes), ("B", "kB", "MB", "GB")
    for unit in units:
        if value < 1000 or unit == units[-1]:
            break
        value /= 1000
    return f"{size_bytes} B" if size_bytes < 1000 else f"{value:.3g} {unit}"


def profile_outcome(outcome: report_pb2.ProfileToolOutcome) -> str:
    """What became of a tool of profile mode, in words."""
    name = name_of(report_pb2.ProfileToolOutcome, outcome, "PROFILE_TOOL_OUTCOME_").lower()
    return "not available" if name == "unavailable" else name


def dimensions(sizes: Sequence[int]) -> str:
    """Sizes along axes, such as `64 x 64 x 1`."""
    return " x ".join(map(str, sizes))
