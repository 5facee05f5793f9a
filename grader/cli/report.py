"""Draws a graded submission for people.  What it shows is the server's; it concludes nothing of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from grader.api.statuses import reason_of
from grader.cli.output import plain, text_table
from grader.errors import ProblemBroken
from grader.extensions import PACKAGE
from grader.isolations import description
from grader.v1 import report_pb2, submission_pb2
from grader.views import access_counts, figures, formatting
from grader.views.figures import occupancies
from grader.views.sanitize import escape_unprintable, one_line
from grader.views.workload_rows import step_times, workload_rows

_AGAIN = "Submit it again; 'grader-cli doctor' looks for causes on this machine."
_CHECK = f"'grader-cli problems check PATH', a command of {PACKAGE}, says what is wrong with it."
_REMEDIES = {ProblemBroken.reason: f"Its problem must be fixed first: {_CHECK}"}
_LAUNCHES_SHOWN, _FINDINGS_SHOWN, _LINES_SHOWN, _DETAIL_CHARS = 12, 10, 12, 400
_TOOL_STYLES = {
    report_pb2.PROFILE_TOOL_OUTCOME_RAN: "green",
    report_pb2.PROFILE_TOOL_OUTCOME_FAILED: "red",
    report_pb2.PROFILE_TOOL_OUTCOME_UNAVAILABLE: "yellow",
}
_LOG_CHARS, _OUTPUT_CHARS, _SUMMARY_CHARS = 16_000, 4_000, 2_000
STEP_BAR_WIDTH, _STEP_STYLES = 60, ("cyan", "magenta", "yellow", "green", "blue", "red")
_REMARK_CHARS = 2000  # a declaration of an entry with every size is long


def render(submission: submission_pb2.Submission, *, brief: bool = False, versions: bool = True) -> Iterator[RenderableType]:
    """All that is known of a submission, top to bottom. brief: of a graded one, without its name, environment and steps. versions: of the
    software that graded it, a long line."""
    report = submission.report
    if not brief:
        yield Text()
    if brief or submission.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED:
        headline = one_line(formatting.headline(submission))
        yield verdict_text(submission, "bold ") + plain(f", {headline}" if headline else "")
    if brief:
        yield from _graded(report, score(submission), submission.name.rpartition("/")[2])
        return
    yield plain(f"{submission.name}  {submission.problem}  {submission.language}".rstrip(), "dim")
    if withdrawn := formatting.withdrawal(submission):
        yield plain(f"{withdrawn}; it is on no board", "yellow")
    match submission.state:
        case submission_pb2.SUBMISSION_STATE_SUCCEEDED:
            yield from _graded(report, score(submission), submission.name.rpartition("/")[2])
            if report.HasField("environment"):
                yield from environment(report.environment, versions=versions)
            if bar := step_bar(step_times(submission)):
                yield bar
        case submission_pb2.SUBMISSION_STATE_FAILED:
            yield Text("the grader failed", style="bold red") + plain(f": {submission.error.message or 'no reason was given'}")
            yield Text(f"This says nothing about the kernel. {_REMEDIES.get(reason_of(submission.error), _AGAIN)}")
        case submission_pb2.SUBMISSION_STATE_CANCELLED:
            yield Text("cancelled before it was graded", style="yellow")
        case _:
            stopping = ", to be cancelled once its boxes are gone" if submission.cancel_requested else ""
            yield Text(f"{formatting.state_name(submission)}{stopping}: 'grader-cli watch {one_line(submission.name)}' follows it")
    if submission.sources_removed:
        yield Text("note: its sources are kept no longer, so it can't be run again; verdict, score and report stay", style="yellow")


def verdict_text(submission: submission_pb2.Submission, style: str = "") -> Text:
    """Return the verdict in its colour, or the state of a submission that has none."""
    color = "green" if submission.report.verdict == report_pb2.VERDICT_ACCEPTED else "red" if submission.HasField("report") else ""
    return Text(formatting.verdict_or_state(submission), f"{style}{color}")


def score(submission: submission_pb2.Submission) -> str:
    """Return a ranked submission's score with its interval; "" of every other."""
    if not submission.HasField("score"):
        return ""
    over = f" over {submission.score_baseline}" if submission.score_baseline else ""
    return formatting.score(submission.score, submission.score_low, submission.score_high, submission.score_kind) + over


