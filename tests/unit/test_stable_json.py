"""JSON for programs of others: the same submission is the same bytes, and a change of them is seen here."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from grader.api import conversion
from grader.api.messages import submission_to_proto
from grader.model import Failure, Judgement, Score, Submission, SubmissionState, Verdict
from grader.rules.disclosure import Redactor
from sandbox.protocol import wire
from tests import fakes

FIXTURE = Path(__file__).parents[1] / "fixtures" / "submission.json"
TIME = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


def submission():
    """Return a submission with everything that one may have, each field with a value of its own."""
    score = Score(value=2.0, low=1.9, high=2.1)
    versions = {name: str(number) for number, name in enumerate(("torch", "driver", "nvcc", "cuda"))}
    ceilings = {"flops_per_s:float32": 6e13, "bytes_per_s": 4.8e12}
    environment = replace(fakes.ENVIRONMENT, versions=versions, architecture="sm_90", device_uuid="GPU-1", ceilings=ceilings)
    build = replace(fakes.report().build, kernels=(wire.KernelUse(name="add<float>", registers=32),))
    measurement = replace(fakes.measurement(), conditions={"sm_clock_mhz": "1980", "power_w": "300"})
    report = replace(fakes.report(), environment=environment, build=build, measurements=(measurement,), score=score)
    report = replace(report, libraries=("cublasSgemm",), output="naïve \x1b[31m\n")
    judgement = Judgement(
        sequence=1, verdict=Verdict.WRONG_ANSWER, reason="MISMATCH", summary="No.", problem_digest="c" * 64, create_time=TIME, rejudge_id=""
    )
    return Submission(
        submission_id="0123456789abcdef",
        new=replace(fakes.new_submission(user="ann", competition_id="spring", device_kind="cuda", entry="solve"), mode=wire.Mode.RANKED),
        problem_digest="d" * 64,
        state=SubmissionState.SUCCEEDED,
        create_time=TIME,
        attempt_count=2,
        start_time=TIME + timedelta(seconds=1),
        end_time=TIME + timedelta(seconds=2),
        report=report,
        failure=Failure(reason="SANDBOX_BROKEN", message="no box"),
        score=score,
        judgements=(judgement, replace(judgement, sequence=2, verdict=Verdict.ACCEPTED, score=score, rejudge_id="r1")),
    )


def text():
    message = submission_to_proto(submission(), Redactor.for_problem(fakes.problem()), full=True)
    return conversion.to_text(conversion.to_data(message), indent=2) + "\n"


def test_a_submission_is_the_same_json_as_ever():
    """Programs of others read it. Where the change is meant: python -m tests.unit.test_stable_json, and a line in the CHANGELOG."""
    assert text() == FIXTURE.read_text("utf-8")


def test_json_is_plain_ascii_without_controls():
    """Whatever a kernel printed: it can be logged, and shown on a terminal."""
    assert text().isascii() and "\x1b" not in text() and "na\\u00efve \\u001b[31m\\n" in text()


if __name__ == "__main__":
    FIXTURE.write_text(text(), "utf-8")
