"""Rows to data and back.  Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter

from grader.model import Event, Failure, NewSubmission, Problem, Report, SourceFile, Submission, SubmissionState, Verdict
from sandbox import wire

_REPORT = TypeAdapter(Report)
_PROBLEM = TypeAdapter(Problem)
_FAILURE = TypeAdapter(Failure)
_SOURCES = TypeAdapter(tuple[SourceFile, ...])


def to_text(data: Any) -> str:
    """JSON of a dataclass of ours. NaN and infinities are kept: a largest error may be either."""
    return json.dumps(dataclasses.asdict(data), separators=(",", ":"))


def sources_to_text(sources: tuple[SourceFile, ...]) -> str:
    """JSON of sources, in their order."""
    return json.dumps([dataclasses.asdict(source) for source in sources], separators=(",", ":"))


def body_digest(new: NewSubmission) -> str:
    """What makes two submissions the same, for request ids."""
    return hashlib.sha256(json.dumps(dataclasses.asdict(new), sort_keys=True).encode()).hexdigest()


def problem(document: str) -> Problem:
    """A problem from its document."""
    return _PROBLEM.validate_python(json.loads(document))


def submission(row: sa.Row[Any]) -> Submission:
    """A submission from a row of its columns; where the query left out the report, the head of it."""
    values = row._mapping
    sources, failure = values.get("sources"), values["failure"]
    return Submission(
        submission_id=values["submission_id"],
        new=NewSubmission(
            problem_id=values["problem_id"],
            language=values["language"],
            sources=_SOURCES.validate_python(json.loads(sources)) if sources else (),
            entry=values["entry"],
            device_kind=values["device_kind"],
            mode=wire.Mode(values["mode"]),
        ),
        problem_digest=values["problem_digest"],
        state=SubmissionState(values["state"]),
        create_time=values["create_time"],
        attempt_count=values["attempt"],
        start_time=values["start_time"],
        end_time=values["end_time"],
        report=_report(values),
        failure=_FAILURE.validate_python(json.loads(failure)) if failure else None,
    )


def _report(values: sa.RowMapping) -> Report | None:
    if values["verdict"] is None:
        return None
    if "report" in values:
        return _REPORT.validate_python(json.loads(values["report"]))
    return Report(verdict=Verdict(values["verdict"]), reason=values["reason"], summary=values["summary"])


def event(row: sa.Row[Any]) -> Event:
    """An event from a row."""
    return Event(
        sequence=row.sequence,
        event_time=row.event_time,
        attempt=row.attempt,
        fact=wire.from_json(json.loads(row.fact)) if row.fact else None,
        state=SubmissionState(row.state) if row.state else None,
    )
