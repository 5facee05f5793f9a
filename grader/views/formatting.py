"""How enums, times, shares and flags are said to people.  Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from grader.v1 import report_pb2, submission_pb2
from grader.views import figures
from grader.views.figures import Occupancy
from grader.views.sanitize import one_line

PRACTICE = "practice, not official: times are of an emulated device"
RIGHT_ON_CPU = "right; times here are the CPU's and mean little"
FLAGS = {
    "REPORTED_TIME_NOT_CONFIRMED": "the judge's clock does not confirm the time by do_bench; the certified one counts",
    "DEVICE_NOT_QUIET": "the GPU or host was busy during timing; only the minimum overhead was subtracted, so it may be faster than shown",
    "BASELINE_SLOWED": "PyTorch ran slower next to this kernel than alone; its time alone was used",
    "SPEEDUP_NOT_RESOLVED": "a time is too short, or this machine too busy, to measure reliably; that workload is not scored",
    "THROTTLED": "the device reduced its clocks during timing, because of heat or power; cool it, and grade again",
    "PRACTICE_SCORE": "the emulated device's clock did not resolve every time; the score is of medians as they are, and for practice only",
    "NOT_SCORED": "a workload has no speedup or time in at least one process; the submission is on no board",
}
NOT_RESOLVED = "not resolved"
STAGES = {
    submission_pb2.STAGE_SCREENING: "on the emulated device first",
    submission_pb2.STAGE_BUILDING: "building",
    submission_pb2.STAGE_PREPARING: "preparing for secret workloads, which wait for the server's copy of the toolchain",
    submission_pb2.STAGE_WAITING: "waiting for the device",
    submission_pb2.STAGE_LOADING: "loading",
    submission_pb2.STAGE_BASELINE: "timing the baselines",
    submission_pb2.STAGE_VERIFYING: "verifying",
    submission_pb2.STAGE_MEASURING: "measuring",
    submission_pb2.STAGE_PROFILING: "profiling",
}
_EMULATED = "EMULATED_NOT_RANKED"  # the headline says it
_AT_REST = ("", "GpuIdle")
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))


def name_of(enum: Any, value: int, prefix: str) -> str:
    """An enum value's name without its prefix; a value that is newer than this program by its number."""
    return str(enum.Name(value)).removeprefix(prefix) if value in enum.values() else f"UNKNOWN_{value}"


def words(message: Message, field: str) -> str:
    """The value of a field that is an enum, in lower case, such as timed out; one that is newer than this program by its number."""
    enum: Any = message.DESCRIPTOR.fields_by_name[field].enum_type
    names: dict[int, str] = {value.number: value.name for value in enum.values}
    name = names.get(getattr(message, field), f"UNKNOWN_{getattr(message, field)}")
    return name.removeprefix(names[0].removesuffix("UNSPECIFIED")).lower().replace("_", " ")


def verdict_name(report: report_pb2.Report) -> str:
    """The verdict, such as WRONG_ANSWER."""
    return name_of(report_pb2.Verdict, report.verdict, "VERDICT_")


def screening(stage: report_pb2.Screening) -> str:
    """The outcome of the stage on the emulated device, as a line."""
    detail = f" ({stage.detail})" if stage.detail else ""
    duration_s = stage.duration.ToNanoseconds() / 1e9
    return f"emulated device first: {words(stage, 'outcome')}{detail}, {stage.workload_count} workloads, {duration_s:.1f} s"


def state_name(submission: submission_pb2.Submission) -> str:
    """The state, such as QUEUED."""
    return name_of(submission_pb2.SubmissionState, submission.state, "SUBMISSION_STATE_")


def verdict_or_state(submission: submission_pb2.Submission) -> str:
    """The verdict, or the state of a submission that has none."""
    return verdict_name(submission.report) if submission.HasField("report") else state_name(submission)


def utc(time: Timestamp) -> str:
    """A moment in UTC, to the second."""
    try:
        return time.ToDatetime().strftime("%Y-%m-%d %H:%M:%S")
    except ValueError:  # sent by a server
        return "a time of no calendar"


