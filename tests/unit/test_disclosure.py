"""The table of what is shown of a hidden workload, and messages to submitters that follow it, field by field."""

import dataclasses
import typing
from datetime import UTC, datetime

import pytest

from grader.api import messages
from grader.model import Event, Report, Verdict
from grader.rules.disclosure import TABLE, Exposure, Redactor, Treatment, redact, treatment
from sandbox.protocol import wire
from tests import fakes

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SUBMISSION = fakes.submission(create_time=NOW)
KINDS = (*typing.get_args(wire.Fact), Event, Report)
# A value for each field that would be recognised in anything made of it.
TRIAL = {
    "key": "feed5eed",
    "element_count": 770001,
    "mismatched_count": 770002,
    "unwritten_count": 770003,
    "nonfinite_count": 770004,
    "max_absolute_error": 770005.5,
    "max_relative_error": 770006.5,
    "budget_ratio": 770007.5,
    "message": "size770008",
    "duration_ns": 770009,
    "index": 770010,
    "run_count": 770011,
}
MEASUREMENT = {
    "certified": wire.Samples(durations_ns=(880001,)),
    "bound_ns": 880002,
    "floor_ns": 880003,
    "reported": wire.Samples(durations_ns=(880004,)),
    "baselines": {"eager": wire.Samples(durations_ns=(880005,))},
    "reported_baselines": {"eager": wire.Samples(durations_ns=(880008,))},
    "physical_floor_ns": 880009,
    "conditions": {"clock": "c880010"},
    "own_share": 0.880011,
}
LETTERS = {Treatment.SHOWN: "s", Treatment.RENAMED: "n", Treatment.ROUNDED: "r", Treatment.CUT: "c", Treatment.OMITTED: "-"}
# What is shown of public workloads, of the same in a later process, of hidden and of secret ones: what declarations say, a second time.
# Kinds and fields that are not here are never shown.
EXPECTED = {
    wire.Trial: {
        "workload_id": "ssnn",
        "phase outcome hidden": "ssss",
        "index run_count": "sss-",
        "key element_count mismatched_count unwritten_count nonfinite_count": "ss--",
        "message max_absolute_error max_relative_error budget_ratio duration_ns": "s---",
        "wrong_elements symptom cuda_error wrong_pattern": "s---",
    },
    wire.Measurement: {  # of a secret workload there is none at all: it is nothing but times
        "workload_id": "ssn-",
        "clock certified bound_ns hidden reported_confirmed baselines speedups reported_baselines conditions": "sss-",
        # How many turns the budget had time for would tell how long one took.
        "reported floor_ns physical_floor_ns moved_bytes flops turn_count half_width end": "ss--",
        "own_share": "s---",
    },
    wire.Screening: {"outcome detail workload_count duration_ns": "ssss"},
    wire.Progress: {"stage": "ssss", "workload_id": "ssnn"},
    wire.Round: {"index count": "ssss"},
    wire.Build: {
        "outcome log log_truncated duration_ns artifact_digest reason": "ssss",
        "cached headers fallback kernels remarks argument_order mismatch unbuilt": "ssss",
    },
    wire.Environment: {"device device_kind clock isolation versions architecture device_uuid ceilings": "ssss"},
    wire.Load: {"outcome": "ssss", "message": "s---"},
    wire.RunEnd: {"output": "scc-"},
    wire.KernelProfile: {"tools workload_id architecture kernels launches remarks findings access_counts": "ssss"},
    Event: {"sequence attempt state fact": "ssss", "event_time": "sssr"},
    Report: {
        "verdict reason summary speedups build environment trials measurements flags libraries process_count score": "ssss",
        "rule profile screening cached_from exit_code signal": "ssss",
        "output": "scc-",
        "timeline": "sss-",  # else it would say how long a secret workload took
    },
}
MARKS = {
    **{name: str(value).removesuffix(".5") for name, value in TRIAL.items()},
    **{name: f"8800{number:02d}" for number, name in zip((1, 2, 3, 4, 5, 8, 9, 10, 11), MEASUREMENT, strict=True)},
}


