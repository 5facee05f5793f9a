"""Steps that the time of a graded submission went into, for every view of it.  Pure."""

from __future__ import annotations

from grader.v1 import report_pb2, submission_pb2
from grader.views.figures import seconds_of

NAMES = {
    report_pb2.STEP_QUEUED: "queue",
    report_pb2.STEP_DEVICE: "wait for the device",
    report_pb2.STEP_BUILDER: "wait for a builder",
    report_pb2.STEP_BOX: "start boxes",
    report_pb2.STEP_COMPILE: "compile",
    report_pb2.STEP_ARTIFACT: "keep the artifact",
    report_pb2.STEP_LOAD: "load",
    report_pb2.STEP_BASELINE: "time the baselines",
    report_pb2.STEP_VERIFY: "verify",
    report_pb2.STEP_MEASURE: "measure",
    report_pb2.STEP_PROFILE: "profile",
    report_pb2.STEP_CLOSE: "end boxes",
}
OTHER = "other"  # a step of a newer server


def step_times(submission: submission_pb2.Submission) -> dict[str, float]:
    """The seconds of each step, in the order in which they first began: those of several processes together.

    Only "queue" and "grade" where the report has no timeline: of a competition that is not over, or of an older server.
    """
    lengths: dict[str, float] = {}
    for span in submission.report.timeline:
        name = NAMES.get(span.step, OTHER)
        lengths[name] = lengths.get(name, 0.0) + max(seconds_of(span.duration), 0.0)
    if not lengths and submission.HasField("start_time") and submission.HasField("end_time"):
        start_s = seconds_of(submission.start_time)
        lengths = {"queue": start_s - seconds_of(submission.create_time), "grade": seconds_of(submission.end_time) - start_s}
    return {name: length for name, length in lengths.items() if length > 0}