def headline(submission: submission_pb2.Submission) -> str:
    """The words next to the verdict: why it is not ACCEPTED, or how fast the kernel is and on what; "" where no more is known."""
    report, speedups = submission.report, {speedup.baseline: speedup.ratio for speedup in submission.report.speedups}
    if report.verdict != report_pb2.VERDICT_ACCEPTED:
        return report.reason if report.reason != verdict_name(report) else ""
    if report.environment.clock == report_pb2.CLOCK_HOST:
        return RIGHT_ON_CPU if report.measurements or submission.HasField("score") else ""
    on = f" on {report.environment.device.removeprefix('NVIDIA ')}"
    if submission.HasField("score"):
        if submission.score_kind == report_pb2.SCORE_KIND_TIME:
            return time(submission.score) + on
        speedups = {submission.score_baseline: submission.score}
    first = next(iter(baselines(speedups)), None)
    return "" if first is None else f"{speedups[first]:.3g}x PyTorch{'' if first == 'eager' else f' {first}'}{on}"


def withdrawal(submission: submission_pb2.Submission) -> str:
    """By whom, when and why it was withdrawn; "" where it was not."""
    if not submission.HasField("withdrawal"):
        return ""
    withdrawn = submission.withdrawal
    who = "its owner" if withdrawn.user == submission.user else f"the administrator {one_line(withdrawn.user)}"
    by = f" by {who}" if withdrawn.user else ""
    time = f"{utc(withdrawn.create_time)} UTC"
    return f"withdrawn{by} at {time}" + (f": {one_line(withdrawn.reason, most_chars=400)}" if withdrawn.reason else "")


def wrong_element(element: report_pb2.WrongElement) -> tuple[str, str, str, str]:
    """An element's place, such as c[0, 3], what is expected there, what is there, and by how much it may differ."""
    place = f"{one_line(element.output)}[{', '.join(map(str, element.index))}]" if element.index else one_line(element.output)
    return place, f"{element.expected:.9g}", f"{element.actual:.9g}", f"{element.allowed_error:.3g}"


def flags(names: Sequence[str]) -> list[tuple[str, str]]:
    """Flags with what they mean, "" where that is not known here. On the emulated device none of times, which mean little there."""
    left_out = {_EMULATED, *FLAGS} - {"NOT_SCORED"} if _EMULATED in names else {}
    return [(name, FLAGS.get(name, "")) for name in names if name not in left_out]


def time_unit(nanoseconds: float) -> tuple[float, str]:
    """Return the largest unit that is no longer than a time: its nanoseconds, and its name."""
    return next(((size, unit) for size, unit in _UNITS if nanoseconds >= size), (1.0, "ns"))


def time(nanoseconds: float) -> str:
    """A time with three digits and its unit; what is no more than the clock itself takes is not resolved."""
    if nanoseconds < 0.5:
        return NOT_RESOLVED
    size, unit = time_unit(nanoseconds)
    return f"{nanoseconds:.0f} ns" if unit == "ns" else f"{_three_digits(nanoseconds / size)} {unit}"


def baselines(names: Iterable[str]) -> list[str]:
    """Baselines in the order in which they are shown: eager first."""
    return sorted(set(names), key=lambda name: (name != "eager", name))


def median(samples: report_pb2.Samples) -> str:
    """The median of samples, as a time."""
    return time(samples.median_duration.ToNanoseconds())


def spread(samples: report_pb2.Samples) -> str:
    """The median of samples with the range that three fifths of them are in, in one unit."""
    middle, *ends = (end.ToNanoseconds() for end in (samples.median_duration, samples.p20_duration, samples.p80_duration))
    if not any(ends) or middle <= 0:
        return time(middle)
    size, unit = time_unit(middle)
    low, high = (_three_digits(end / size) for end in ends)
    return f"{_three_digits(middle / size)} {unit} ({low} to {high})"


