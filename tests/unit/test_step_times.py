"""Steps of a grading: measured without gaps, and shown to a millisecond."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.duration_pb2 import Duration

from grader.api.messages import submission_to_proto
from grader.grading import attempt
from grader.grading.attempt import StepClock
from grader.model import SubmissionState
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2, submission_pb2
from grader.verdict.fold import fold
from grader.views.workload_rows import NAMES, OTHER, step_times
from sandbox.protocol import wire
from sandbox.protocol.wire import Stage, Step
from tests import fakes

CREATED = datetime(2026, 11, 25, tzinfo=UTC)
MS = 1_000_000


def progress(stage: Stage) -> wire.Progress:
    return wire.Progress(stage=stage)


def test_steps_follow_each_other_without_gaps() -> None:
    """A step that is entered twice is one; a judge's facts begin theirs, and facts without a step begin none."""
    ticks = itertools.count(100)
    clock = StepClock(lambda: next(ticks))
    for step in (Step.DEVICE, Step.ARTIFACT, Step.ARTIFACT):
        clock.enter(step)
    facts = [progress(stage) for stage in (Stage.BASELINE, Stage.LOADING, Stage.VERIFYING, Stage.VERIFYING, Stage.MEASURING, Stage.WAITING)]
    for fact in (*facts, fakes.trial(), progress(Stage.VERIFYING), wire.Finished(job_id="j")):
        clock.follow(fact)
    spans = clock.timeline().spans
    steps = [Step.DEVICE, Step.ARTIFACT, Step.BASELINE, Step.LOAD, Step.VERIFY, Step.MEASURE, Step.VERIFY, Step.CLOSE]
    assert [span.step for span in spans] == steps and spans[0].begin_ns == 1
    assert all(span.begin_ns + span.duration_ns == after.begin_ns for span, after in itertools.pairwise(spans))
    roundtrip = wire.decode(wire.encode(wire.AttemptTimeline(spans=spans)))
    assert roundtrip == wire.AttemptTimeline(spans=spans)


def test_a_sweep_without_end_has_a_bounded_timeline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "SPAN_LIMIT", 3)
    ticks = itertools.count()
    clock = StepClock(lambda: next(ticks))
    for step in (Step.BOX, Step.LOAD, Step.VERIFY, Step.MEASURE, Step.BOX):
        clock.enter(step)
    spans = clock.timeline().spans
    assert [span.step for span in spans] == [Step.BOX, Step.LOAD, Step.VERIFY] and sum(span.duration_ns for span in spans) == 3


def timeline(*spans: tuple[Step, int, int]) -> wire.AttemptTimeline:
    return wire.AttemptTimeline(
        spans=tuple(wire.Span(step=step, begin_ns=begin_ns, duration_ns=duration_ns) for step, begin_ns, duration_ns in spans)
    )


def shown(*, attempt: int = 1, secret: bool = False) -> submission_pb2.Submission:
    """A graded submission that waited for two seconds, as the API shows it."""
    rejected = wire.Build(outcome=wire.BuildOutcome.REJECTED)
    report = fold([fakes.ENVIRONMENT, rejected, timeline((Step.BOX, 0, 400_000), (Step.COMPILE, 400_000, 1_500_400_000))])
    submission = fakes.submission(
        state=SubmissionState.SUCCEEDED,
        create_time=CREATED,
        attempt_count=attempt,
        start_time=CREATED + timedelta(seconds=2),
        end_time=CREATED + timedelta(seconds=4),
        report=report,
    )
    return submission_to_proto(submission, Redactor(hidden={}, secret=secret))


def spans(message: submission_pb2.Submission) -> list[tuple[str, int, int]]:
    named = report_pb2.Step.Name
    return [(named(step.step), step.begin.ToNanoseconds() // MS, step.duration.ToNanoseconds() // MS) for step in message.report.timeline]


def test_the_queue_comes_first_and_all_is_to_a_millisecond() -> None:
    assert spans(shown()) == [("STEP_QUEUED", 0, 2000), ("STEP_BOX", 2000, 0), ("STEP_COMPILE", 2000, 1500)]


def test_how_long_a_secret_workload_took_is_not_told() -> None:
    """The control is above."""
    assert spans(shown(secret=True)) == [] and list(step_times(shown(secret=True))) == ["queue", "grade"]


def test_the_steps_of_several_processes_are_added_up() -> None:
    """In the order of their first; what a newer server calls otherwise is not lost."""
    submission = submission_pb2.Submission()
    steps = (report_pb2.STEP_LOAD, report_pb2.STEP_VERIFY, report_pb2.STEP_LOAD, 99, report_pb2.STEP_BOX)
    for step, seconds in zip(steps, (1, 2, 3, 4, 0), strict=True):
        submission.report.timeline.add(step=step, duration=Duration(seconds=seconds))  # type: ignore[arg-type]
    assert step_times(submission) == {"load": 4.0, "verify": 2.0, OTHER: 4.0}
    assert step_times(submission_pb2.Submission()) == {}
    assert set(NAMES) == set(report_pb2.Step.values()) - {report_pb2.STEP_UNSPECIFIED}
    names = {name.removeprefix("STEP_") for name in report_pb2.Step.DESCRIPTOR.values_by_name}
    assert {member.name for member in Step} == names - {"UNSPECIFIED"}
