"""How enums, times, shares and flags are said to people.  Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.duration_pb2 import Duration

from grader import devices
from grader.v1 import report_pb2, submission_pb2
from grader.views import figures
from grader.views.figures import Occupancy
from grader.views.sanitize import one_line

PRACTICE = "practice, not official: times are of an emulated device"
REHEARSAL = f"{devices.SIMULATED}; nothing was built or run"
FLAGS = {
    "REPORTED_TIME_NOT_CONFIRMED": "the judge's clock does not confirm the time that the kernel reported; the certified one counts",
    "DEVICE_NOT_QUIET": "the GPU or host was busy during timing; only the minimum overhead was subtracted, so it may be faster than shown",
    "BASELINE_SLOWED": "PyTorch ran slower next to this kernel than alone; its time alone was used",
    "SPEEDUP_NOT_RESOLVED": "a time is too short, or this machine too busy, to measure reliably; that workload is not scored",
    "THROTTLED": "the device reduced its clocks during timing, because of heat or power; cool it, and grade again",
    "PRACTICE_SCORE": "the emulated device's clock did not resolve every time; the score is of medians as they are, and for practice only",
    "NOT_SCORED": "a workload has no speedup or time in at least one process; the submission is on no board",
}
NOT_RESOLVED = "not resolved"
_SHOWN_WITH_ENVIRONMENT = "EMULATED_NOT_RANKED"
_AT_REST = ("", "GpuIdle")
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def practice(device: str) -> str:
    """Why the times of this device are not official."""
    return REHEARSAL if device == devices.SIMULATED else PRACTICE


def name_of(enum: Any, value: int, prefix: str) -> str:
    """An enum value's name without its prefix; a value that is newer than this program by its number."""
    return str(enum.Name(value)).removeprefix(prefix) if value in enum.values() else f"UNKNOWN_{value}"


def verdict_name(report: report_pb2.Report) -> str:
    """The verdict, such as WRONG_ANSWER."""
    return name_of(report_pb2.Verdict, report.verdict, "VERDICT_")


def state_name(submission: submission_pb2.Submission) -> str:
    """The state, such as QUEUED."""
    return name_of(submission_pb2.SubmissionState, submission.state, "SUBMISSION_STATE_")


def verdict_or_state(submission: submission_pb2.Submission) -> str:
    """The verdict, or the state of a submission that has none."""
    return verdict_name(submission.report) if submission.HasField("report") else state_name(submission)


def withdrawal(submission: submission_pb2.Submission) -> str:
    """By whom, when and why it was withdrawn; "" where it was not."""
    if not submission.HasField("withdrawal"):
        return ""
    found = submission.withdrawal
    who = "its owner" if found.user == submission.user else f"the administrator {one_line(found.user)}"
    by = f" by {who}" if found.user else ""
    time = found.create_time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"withdrawn{by} at {time}" + (f": {one_line(found.reason, most_chars=400)}" if found.reason else "")


def outcome_name(trial: report_pb2.Trial) -> str:
    """A trial's outcome in lower case, such as unwritten."""
    return name_of(report_pb2.TrialOutcome, trial.outcome, "TRIAL_OUTCOME_").lower().replace("_", " ")


def wrong_element(found: report_pb2.WrongElement) -> tuple[str, str, str, str]:
    """An element's place, such as c[0, 3], what is expected there, what is there, and by how much it may differ."""
    place = f"{one_line(found.output)}[{', '.join(map(str, found.index))}]" if found.index else one_line(found.output)
    return place, f"{found.expected:.9g}", f"{found.actual:.9g}", f"{found.allowed_error:.3g}"


def flags(names: Sequence[str]) -> list[tuple[str, str]]:
    """Flags with what they mean, "" where that is not known here; without the one that is shown with the environment."""
    return [(name, FLAGS.get(name, "")) for name in names if name != _SHOWN_WITH_ENVIRONMENT]


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


