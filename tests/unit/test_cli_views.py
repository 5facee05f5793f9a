"""Text that the command line prints for events, reports and problems."""

import io
import re

import pytest
from rich.console import Console
from rich.text import Text

from grader import errors
from grader.api.statuses import failure_to_status
from grader.cli import report
from grader.cli.exits import Exit, UsageError, exit_of_error
from grader.cli.progress import GradingStages, LiveStages
from grader.cli.submit import exit_of
from grader.model import Failure
from grader.v1 import report_pb2, submission_pb2
from grader.views import formatting

SUCCEEDED = submission_pb2.SUBMISSION_STATE_SUCCEEDED


def shown(submission: submission_pb2.Submission, *, terminal: bool = False, versions: bool = True) -> str:
    out = io.StringIO()
    console = Console(file=out, width=160, markup=False, emoji=False, highlight=False, force_terminal=terminal)
    for part in report.render(submission, versions=versions):
        console.print(part, soft_wrap=isinstance(part, Text))
    return out.getvalue()


def samples(nanoseconds: int) -> report_pb2.Samples:
    times = report_pb2.Samples(sample_count=5)
    times.median_duration.FromNanoseconds(nanoseconds)
    return times


def accepted() -> submission_pb2.Submission:
    speedup = report_pb2.Speedup(baseline="eager", ratio=1.5, ratio_low=1.4, ratio_high=1.6)
    return submission_pb2.Submission(
        name="submissions/abc",
        problem="problems/tril_matmul",
        language="cuda",
        state=SUCCEEDED,
        report=report_pb2.Report(
            verdict=report_pb2.VERDICT_ACCEPTED,
            summary="Right on every trial.",
            trials=[
                report_pb2.Trial(workload_id="n64", outcome=report_pb2.TRIAL_OUTCOME_PASSED, element_count=4096, max_absolute_error=1e-6),
                report_pb2.Trial(workload_id="n64", outcome=report_pb2.TRIAL_OUTCOME_PASSED, element_count=4096, max_absolute_error=3e-6),
            ],
            measurements=[
                report_pb2.Measurement(
                    workload_id="n64",
                    reported=samples(1_230_000),
                    reported_confirmed=True,
                    certified=samples(1_340_000),
                    baselines={"eager": samples(2_000_000)},
                    speedups=[speedup],
                )
            ],
            speedups=[speedup],
            environment=report_pb2.Environment(
                device="emulated on 2 cores", device_kind="emulated", clock=report_pb2.CLOCK_HOST, isolation="process"
            ),
        ),
    )


def rejected(**fields: object) -> submission_pb2.Submission:
    return submission_pb2.Submission(name="submissions/abc", state=SUCCEEDED, report=report_pb2.Report(**fields))  # type: ignore[arg-type]


def test_an_accepted_kernel_shows_its_times() -> None:
    text = shown(accepted())
    assert re.search(r"n64\s+passed\s+2\s+0 %\s+0 %\s+3e-06", text)
    assert re.search(r"n64\s+kernel\s+1.23 ms\s+1.34 ms", text) and re.search(r"eager\s+-\s+2.00 ms\s+1.5x \(1.4 to 1.6\)", text)
    assert "process: UNSAFE" in text and "reported" not in text.lower()


def test_the_first_failure_of_a_workload_is_its_result() -> None:
    """The unwritten share is that of the failing trial."""
    text = shown(
        rejected(
            verdict=report_pb2.VERDICT_WRONG_ANSWER,
            reason="UNWRITTEN_OUTPUT",
            summary="Most of the output was never written.",
            trials=[
                report_pb2.Trial(workload_id="n1", outcome=report_pb2.TRIAL_OUTCOME_PASSED, element_count=1),
                report_pb2.Trial(workload_id="n64", outcome=report_pb2.TRIAL_OUTCOME_UNWRITTEN, element_count=4096, unwritten_count=4032),
            ],
        )
    )
    assert "WRONG_ANSWER, UNWRITTEN_OUTPUT" in text
    assert re.search(r"n1\s+passed", text)
    assert re.search(r"n64\s+unwritten\s+1\s+0 %\s+98.44 %", text)