def _graded(report: report_pb2.Report, score_text: str, submission_id: str) -> Iterator[RenderableType]:
    yield plain(one_line(report.summary, most_chars=_SUMMARY_CHARS))
    if report.cached_from:
        yield plain(f"cached: the result of {one_line(report.cached_from)}, which is identical", "yellow")
    if report.HasField("screening"):
        yield plain(one_line(formatting.screening(report.screening), most_chars=_REMARK_CHARS), "dim")
    if score_text:
        count = report.process_count
        yield plain(f"score: {one_line(score_text)}, of {count} process{'' if count == 1 else 'es'}", "bold")
    for name, meaning in formatting.flags(report.flags):
        yield plain(f"{one_line(name)}{f': {meaning}' if meaning else ''}", "yellow")
    if report.libraries:
        yield plain(f"uses libraries: {one_line(', '.join(report.libraries), most_chars=400)}")
    if report.trials:
        yield from _section([_workloads(report)])
        if report.rule:
            yield plain(f"right is: {one_line(report.rule, most_chars=_REMARK_CHARS)}", "dim")
        if elements := [formatting.wrong_element(element) for trial in report.trials for element in trial.wrong_elements]:
            headings = ("expected", "actual", "may differ by")
            yield from _section([text_table(("element", *headings), elements, right=headings, title="The first wrong elements")])
    yield from _section(render_times(report.measurements, report.environment.ceilings))
    for speedup in report.speedups if report.environment.clock != report_pb2.CLOCK_HOST else ():
        yield plain(f"speedup over {one_line(speedup.baseline)}, geometric mean: {formatting.ratio(speedup)}")
    yield from _section(render_kernels(report.build.kernels, report.environment.architecture))
    if report.HasField("profile"):
        yield from _section(render_profile(report.profile, submission_id))
    mismatch = [report.build.mismatch] if report.build.mismatch and report.build.mismatch not in report.summary else []
    for remark in (*mismatch, *report.build.remarks):
        yield plain(f"note: {one_line(remark, most_chars=_REMARK_CHARS)}", "yellow")
    if report.verdict == report_pb2.VERDICT_COMPILE_ERROR and report.build.log:
        yield from _quoted("what the compiler printed", report.build.log, _LOG_CHARS, cut=report.build.log_truncated)
    if report.output:
        yield from _quoted("what the kernel printed", report.output, _OUTPUT_CHARS)