def do_bench(measurement: report_pb2.Measurement) -> str:
    """The kernel's time by do_bench, and that the judge's clock does not confirm it; the clock of the emulated device can't."""
    if not measurement.HasField("reported"):
        return "-"
    confirmed = measurement.reported_confirmed or measurement.clock == report_pb2.CLOCK_HOST
    return spread(measurement.reported) if confirmed else f"{median(measurement.reported)}, not confirmed"


def ceilings(of: Mapping[str, float]) -> str:
    """Ceilings of a device: bandwidth first, then arithmetic by the unit that does it."""
    message = [f"memory {rate(of[figures.BYTES_PER_S], 'B/s')}"] if figures.BYTES_PER_S in of else []
    rates = {name.removeprefix(figures.FLOPS_PER_S): value for name, value in of.items() if name.startswith(figures.FLOPS_PER_S)}
    message += [f"{one_line(figures.UNITS.get(name, name))} {rate(rates[name], 'FLOP/s')}" for name in sorted(rates)]
    return ", ".join(message) or "nothing"


def rate(per_s: float, unit: str) -> str:
    """A rate with its unit as M, G or T (powers of ten), such as 1.23 GB/s."""
    size, prefix = next(((size, prefix) for size, prefix in ((1e12, "T"), (1e9, "G")) if per_s >= size), (1e6, "M"))
    return f"{_three_digits(per_s / size)} {prefix}{unit}"


def ceiling_share(of: figures.CeilingShare) -> str:
    """Such as 52 % of FP32 units; below 1 % with two digits."""
    percent = 100 * of.share
    return f"{percent:{'.0f' if percent >= 1 else '.2g'}} % of {of.unit}"


def throughput(throughput: figures.Throughput) -> list[str]:
    """Rates with their shares, intensity, and the nearest ceiling; a phrase each."""
    message = []
    if throughput.bytes_per_s is not None:
        share = f" ({ceiling_share(throughput.bandwidth)})" if throughput.bandwidth else ""
        message.append(f"{rate(throughput.bytes_per_s, 'B/s')}{share}")
    if throughput.flops_per_s is not None:
        shares = f" ({', '.join(map(ceiling_share, throughput.shares))})" if throughput.shares else ""
        message.append(f"{rate(throughput.flops_per_s, 'FLOP/s')}{shares}")
    if throughput.intensity is not None:
        message.append(f"{throughput.intensity:.3g} FLOP/byte")
    if throughput.limit and throughput.bandwidth and throughput.shares:
        message.append(f"nearest ceiling: {throughput.limit}")
    return message


def shares(measurement: report_pb2.Measurement) -> list[str]:
    """Shares of a server that does not send the declared work."""
    message = [f"{100 * measurement.bandwidth_share:.0f} % of the memory's bandwidth"] if measurement.HasField("bandwidth_share") else []
    return [*message, f"{100 * measurement.peak_share:.0f} % of the arithmetic's peak"] if measurement.HasField("peak_share") else message


def reported_speedups(measurement: report_pb2.Measurement) -> list[str]:
    """The speedups that do_bench shows, which are never scored."""
    claimed = {name: figures.reported_speedup(measurement, name) for name in sorted(measurement.reported_baselines)}
    message = [f"{ratio:.3g}x over {name}" for name, ratio in claimed.items() if ratio is not None]
    return [f"by do_bench {' and '.join(message)}"] if message else []


_ENDS = {
    report_pb2.MEASUREMENT_END_WIDTH: "as narrow as asked",
    report_pb2.MEASUREMENT_END_FLOOR: "the clock is no more precise for a time as short as this",
    report_pb2.MEASUREMENT_END_TURNS: "no more turns are taken",
    report_pb2.MEASUREMENT_END_BUDGET: "its time was over",
}


def turns(measurement: report_pb2.Measurement) -> str:
    """How a measurement ended, such as 18 turns, +-0.92 % (as narrow as asked); "" where it is not known, and of the emulated device."""
    if not measurement.turn_count or measurement.clock == report_pb2.CLOCK_HOST:
        return ""
    message = [f"{measurement.turn_count} turns"]
    if measurement.HasField("half_width"):
        percent = 100 * measurement.half_width
        message.append(f"\N{PLUS-MINUS SIGN}{percent:.{0 if percent >= 10 else 1 if percent >= 1 else 2}f} %")
    return ", ".join(message) + (f" ({_ENDS[measurement.end]})" if measurement.end in _ENDS else "")