def test_a_compile_error_shows_the_compilers_words() -> None:
    """Every line of it is marked as quoted, and a cut log says so. A verdict newer than this program is shown by its number."""
    assert "UNKNOWN_99" in shown(rejected(verdict=99))
    build = report_pb2.Build(outcome=report_pb2.BUILD_OUTCOME_REJECTED, log="kernel.cu:3: error: no\nACCEPTED", log_truncated=True)
    text = shown(rejected(verdict=report_pb2.VERDICT_COMPILE_ERROR, summary="It does not compile.", build=build))
    assert "what the compiler printed, cut:" in text
    assert "  | kernel.cu:3: error: no\n  | ACCEPTED" in text


def test_what_a_kernel_prints_can_not_steer_a_terminal() -> None:
    submission = accepted()
    submission.report.output = "\x1b]0;owned\x07\x1b[2J[bold red]ACCEPTED[/]"
    text = shown(submission, terminal=True)
    assert "\x1b]0;owned" not in text and "\x07" not in text and r"\x1b]0;owned\x07\x1b[2J[bold red]ACCEPTED[/]" in text


def test_sources_that_are_kept_no_longer_are_said() -> None:
    """Whatever became of it; and nothing is said while they are kept."""
    cancelled = submission_pb2.Submission(name="submissions/abc", state=submission_pb2.SUBMISSION_STATE_CANCELLED)
    for submission in (accepted(), rejected(), cancelled):
        assert "sources" not in shown(submission)
        submission.sources_removed = True
        assert "its sources are kept no longer" in shown(submission)


def test_a_failure_of_the_grader_is_said_to_be_none_of_the_kernel() -> None:
    """To be tried again; but not where its problem is broken, for the next attempt would end the same way."""
    failed = submission_pb2.Submission(name="submissions/abc", state=submission_pb2.SUBMISSION_STATE_FAILED)
    failed.error.message = "the device is unwell"
    text = shown(failed)
    assert "the grader failed: the device is unwell" in text and "says nothing about the kernel. Submit it again" in text
    failed.error.CopyFrom(failure_to_status(Failure(reason="PROBLEM_BROKEN", message="the reference raised", final=True)))
    text = shown(failed)
    assert "the grader failed: the reference raised" in text and "problems check PATH" in text and "Submit it again" not in text


TIMES = {12: "12 ns", 1_500: "1.50 us", 53_100: "53.1 us", 2_694_000: "2.69 ms", 4e9: "4.00 s", -2_000: "not resolved", 0: "not resolved"}


@pytest.mark.parametrize(("nanoseconds", "text"), TIMES.items())
def test_a_time_has_three_digits_and_a_unit(nanoseconds: float, text: str) -> None:
    assert formatting.time(nanoseconds) == text


# -- progress ------------------------------------------------------------------------------------------------------------


def event(**fields: object) -> submission_pb2.SubmissionEvent:
    return submission_pb2.SubmissionEvent(attempt=1, **fields)  # type: ignore[arg-type]


def stage(value: submission_pb2.Stage, workload_id: str = "") -> submission_pb2.SubmissionEvent:
    return event(progress=submission_pb2.Progress(stage=value, workload_id=workload_id))


def printed(*timed_events: tuple[submission_pb2.SubmissionEvent, float]) -> list[str]:
    """Return the lines printed in a pipe."""
    stages = GradingStages(0.0)
    return [line for submission_event, now_s in timed_events for line in stages.feed(submission_event, now_s)]


def graded(workload_id: str, now_s: float, **fields: object) -> list[tuple[submission_pb2.SubmissionEvent, float]]:
    """A workload that is verified in a second and measured in another."""
    trial = report_pb2.Trial(workload_id=workload_id, outcome=fields.get("outcome", report_pb2.TRIAL_OUTCOME_PASSED))
    measurement = report_pb2.Measurement(workload_id=workload_id, certified=fields.get("certified", samples(1_000_000)))
    verified = [(stage(submission_pb2.STAGE_VERIFYING, workload_id), now_s), (event(trial=trial), now_s + 1)]
    if trial.outcome != report_pb2.TRIAL_OUTCOME_PASSED:
        return verified
    return [*verified, (stage(submission_pb2.STAGE_MEASURING, workload_id), now_s + 1), (event(measurement=measurement), now_s + 2)]