def _section(parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    """The parts with an empty line before the first of them."""
    for index, part in enumerate(parts):
        if not index:
            yield Text()
        yield part


def _workloads(report: report_pb2.Report) -> Table:
    headings = ("trials", "mismatched", "unwritten", "max error")
    rows: list[tuple[str | Text, ...]] = []
    for row in workload_rows(report.trials):
        result = Text(row.outcome, style="green" if row.passed else "red")
        rows.append((row.workload_id, result, str(row.trial_count), row.mismatched, row.unwritten, row.max_error))
        if row.message:
            rows.append(("", row.message))
    return text_table(("workload", "result", *headings), rows, right=headings, title="Workloads")


def _quoted(title: str, text: str, most_chars: int, *, cut: bool = False) -> Iterator[RenderableType]:
    # Untrusted text: every line is marked, so that none can pass for one of ours.
    shown = escape_unprintable(text.rstrip(), most_chars=most_chars)
    yield Text(f"\n{title}{', cut' if cut else ''}:", style="bold")
    yield Text("\n".join(f"  | {line}" for line in shown.split("\n")))


def environment(environment: report_pb2.Environment, *, versions: bool) -> Iterator[RenderableType]:
    """The device, where asked for the versions, and the isolation of a grading, in plain words."""
    architecture = f", {one_line(environment.architecture)}" if environment.architecture else ""
    yield plain(f"\ndevice: {one_line(environment.device or environment.device_kind)}{architecture}")
    if environment.ceilings:
        yield plain(f"measured on it: {formatting.ceilings(environment.ceilings)}")
    if versions and environment.versions:
        sentence = ", ".join(f"{name} {environment.versions[name]}" for name in sorted(environment.versions))
        yield plain(f"with: {one_line(sentence, most_chars=600)}", "dim")
    isolation = one_line(description(environment.isolation))
    yield plain(f"isolation: {isolation}", "bold yellow" if environment.isolation == "process" else "")


def step_bar(seconds: Mapping[str, float]) -> Text:
    """Draw the steps of a grading as one bar, and below it each step with its time. Empty without any time."""
    total_s, passed_s, drawn = sum(seconds.values()), 0.0, 0
    if total_s <= 0:
        return Text()
    bar, legend = Text("time: "), Text(f"{total_s:.2f} s = ", style="dim")
    for (name, step_s), style in zip(seconds.items(), itertools.cycle(_STEP_STYLES), strict=False):
        legend += plain(" + " if passed_s else "", "dim") + plain(f"{name} {step_s:.2f}", style)
        passed_s += step_s
        width = round(STEP_BAR_WIDTH * passed_s / total_s) - drawn
        drawn += width
        bar.append("\u2588" * width, style=style)
    return bar + Text("\n") + legend


def render_times(measurements: Sequence[report_pb2.Measurement], ceilings: Mapping[str, float]) -> Iterator[RenderableType]:
    """Times, and of those by a device's clock all that is known."""
    by_device = any(measurement.clock == report_pb2.CLOCK_DEVICE_EVENTS for measurement in measurements)
    if measurements:
        yield _times(measurements)
    for measurement in measurements:
        rates = figures.throughput(measurement, ceilings)
        interval = formatting.median_range(measurement.certified)
        lines = [
            formatting.throughput(rates) if rates else formatting.shares(measurement),
            formatting.reported_speedups(measurement),
            [f"certified median {interval}, 95 % interval"] if interval else [],
        ]
        for line in filter(None, lines if by_device else ()):
            yield plain(f"{one_line(measurement.workload_id)}: {one_line(', '.join(line))}")
        conditions = formatting.conditions(measurement.conditions) if by_device else ""
        for text in (formatting.turns(measurement), formatting.own_share(measurement), conditions):
            if text:
                yield plain(f"{one_line(measurement.workload_id)}: {one_line(text)}", "dim")


def _times(measurements: Sequence[report_pb2.Measurement]) -> Table:
    """A row for the kernel and one for each of PyTorch's ways; widths are meant for 100 columns."""
    headings = ("do_bench (p20 to p80)", "certified", "at most", "speedup (95 % interval)")
    rows = []
    for measurement in measurements:
        times = (formatting.do_bench(measurement), formatting.median(measurement.certified))
        rows.append((measurement.workload_id, "kernel", *times, formatting.time(measurement.bound_duration.ToNanoseconds()), ""))
        speedups = {speedup.baseline: formatting.ratio(speedup) for speedup in measurement.speedups}
        for name in formatting.baselines((*measurement.reported_baselines, *measurement.baselines)):
            reported = formatting.spread(measurement.reported_baselines[name]) if name in measurement.reported_baselines else "-"
            certified = formatting.median(measurement.baselines[name]) if name in measurement.baselines else "-"
            rows.append(("", name, reported, certified, "", speedups.get(name, "-")))
    return text_table(("workload", "", *headings), rows, right=headings, title="Times (medians), with PyTorch's")


def render_kernels(uses: Sequence[report_pb2.KernelUse], architecture: str = "", limit: int = 4) -> Iterator[RenderableType]:
    """Resources of the device that the compiled kernels take."""
    if not uses:
        return
    doubles = any(use.double_instruction_count for use in uses[:limit])
    headings = ("registers", "shared", "stack", "spilled (stores, loads)", *(["float64 instructions"] if doubles else []))
    rows = []
    for use in uses[:limit]:
        spilled = f"{use.spill_store_bytes} B, {use.spill_load_bytes} B" if use.spill_store_bytes or use.spill_load_bytes else "no"
        registers = str(use.registers) if use.registers else "-"  # no kernel does without: nobody counted them
        cells = (one_line(use.name, most_chars=40), registers, f"{use.shared_bytes} B", f"{use.stack_bytes} B", spilled)
        rows.append((*cells, *([str(use.double_instruction_count)] if doubles else [])))
    yield text_table(("kernel", *headings), rows, right=headings, title="Kernels, as the compiler says")
    for use in uses[:limit]:
        if occupancy := occupancies(architecture, use.registers, use.shared_bytes):
            yield plain(f"{one_line(use.name, most_chars=40)}: occupancy at most {formatting.occupancies(occupancy)}", "dim")
    if len(uses) > limit:
        yield Text(f"and {len(uses) - limit} more; --json has them all")


def render_profile(profile: report_pb2.Profile, submission_id: str) -> Iterator[RenderableType]:
    """Each tool, the resources that the kernels take of the device, and the launches."""
    rows: list[tuple[str | Text, ...]] = []
    for tool in profile.tools:
        outcome = Text(formatting.profile_outcome(tool), style=_TOOL_STYLES.get(tool.outcome, ""))
        rows.append((tool.name, outcome, plain(one_line(tool.detail, most_chars=_DETAIL_CHARS))))
    yield text_table(("tool", "", ""), rows, title="Profile")
    yield from _section(_findings(profile.findings))
    if counts := access_counts.table(profile.access_counts, row_limit=_LINES_SHOWN):
        yield from _section([plain(counts.title, "italic")])  # not the table's own title: it may be wider than the table
        headings = [heading.lower() for heading in access_counts.HEADINGS]
        table = text_table(headings, counts.rows, right=headings[access_counts.TEXT_COLUMNS :])
        if counts.cut_rows:
            table.add_row(f"and {counts.cut_rows} more; --json has them all")
        yield table
        yield plain(access_counts.NOTE, "dim")
    if profile.kernels:
        yield from _section([plain(f"compiled for {one_line(profile.architecture)}:", "dim"), *render_kernels(profile.kernels)])
    if profile.launches:
        yield from _section([_launches(profile.launches, profile.workload_id)])
    for remark in profile.remarks:
        yield plain(f"note: {one_line(remark, most_chars=_DETAIL_CHARS)}", "yellow")
    sanitized = profile.findings or profile.access_counts.lines
    files = "" if sanitized else f" Its files: grader-cli show {one_line(submission_id)} --files --out DIR"
    yield plain(f"{'What the sanitizer saw' if sanitized else 'A profile'} decides nothing.{files}", "dim")


def _findings(findings: Sequence[report_pb2.SanitizerFinding]) -> Iterator[Table]:
    rows: list[tuple[str | Text, ...]] = []
    for finding in findings[:_FINDINGS_SHOWN]:
        severity = formatting.words(finding, "severity")
        style = {"error": "red", "warning": "yellow"}.get(severity, "dim")
        count = f" ({finding.count} times)" if finding.count > 1 else ""
        message = plain(one_line(f"{finding.message}{count}", most_chars=_DETAIL_CHARS))
        places = " and ".join(formatting.sanitizer_places(finding))
        rows.append((Text(severity, style), places, message, formatting.sanitizer_thread(finding)))
    if len(findings) > _FINDINGS_SHOWN:
        rows.append(("", "", f"and {len(findings) - _FINDINGS_SHOWN} more; --json has them all", ""))
    if rows:
        yield text_table(("", "where", "finding", "first"), rows, title="What the sanitizer saw")


def _launches(launches: Sequence[report_pb2.KernelLaunch], workload_id: str) -> Table:
    timed = any(launch.HasField("total_duration") for launch in launches)
    headings = ("launches", "grid", "block", "shared", *(["time"] if timed else []))
    rows = []
    for launch in launches[:_LAUNCHES_SHOWN]:
        time = formatting.time(launch.total_duration.ToNanoseconds()) if launch.HasField("total_duration") else "-"
        sizes = (formatting.dimensions(launch.grid), formatting.dimensions(launch.block), f"{launch.shared_bytes} B")
        rows.append((one_line(launch.kernel, most_chars=60), str(launch.count), *sizes, *([time] if timed else [])))
    table = text_table(("kernel", *headings), rows, right=headings, title=f"Launches on {one_line(workload_id)}")
    if len(launches) > _LAUNCHES_SHOWN:
        table.add_row(f"and {len(launches) - _LAUNCHES_SHOWN} more; --json has them all")
    return table
