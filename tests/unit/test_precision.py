"""How precisely and for how long a submission is measured: what may be asked for, what is done, and what a report says of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from grader.api.messages import event_to_proto
from grader.dispatch.local_fleet import PROFILES, read_profile
from grader.errors import InvalidSubmission
from grader.intake import gate
from grader.model import Event, Problem
from grader.rules.disclosure import Redactor
from grader.v1 import grader_service_pb2, report_pb2, submission_pb2
from grader.views import formatting
from sandbox.protocol import wire
from tests import fakes
from tests.unit.test_cli_commands import address, kernel, run  # noqa: F401  # two are fixtures

PROFILE = read_profile(PROFILES / "limits.toml")
PROBLEM = fakes.problem()
NOW = datetime(2026, 11, 25, tzinfo=UTC)


def checked(mode: str, precision: float | None = None, measure_s: float | None = None) -> gate.Accepted:
    """Return the accepted request that asks for this."""
    source = submission_pb2.SourceFile(path="kernel.cu", content=fakes.new_submission(PROBLEM.problem_id).sources[0].content)
    submission = submission_pb2.Submission(
        problem=f"problems/{PROBLEM.problem_id}", language="cuda", sources=[source], mode=f"MODE_{mode}", precision=precision
    )
    if measure_s is not None:
        submission.measure_duration.FromNanoseconds(round(measure_s * 1e9))

    def find(_: str) -> Problem:
        return PROBLEM

    return gate.check_submission(grader_service_pb2.SubmitRequest(submission=submission), find, ("emulated",))


@pytest.mark.parametrize(
    ("mode", "precision", "measure_s"), [("BENCHMARK", 0.005, 3.5), ("BENCHMARK", None, 30.0), ("SWEEP", 0.2, None), ("RANKED", None, None)]
)
def test_what_may_be_asked_for(mode: str, precision: float | None, measure_s: float | None) -> None:
    submission = checked(mode, precision, measure_s).submission
    assert (submission.precision, submission.measure_s) == (precision, measure_s)


@pytest.mark.parametrize(
    ("mode", "settings", "field", "text"),
    [
        ("RANKED", {"precision": 0.01}, "precision", "the same for everybody"),
        ("RANKED", {"measure_s": 30.0}, "measure_duration", "the same for everybody"),
        ("TEST", {"precision": 0.01}, "precision", "this is MODE_TEST"),
        ("PROFILE", {"measure_s": 1.0}, "measure_duration", "this is MODE_PROFILE"),
        ("SWEEP", {"measure_s": 1.0}, "measure_duration", "set `sweep.measure_duration`"),
        ("BENCHMARK", {"precision": 0.0}, "precision", "from 0.001 to 0.2"),
        ("BENCHMARK", {"precision": 1.0}, "precision", "from 0.001 to 0.2"),
        ("BENCHMARK", {"precision": float("nan")}, "precision", "from 0.001 to 0.2"),
        ("BENCHMARK", {"measure_s": 0.0}, "measure_duration", "from 0.1 s to 30 s"),
        ("BENCHMARK", {"measure_s": 31.0}, "measure_duration", "from 0.1 s to 30 s"),
    ],
)
def test_what_may_not_be_asked_for(mode: str, settings: dict[str, float], field: str, text: str) -> None:
    """The error names the field and says what to do. Ranked results are measured alike, in competitions too."""
    with pytest.raises(InvalidSubmission) as refused:
        checked(mode, **settings)
    assert [violation.field for violation in refused.value.violations] == [field] and text in refused.value.violations[0].description


@pytest.mark.parametrize(
    ("mode", "on_gpu", "settings", "expected"),
    [
        ("benchmark", True, {}, (10.0, 0.01)),
        ("benchmark", False, {}, (0.5, 0.01)),  # two public workloads
        ("benchmark", False, {"measure_s": 8.0}, (8.0, 0.01)),
        ("benchmark", True, {"measure_s": 0.5, "precision": 0.1}, (0.5, 0.1)),
        ("ranked", True, {}, (10.0, 0.005)),
        ("ranked", False, {}, (0.5, 0.005)),
        ("ranked", True, {"measure_s": 0.5, "precision": 0.1}, (10.0, 0.005)),  # were it ever kept with one
    ],
)
def test_what_is_done(mode: str, on_gpu: bool, settings: dict[str, float], expected: tuple[float, float]) -> None:
    """On the emulated device one second for all workloads together; ranked mode is as the server says."""
    submission = replace(fakes.new_submission(), mode=wire.Mode(mode), **settings)
    spec = replace(PROBLEM.spec, workloads=tuple(wire.Workload(workload_id=name, axes={}, hidden=name == "c") for name in "abc"))
    assert PROFILE.timing(submission, spec, on_gpu=on_gpu) == expected


def test_a_box_lives_as_long_as_it_is_measured() -> None:
    """Also where the submission asks for longer than the server's budget; where for less, its limits stay."""

    def wall_s(measure_s: float | None) -> float:
        return PROFILE.run_limits(PROBLEM.spec, wire.Mode.BENCHMARK, on_gpu=True, measure_s=measure_s).wall_s

    assert wall_s(30.0) >= wall_s(None) + 2 * 20 * len(PROBLEM.spec.workloads) and wall_s(0.1) == wall_s(None)


def test_the_command_line_asks_in_percent_and_seconds(address: str, kernel: Path) -> None:  # noqa: F811
    words = ("submit", kernel, "--server", address, "--no-wait", "--json")
    submission = json.loads(run(*words, "--precision", "0.5", "--measure-s", "3").stdout)
    assert submission["precision"] == pytest.approx(0.005) and submission["measure_duration"] == "3s"
    assert not {"precision", "measure_duration"} & json.loads(run(*words).stdout).keys()
    for wrong in ("nan", "inf", "1e12"):
        refused = run(*words, "--measure-s", wrong)
        assert refused.exit_code == 2 and "--measure-s" in refused.stderr


@pytest.mark.parametrize(
    ("end", "text"),
    [("width", "as narrow as asked"), ("floor", "no more precise"), ("turns", "no more turns"), ("budget", "its time was over")],
)
def test_a_report_says_why_a_measurement_ended(end: str, text: str) -> None:
    """Turns taken, the half-width reached, and the reason; of a hidden workload none of them, for they tell its size."""
    measurement = replace(
        fakes.measurement(), clock=wire.Clock.DEVICE_EVENTS, turn_count=18, half_width=0.0093, end=wire.MeasurementEnd(end)
    )

    def shown(fact: wire.Measurement) -> report_pb2.Measurement:
        event = Event(sequence=1, event_time=NOW, attempt=1, fact=fact)
        return event_to_proto(event, fakes.submission(), Redactor.for_problem(PROBLEM)).measurement

    message = shown(measurement)
    assert (message.turn_count, message.half_width) == (18, 0.0093)
    assert message.end == report_pb2.MeasurementEnd.Value(f"MEASUREMENT_END_{end.upper()}")
    assert formatting.turns(message).startswith("18 turns, \N{PLUS-MINUS SIGN}0.93 % (") and text in formatting.turns(message)
    hidden = shown(replace(measurement, hidden=True))
    assert formatting.turns(hidden) == "" and not hidden.HasField("half_width") and not hidden.end