def baselines(names: Iterable[str]) -> list[str]:
    """Baselines in the order in which they are shown: eager first."""
    return sorted(set(names), key=lambda name: (name != "eager", name))


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
    """What a device does at most: bandwidth first, then arithmetic by the unit that does it."""
    message = [f"memory {bytes_rate(of[figures.BYTES_PER_S])}"] if figures.BYTES_PER_S in of else []
    rates = {name.removeprefix(figures.FLOPS_PER_S): value for name, value in of.items() if name.startswith(figures.FLOPS_PER_S)}
    message += [f"{one_line(figures.UNITS.get(name, name))} {flops_rate(rates[name])}" for name in sorted(rates)]
    return ", ".join(message) or "nothing"


def bytes_rate(per_s: float) -> str:
    """Bytes a second, as TB/s, GB/s or MB/s (powers of ten)."""
    return _rate(per_s, "B/s")


def flops_rate(per_s: float) -> str:
    """Operations a second, as TFLOP/s, GFLOP/s or MFLOP/s."""
    return _rate(per_s, "FLOP/s")


def ceiling_share(of: figures.CeilingShare) -> str:
    """Such as 52 % of FP32 units; below 1 % with two digits."""
    percent = 100 * of.share
    return f"{percent:.0f} % of {of.unit}" if percent >= 1 else f"{percent:.2g} % of {of.unit}"


def throughput(found: figures.Throughput) -> list[str]:
    """Rates with their shares, intensity, and the nearest ceiling; a phrase each."""
    message = []
    if found.bytes_per_s is not None:
        share = f" ({ceiling_share(found.bandwidth)})" if found.bandwidth else ""
        message.append(f"{bytes_rate(found.bytes_per_s)}{share}")
    if found.flops_per_s is not None:
        shares = f" ({', '.join(map(ceiling_share, found.shares))})" if found.shares else ""
        message.append(f"{flops_rate(found.flops_per_s)}{shares}")
    if found.intensity is not None:
        message.append(f"{found.intensity:.3g} FLOP/byte")
    if found.limit and found.bandwidth and found.shares:
        message.append(f"nearest ceiling: {found.limit}")
    return message


def shares(one: report_pb2.Measurement) -> list[str]:
    """What a server says that does not send the declared work."""
    message = [f"{100 * one.bandwidth_share:.0f} % of the memory's bandwidth"] if one.HasField("bandwidth_share") else []
    return [*message, f"{100 * one.peak_share:.0f} % of the arithmetic's peak"] if one.HasField("peak_share") else message


def second_figures(one: report_pb2.Measurement) -> list[str]:
    """What is never scored: the speedup that do_bench shows, and the time of a launch in batches."""
    claimed = {name: figures.reported_speedup(one, name) for name in sorted(one.reported_baselines)}
    message = [f"{ratio:.3g}x over {name}" for name, ratio in claimed.items() if ratio is not None]
    return [*([f"by do_bench {' and '.join(message)}"] if message else []), *batches(one)]


_ENDS = {
    report_pb2.MEASUREMENT_END_WIDTH: "as narrow as asked",
    report_pb2.MEASUREMENT_END_FLOOR: "the clock is no more precise for a time as short as this",
    report_pb2.MEASUREMENT_END_TURNS: "no more turns are taken",
    report_pb2.MEASUREMENT_END_BUDGET: "its time was over",
}


def turns(one: report_pb2.Measurement) -> str:
    """How a measurement ended, such as 18 turns, 1 left out, +-0.92 % (as narrow as asked); "" where it is not known."""
    if not one.turn_count:
        return ""
    message = [f"{one.turn_count} turns"]
    if one.left_out_turn_count:
        message.append(f"{one.left_out_turn_count} left out")
    if one.HasField("half_width"):
        percent = 100 * one.half_width
        message.append(f"\N{PLUS-MINUS SIGN}{percent:.{0 if percent >= 10 else 1 if percent >= 1 else 2}f} %")
    return ", ".join(message) + (f" ({_ENDS[one.end]})" if one.end in _ENDS else "")


def batches(one: report_pb2.Measurement) -> list[str]:
    """The time of a launch in batches of launches, where there were some."""
    of = f" of {one.batch_size}" if one.batch_size else ""
    return [f"{median(one.batch)} a launch in batches{of}"] if one.HasField("batch") else []