BEGUN = [
    (stage(submission_pb2.STAGE_BUILDING), 1.0),
    (event(build=report_pb2.Build(outcome=report_pb2.BUILD_OUTCOME_BUILT)), 4.0),
    (stage(submission_pb2.STAGE_LOADING), 4.0),
    (event(load=report_pb2.Load(outcome=report_pb2.LOAD_OUTCOME_LOADED)), 5.0),
]


def ended(now_s: float) -> tuple[submission_pb2.SubmissionEvent, float]:
    return event(submission=submission_pb2.Submission(state=SUCCEEDED)), now_s


def test_a_pipe_gets_as_few_lines_for_many_workloads_as_for_two() -> None:
    """Each stage as it begins, and a total for each at the end; hidden workloads are not counted, since their number is secret."""
    many = [entry for number in range(12) for entry in graded(f"n{number}", 5.0 + 2 * number)]
    lines = printed(*BEGUN, *many, *graded("", 29.0, certified=report_pb2.Samples()), ended(31.0))
    assert lines == [
        "queued: 1.0 s",
        "building ...",
        "building: built (3.0 s)",
        "loading ...",
        "verifying ...",
        "measuring ...",
        "verifying 12 workloads and hidden ones: 13 trials passed (13.0 s)",
        "measuring 12 workloads and hidden ones: 12 times certified, 1 not resolved (13.0 s)",
    ]
    assert len(printed(*BEGUN, *graded("a", 5.0), *graded("b", 7.0), ended(9.0))) == len(lines)


def test_failures_have_lines_of_their_own_in_a_pipe_but_not_all() -> None:
    """Three of them; the total says how many there were, and which was the first. A failed build is printed once."""
    wrong = [entry for number in range(5) for entry in graded(f"n{number}", 5.0 + number, outcome=report_pb2.TRIAL_OUTCOME_UNWRITTEN)]
    lines = printed(*BEGUN, *wrong, ended(10.0))
    assert [line for line in lines if line.endswith("unwritten (1.0 s)")] == [
        f"verifying n{number}: unwritten (1.0 s)" for number in range(3)
    ]
    assert lines[-1] == "verifying 5 workloads: 5 failed, first n0: unwritten (5.0 s)"
    assert printed(*BEGUN, *wrong[:2], ended(6.0))[-2:] == ["verifying ...", "verifying n0: unwritten (1.0 s)"]
    rejected = report_pb2.Build(outcome=report_pb2.BUILD_OUTCOME_REJECTED)
    lines = printed((stage(submission_pb2.STAGE_BUILDING), 1.0), (event(build=rejected), 2.0), ended(2.0))
    assert lines == ["queued: 1.0 s", "building ...", "building: rejected (1.0 s)"]


def test_processes_and_lost_attempts_are_summed_up_in_a_pipe() -> None:
    """The stages of an attempt that was lost begin again, and count no more."""
    first = event(progress=submission_pb2.Progress(stage=submission_pb2.STAGE_VERIFYING, workload_id="n64"))
    first.attempt = 1
    timed_events = [(first, 1.0)]
    for process in (1, 2):
        for workload_id in ("n64", "n96"):
            fields = {"stage": submission_pb2.STAGE_VERIFYING, "workload_id": workload_id, "process": process, "process_count": 2}
            begun = submission_pb2.SubmissionEvent(attempt=2, progress=submission_pb2.Progress(**fields))
            trial = report_pb2.Trial(workload_id=workload_id, outcome=report_pb2.TRIAL_OUTCOME_PASSED)
            timed_events += [(begun, 2.0 * process), (submission_pb2.SubmissionEvent(attempt=2, trial=trial), 2.0 * process)]
    lines = printed(*timed_events, (submission_pb2.SubmissionEvent(attempt=2, submission=ended(0)[0].submission), 6.0))
    assert lines == [
        "queued: 1.0 s",
        "verifying ...",
        "attempt 2: the one before it was lost",
        "verifying ...",
        "verifying 2 workloads in 2 processes: 4 trials passed (4.0 s)",
    ]