def own_share(measurement: report_pb2.Measurement) -> str:
    """Such as own kernels: 98 % of device time (by the kernel's own process); "" where it is not known."""
    percent = 100 * measurement.own_share
    among = "launches, PyTorch's operators counted too" if measurement.clock == report_pb2.CLOCK_HOST else "device time"
    text = f"own kernels: {percent:{'.2g' if 0 < percent < 1 else '.0f'}} % of {among} (by the kernel's own process)"
    return text if measurement.HasField("own_share") else ""


def conditions(values: Mapping[str, str]) -> str:
    """Clock, temperature, power, and what held the device back; the rest is for programs."""
    message = []
    if "sm_clock_mhz" in values:
        maximum = f" of {values['sm_clock_max_mhz']}" if "sm_clock_max_mhz" in values else ""
        message.append(f"clock {values['sm_clock_mhz']}{maximum} MHz")
    message += [f"{values[name]} {unit}" for name, unit in (("temperature_c", "C"), ("power_w", "W")) if name in values]
    reasons = [reason for reason in values.get("throttle_reasons", "").split(",") if reason.strip() not in _AT_REST]
    if reasons:
        message.append(f"held back by {' and '.join(reasons)}")
    if values.get("ecc_uncorrected", "0") != "0":
        message.append(f"{values['ecc_uncorrected']} uncorrected memory errors")
    return ", ".join(message)


def occupancies(entries: Sequence[Occupancy]) -> str:
    """Theoretical occupancy by block size, such as 100 % at 128 and 256 threads, 50 % at 1024 threads (registers)."""
    message = []
    for (share_, limit), same in itertools.groupby(entries, key=lambda entry: (entry.share, entry.limit)):
        sizes = " and ".join(str(entry.threads) for entry in same)
        message.append(f"{100 * share_:.0f} % at {sizes} threads{f' ({limit})' if share_ < 1 else ''}")
    return ", ".join(message)


def median_range(samples: report_pb2.Samples) -> str:
    """The interval of the median, such as 1.22 ms to 1.25 ms; "" where it is not known."""
    ends = [end.ToNanoseconds() for end in (samples.median_low_duration, samples.median_high_duration)]
    return " to ".join(map(time, ends)) if all(ends) else ""


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
    size, unit = time_unit(value)
    return f"{_three_digits(value / size)} {unit} ({_three_digits(low / size)}..{_three_digits(high / size)})"


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:.2f}" if size < 10 else f"{value:.1f}" if size < 100 else f"{value:.0f}"


def byte_count(size_bytes: int) -> str:
    """A size for people, such as `12.3 kB`."""
    size, unit = next(((size, unit) for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if size_bytes >= size), (1, "B"))
    return f"{size_bytes / size:.3g} {unit}"


def sanitizer_places(finding: report_pb2.SanitizerFinding) -> list[str]:
    """Where a sanitizer saw it: `kernel.cu:31`, and the other line of a race; none where that is not known."""
    places = [f"{path}:{line}" for path, line in ((finding.path, finding.line), (finding.other_path, finding.other_line)) if path and line]
    return list(dict.fromkeys(places))


def sanitizer_thread(finding: report_pb2.SanitizerFinding) -> str:
    """Which thread was the first: `block (0, 0, 0), thread (3, 0, 0)`; "" where that is not known."""
    named = [f"{word} ({', '.join(map(str, index))})" for word, index in (("block", finding.block), ("thread", finding.thread)) if index]
    return ", ".join(named)


def profile_outcome(tool: report_pb2.ProfileTool) -> str:
    """Outcome of a tool of profile mode, in words."""
    return words(tool, "outcome").replace("unavailable", "not available")


def dimensions(sizes: Sequence[int]) -> str:
    """Sizes along axes, such as `64 x 64 x 1`."""
    return " x ".join(map(str, sizes))