def conditions(found: Mapping[str, str]) -> str:
    """Clock, temperature, power, and what held the device back; the rest is for programs."""
    message = []
    if "sm_clock_mhz" in found:
        most = f" of {found['sm_clock_max_mhz']}" if "sm_clock_max_mhz" in found else ""
        message.append(f"clock {found['sm_clock_mhz']}{most} MHz")
    message += [f"{found[name]} {unit}" for name, unit in (("temperature_c", "C"), ("power_w", "W")) if name in found]
    reasons = [reason for reason in found.get("throttle_reasons", "").split(",") if reason.strip() not in _AT_REST]
    if reasons:
        message.append(f"held back by {' and '.join(reasons)}")
    if found.get("ecc_uncorrected", "0") != "0":
        message.append(f"{found['ecc_uncorrected']} uncorrected memory errors")
    return ", ".join(message)


def occupancies(found: Sequence[Occupancy]) -> str:
    """Theoretical occupancy by block size, such as 100 % at 128 and 256 threads, 50 % at 1024 threads (registers)."""
    message = []
    for (share_, limit), same in itertools.groupby(found, key=lambda one: (one.share, one.limit)):
        sizes = " and ".join(str(one.threads) for one in same)
        message.append(f"{100 * share_:.0f} % at {sizes} threads{f' ({limit})' if share_ < 1 else ''}")
    return ", ".join(message)


def median_range(samples: report_pb2.Samples) -> str:
    """The interval of the median, such as 1.22 ms to 1.25 ms; "" where it is not known."""
    ends = [duration_ns(end) for end in (samples.median_low_duration, samples.median_high_duration)]
    return f"{time(ends[0])} to {time(ends[1])}" if all(ends) else ""


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


def _rate(per_s: float, unit: str) -> str:
    size, prefix = next(((size, prefix) for size, prefix in ((1e12, "T"), (1e9, "G")) if per_s >= size), (1e6, "M"))
    return f"{_three_digits(per_s / size)} {prefix}{unit}"


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


def sanitizer_severity(found: report_pb2.SanitizerFinding) -> str:
    """How much a finding weighs, in a word."""
    return name_of(report_pb2.SanitizerSeverity, found.severity, "SANITIZER_SEVERITY_").lower()


def sanitizer_place(found: report_pb2.SanitizerFinding) -> str:
    """Where a sanitizer saw it: `kernel.cu:31`, and the other line of a race; "" where that is not known."""
    places = [f"{path}:{line}" for path, line in ((found.path, found.line), (found.other_path, found.other_line)) if path and line]
    return " and ".join(dict.fromkeys(places))


def sanitizer_thread(found: report_pb2.SanitizerFinding) -> str:
    """Which thread was the first: `block (0, 0, 0), thread (3, 0, 0)`; "" where that is not known."""
    named = [f"{word} ({', '.join(map(str, one))})" for word, one in (("block", found.block), ("thread", found.thread)) if one]
    return ", ".join(named)


def profile_outcome(outcome: report_pb2.ProfileToolOutcome) -> str:
    """What became of a tool of profile mode, in words."""
    name = name_of(report_pb2.ProfileToolOutcome, outcome, "PROFILE_TOOL_OUTCOME_").lower()
    return "not available" if name == "unavailable" else name


def order_swap(report: report_pb2.Report) -> str:
    """What a harness inside the kernel's process would say, in a sentence; "" where that was not tried."""
    found = report.profile.order_swap if report.profile.HasField("order_swap") else None
    found = next((trial.order_swap for trial in report.trials if trial.HasField("order_swap")), found)
    if found is None:
        return ""
    first, second = ("right" if one else "wrong" for one in (found.kernel_first, found.pytorch_first))
    why = ", because PyTorch's answer still lies in the memory that it gets" if found.pytorch_first and not found.kernel_first else ""
    return f"A harness inside the kernel's process would call it {first} with the kernel first, and {second} with PyTorch first{why}."


def dimensions(sizes: Sequence[int]) -> str:
    """Sizes along axes, such as `64 x 64 x 1`."""
    return " x ".join(map(str, sizes))