def test_a_terminal_has_a_row_for_each_stage() -> None:
    """Of the running stage it says which workload it is at."""
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    shown = LiveStages(console)

    def text() -> str:
        with console.capture() as capture:
            console.print(shown.render())
        return capture.get()

    for submission_event, _ in [*BEGUN, *graded("n1", 5.0)]:
        shown.feed(submission_event)
    shown.feed(stage(submission_pb2.STAGE_VERIFYING, "n2"))
    assert len(text().splitlines()) == 5
    assert re.search(r"verifying n2 +1 trial passed", text()) and re.search(r"measuring n1 +1.00 ms certified", text())
    shown.feed(ended(9.0)[0])
    assert "verifying 2 workloads" in text()


# -- exit codes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code"),
    [
        *((error, 2) for error in (UsageError("x"), errors.ProblemNotFound("nothing"), errors.ProblemInvalid("p", "m"))),
        *((error, 2) for error in (errors.SettingsInvalid("s", "m"), errors.NoSuchDevice("cuda", ("emulated",)))),
        (errors.InvalidSubmission([errors.FieldViolation("sources", "there are none")]), 2),
        *((error, 3) for error in (errors.QueueFull(10), errors.QueueShareUsed(10), errors.ShuttingDown(), errors.QuotaExceeded(10, 1.0))),
        *((error, 3) for error in (errors.ServerUnreachable("localhost:1", "refused"), errors.SandboxBroken("x"))),
    ],
)
def test_an_error_has_the_exit_code_of_who_is_at_fault(error: Exception, code: int) -> None:
    """2 for what was asked, 3 for the grader and for what will pass."""
    assert exit_of_error(error) == code


@pytest.mark.parametrize(
    ("state", "verdict", "code"),
    [
        (SUCCEEDED, report_pb2.VERDICT_ACCEPTED, Exit.ACCEPTED),
        (SUCCEEDED, report_pb2.VERDICT_WRONG_ANSWER, Exit.OTHER_VERDICT),
        (SUCCEEDED, report_pb2.VERDICT_UNSPECIFIED, Exit.OTHER_VERDICT),
        (submission_pb2.SUBMISSION_STATE_FAILED, report_pb2.VERDICT_ACCEPTED, Exit.GRADER_FAILED),
        (submission_pb2.SUBMISSION_STATE_CANCELLED, report_pb2.VERDICT_UNSPECIFIED, Exit.GRADER_FAILED),
    ],
)
def test_only_a_graded_and_accepted_kernel_exits_0(state: submission_pb2.SubmissionState, verdict: report_pb2.Verdict, code: Exit) -> None:
    """Anything unknown is not accepted."""
    assert exit_of(submission_pb2.Submission(state=state, report=report_pb2.Report(verdict=verdict))) == code


# -- on a device -----------------------------------------------------------------------------------------------------------