def facts(exposure: Exposure) -> tuple[wire.Trial, wire.Measurement]:
    """A trial and a measurement with every field set, of a public or of a hidden workload."""
    hidden = exposure >= Exposure.HIDDEN
    common = {"workload_id": "n990001", "hidden": hidden}
    trial = wire.Trial(phase=wire.TrialPhase.VERIFY, outcome=wire.TrialOutcome.MISMATCHED, **common, **TRIAL)
    return trial, wire.Measurement(clock=wire.Clock.HOST, **common, **MEASUREMENT)


def redactor(exposure: Exposure) -> Redactor:
    return Redactor({"n990001": "hidden-1"} if exposure >= Exposure.HIDDEN else {}, "float32", exposure is Exposure.SECRET)


def submitter_text(exposure: Exposure) -> str:
    """All that a submitter gets: the report, and the two facts as events."""
    trial, measurement = facts(exposure)
    report = Report(
        verdict=Verdict.WRONG_ANSWER, reason="MISMATCH", summary="", trials=(trial,), measurements=(measurement,), output="o660001"
    )
    applied = redactor(exposure)
    texts = [str(messages.report_to_proto(report, applied, full=True))]
    for fact in (trial, measurement):
        event = Event(sequence=1, event_time=NOW, attempt=1, fact=fact)
        texts.append(str(messages.event_to_proto(event, SUBMISSION, applied)))
    return "\n".join(texts)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_has_a_row(kind):
    """And nobody discloses one by a single word."""
    assert set(TABLE[kind]) == {field.name for field in dataclasses.fields(kind)}
    rows = {name: "".join(LETTERS[cell] for cell in row) for name, row in TABLE[kind].items()}
    expected = {name: row for names, row in EXPECTED.get(kind, {}).items() for name in names.split()}
    assert {name: row for name, row in rows.items() if row != "----"} == expected


@pytest.mark.parametrize("exposure", [Exposure.PUBLIC, Exposure.HIDDEN, Exposure.SECRET], ids=lambda level: level.name)
@pytest.mark.parametrize("name", MARKS)
def test_what_reaches_a_submitter_follows_the_table(name, exposure):
    """Public fields are there, which is the control of those that are not."""
    kind = wire.Trial if name in TRIAL else wire.Measurement
    shown = treatment(kind, name, exposure) is Treatment.SHOWN
    if name == "key":
        assert ("feed5eed" in submitter_text(exposure)) is shown
    else:
        assert (MARKS[name].lstrip("sizec") in submitter_text(exposure).replace("_", "")) is shown


@pytest.mark.parametrize("exposure", [Exposure.HIDDEN, Exposure.SECRET], ids=lambda level: level.name)
def test_a_hidden_workload_has_another_name(exposure):
    assert "n990001" not in submitter_text(exposure) and "hidden-1" in submitter_text(exposure)
    assert "n990001" in submitter_text(Exposure.PUBLIC)


@pytest.mark.parametrize("exposure", [Exposure.PUBLIC, Exposure.LATER, Exposure.HIDDEN, Exposure.SECRET], ids=lambda level: level.name)
def test_a_pattern_of_errors_is_for_public_workloads_only(exposure):
    """A place is a size. The control is a public one, in which all of it is."""
    where = wire.IndexRange(axis=0, size=770013, first=770012, last=770012)
    pattern = wire.WrongPattern(output="c", shape=(770013,), kind=wire.PatternKind.REGION, count=1, ranges=(where,))
    trial = redact(dataclasses.replace(facts(exposure)[0], wrong_pattern=pattern), exposure)
    assert trial.wrong_pattern == (pattern if exposure is Exposure.PUBLIC else None)


def test_output_of_a_competition_is_left_out():
    assert "o660001" in submitter_text(Exposure.HIDDEN) and "o660001" not in submitter_text(Exposure.SECRET)


def test_a_later_process_says_nothing_of_its_own():
    """Fields that a kernel can choose are empty; the judge's counts stay."""
    trial = redact(facts(Exposure.PUBLIC)[0], Exposure.LATER)
    assert (trial.message, trial.duration_ns, trial.max_absolute_error) == ("", 0, None) and trial.mismatched_count == 770002