def spread(nanoseconds: int) -> report_pb2.Samples:
    times = samples(nanoseconds)
    times.p20_duration.FromNanoseconds(nanoseconds * 99 // 100)
    times.p80_duration.FromNanoseconds(nanoseconds * 102 // 100)
    return times


def on_a_gpu() -> submission_pb2.Submission:
    submission = accepted()
    compiled = report_pb2.Speedup(baseline="compile", ratio=1.2, ratio_low=1.19, ratio_high=1.21)
    bound = samples(1_360_000).median_duration
    shown_by = submission.report.measurements[0]
    shown_by.MergeFrom(
        report_pb2.Measurement(
            clock=report_pb2.CLOCK_DEVICE_EVENTS,
            reported=spread(1_230_000),
            bound_duration=bound,
            baselines={"compile": samples(1_600_000)},
            reported_baselines={"eager": spread(1_980_000), "compile": spread(1_590_000)},
            speedups=[compiled],
            bandwidth_share=0.431,
            peak_share=0.12,
            own_share=0.004,
            conditions={
                "sm_clock_mhz": "1755",
                "sm_clock_max_mhz": "1980",
                "temperature_c": "45",
                "power_w": "520",
                "throttle_reasons": "GpuIdle,SwPowerCap",
            },
        )
    )
    uses = [report_pb2.KernelUse(name=f"void tril<{index}>(float*)", registers=40, spill_store_bytes=4 * index) for index in range(10)]
    submission.report.build.kernels.extend(uses)
    submission.report.environment.MergeFrom(
        report_pb2.Environment(
            device="NVIDIA H200",
            architecture="sm_90",
            clock=report_pb2.CLOCK_DEVICE_EVENTS,
            versions={"driver": "580.1"},
            ceilings={"bytes_per_s": 4.1e12},
        )
    )
    return submission


def test_times_on_a_device_stand_beside_both_baselines() -> None:
    """A row each: do_bench with its spread, certified, bound, and the speedup over each baseline."""
    text = shown(on_a_gpu())
    assert re.search(r"n64 +kernel +1\.23 ms \(1\.22 to 1\.25\) +1\.34 ms +1\.36 ms", text)
    assert re.search(r" eager +1\.98 ms \(1\.96 to 2\.02\) +2\.00 ms +1\.5x \(1\.4 to 1\.6\)", text)
    assert re.search(r" compile +1\.59 ms \(1\.57 to 1\.62\) +1\.60 ms +1\.2x \(1\.19 to 1\.21\)", text)
    assert text.index(" eager ") < text.index(" compile ")  # a map has no order of its own
    assert "n64: 43 % of the memory's bandwidth, 12 % of the arithmetic's peak\n" in text
    assert "n64: by do_bench 1.29x over compile and 1.61x over eager\n" in text
    assert "n64: own kernels: 0.4 % of device time (by the kernel's own process)\n" in text
    assert "n64: clock 1755 of 1980 MHz, 45 C, 520 W, held back by SwPowerCap\n" in text
    assert "NVIDIA H200, sm_90" in text and "4.10 TB/s" in text and "driver 580.1" in text
    assert re.search(r"void tril<0>\(float\*\) +40 +0 B +0 B +no", text) and re.search(r"void tril<3>.* 12 B, 0 B", text)
    assert "tril<4>" not in text and "and 6 more" in text  # of many kernels only the first


def test_rates_are_shown_next_to_the_ceiling_of_the_unit() -> None:
    """2.68 Tflop in 1.34 ms: 2 PFLOP/s would be nonsense; of the FP32 units and of the tensor cores, each by its name."""
    submission = on_a_gpu()
    work = report_pb2.DeclaredWork(moved_bytes=1_340_000_000, flops=26_800_000_000, dtype="float32")
    submission.report.measurements[0].declared_work.CopyFrom(work)
    submission.report.environment.ceilings.update({"flops_per_s:float32": 4e14, "flops_per_s:float32_ieee": 5e13})
    text = shown(submission)
    assert "n64: 1.00 TB/s (24 % of memory bandwidth), 20.0 TFLOP/s (40 % of FP32 units, 5 % of TF32 tensor cores)" in text
    assert "20 FLOP/byte, nearest ceiling: FP32 units\n" in text
    assert "measured on it: memory 4.10 TB/s, TF32 tensor cores 400 TFLOP/s, FP32 units 50.0 TFLOP/s" in text
    assert "occupancy at most 75 % at 128 and 256 and 512 threads (registers), 50 % at 1024 threads" in text


@pytest.mark.parametrize(
    ("submission", "line"),
    [
        (accepted(), "ACCEPTED, right; times here are the CPU's and mean little"),
        (on_a_gpu(), "ACCEPTED, 1.5x PyTorch on H200"),
        (rejected(verdict=report_pb2.VERDICT_ACCEPTED, summary="Right."), "ACCEPTED"),
        (rejected(verdict=report_pb2.VERDICT_WRONG_ANSWER, reason="MISMATCH"), "WRONG_ANSWER, MISMATCH"),
        (rejected(verdict=report_pb2.VERDICT_COMPILE_ERROR, reason="COMPILE_ERROR"), "COMPILE_ERROR"),
    ],
)
def test_the_first_line_is_the_verdict_with_the_headline(submission: submission_pb2.Submission, line: str) -> None:
    """How fast and on what, or why not."""
    assert shown(submission).splitlines()[1] == line


def test_a_headline_shows_a_score_before_a_speedup() -> None:
    """Of which way of PyTorch, where it is not the usual one."""
    submission = on_a_gpu()
    submission.score, submission.score_baseline, submission.score_kind = 12.345, "compile", report_pb2.SCORE_KIND_SPEEDUP
    assert formatting.headline(submission) == "12.3x PyTorch compile on H200"
    submission.score, submission.score_baseline, submission.score_kind = 1_234_000, "", report_pb2.SCORE_KIND_TIME
    assert formatting.headline(submission) == "1.23 ms on H200"


def test_only_show_prints_the_versions() -> None:
    """They are a long line, which would follow each submission."""
    assert "driver 580.1" in shown(on_a_gpu()) and "driver 580.1" not in shown(on_a_gpu(), versions=False)


def test_on_the_emulated_device_no_flag_and_no_precision_is_said_of_times() -> None:
    """A board's flag is. The control is the same report of a GPU."""
    submission, raised = accepted(), ["REPORTED_TIME_NOT_CONFIRMED", "SPEEDUP_NOT_RESOLVED", "BASELINE_SLOWED", "PRACTICE_SCORE"]
    submission.report.flags.extend([*raised, "EMULATED_NOT_RANKED", "NOT_SCORED"])
    measured = submission.report.measurements[0]
    measured.reported_confirmed, measured.turn_count, measured.half_width, measured.clock = False, 2, 21.34, report_pb2.CLOCK_HOST
    text = shown(submission)
    assert not any(word in text for word in (*raised, "EMULATED_NOT_RANKED", "not confirmed", "2 turns", "geometric mean"))
    assert "NOT_SCORED: " in text
    submission.report.flags.remove("EMULATED_NOT_RANKED")
    measured.clock = submission.report.environment.clock = report_pb2.CLOCK_DEVICE_EVENTS
    text = shown(submission)
    assert all(word in text for word in (*raised, "1.23 ms, not confirmed", "2 turns, \N{PLUS-MINUS SIGN}2134 %", "geometric mean"))


def test_a_flag_is_said_in_words() -> None:
    """Each flag that the fold can raise on a GPU."""
    submission = accepted()
    raised = ["REPORTED_TIME_NOT_CONFIRMED", "BASELINE_SLOWED", "SPEEDUP_NOT_RESOLVED", "THROTTLED"]
    submission.report.flags.extend(raised)
    submission.report.measurements[0].reported_confirmed = False
    text = shown(submission)
    assert all(re.search(rf"{flag}: \w+", text) for flag in raised) and "1.23 ms, not confirmed" in text


def test_a_ranked_kernel_shows_its_score_and_of_how_many_processes() -> None:
    """With its interval and against what; other modes have none."""
    ranked = accepted()
    ranked.score, ranked.score_low, ranked.score_high, ranked.score_baseline = 2.314, 2.28, 2.351, "eager"
    ranked.score_kind, ranked.report.process_count = report_pb2.SCORE_KIND_SPEEDUP, 3
    assert "score: 2.31x (2.28..2.35) over eager, of 3 processes" in shown(ranked)
    ranked.score, ranked.score_low, ranked.score_high, ranked.score_baseline = 1_234_000, 1_200_000, 1_270_000, ""
    ranked.score_kind, ranked.report.process_count = report_pb2.SCORE_KIND_TIME, 1
    assert "score: 1.23 ms (1.20..1.27), of 1 process\n" in shown(ranked)
    assert "score:" not in shown(accepted())
