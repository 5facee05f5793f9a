"""Rows to data and back.  Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar

import sqlalchemy as sa
from pydantic import TypeAdapter

from grader.ledger.tables import judgements
from grader.model import (
    Event,
    Failure,
    Judgement,
    NewSubmission,
    Problem,
    Report,
    Score,
    SourceFile,
    Submission,
    SubmissionState,
    Verdict,
    Withdrawal,
)
from sandbox.protocol import wire

T = TypeVar("T")
_REPORT = TypeAdapter(Report)
UNREADABLE = "The rest of this report cannot be read: a value in it is out of range, or of another version. Have it judged again."
_PROBLEM = TypeAdapter(Problem)
_FAILURE = TypeAdapter(Failure)
_SOURCES = TypeAdapter(tuple[SourceFile, ...])
_LENGTHS = {column.name: getattr(column.type, "length", None) for column in judgements.c}
_ALWAYS_SET = ("problem_id", "language", "sources", "entry", "device_kind", "mode")  # the other fields only where they are not empty


def to_text(data: Any) -> str:
    """JSON of a dataclass of ours. NaN and infinities are kept: a largest error may be either."""
    return json.dumps(data, separators=(",", ":"), default=wire.parts)


def body_digest(new_submission: NewSubmission, problem: Problem) -> str:
    """Return what makes two submissions the same, for request ids. What is not set is left out, so that new fields change no old digest.

    The sizes of a sweep are part of its problem only."""
    data = {name: value for name, value in wire.parts(new_submission).items() if value or name in _ALWAYS_SET}
    if new_submission.mode is wire.Mode.SWEEP:
        data["problem_digest"] = problem.digest
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=wire.parts).encode()).hexdigest()


def request_key(user: str, request_id: str) -> str:
    """Return what a request id is kept as: two users may have the same one."""
    return hashlib.sha256(f"{user}\0{request_id}".encode()).hexdigest() if user else request_id


@lru_cache(maxsize=64)  # the same few are leased again and again, and none ever changes
def problem(document: str) -> Problem:
    """A problem from its document."""
    return _PROBLEM.validate_python(json.loads(document))


def submission(row: sa.Row[Any]) -> Submission:
    """A submission from a row of its columns; where the query left out the report, the head of it."""
    values = row._mapping
    sources, failure, withdrawal = values.get("sources"), values["failure"], None
    if values["withdraw_time"] is not None:
        withdrawal = Withdrawal(user=values["withdraw_user"], reason=values["withdraw_reason"], create_time=values["withdraw_time"])
    return read(
        Submission,
        values,
        new=read(
            NewSubmission,
            values,
            sources=_SOURCES.validate_python(json.loads(sources)) if sources else (),
            mode=wire.Mode(values["mode"]),
            user=values["user_name"],
            tags=tuple(values["tags"].split(",")) if values["tags"] else (),
            annotations=json.loads(values["annotations"]) if values["annotations"] else {},
        ),
        state=SubmissionState(values["state"]),
        attempt_count=values["attempt"],
        report=_report(values),
        failure=_FAILURE.validate_python(json.loads(failure)) if failure else None,
        score=score(values),
        sources_removed=sources == "",
        rejudge_id=values["rejudge_id"] or "",
        withdrawal=withdrawal,
    )


def read(kind: type[T], values: Mapping[Any, Any], **computed: Any) -> T:
    """Make a dataclass of a row, whose columns are called as its fields. computed: what no column holds as it is."""
    names = (name for name in wire.field_names(kind) if name not in computed and name in values)  # type: ignore[arg-type]
    return kind(**{name: values[name] for name in names}, **computed)


def score(values: Mapping[Any, Any]) -> Score | None:
    """The score in a row that has its three columns."""
    if values["score"] is None:
        return None
    return Score(value=values["score"], low=values["score_low"], high=values["score_high"])


def judgement(values: Mapping[Any, Any]) -> Judgement:
    """A judgement from the values of its columns."""
    return read(Judgement, values, verdict=Verdict(values["verdict"]), score=score(values), rejudge_id=values["rejudge_id"] or "")


def judged(report: Report) -> dict[str, Any]:
    """The columns that a judgement has, from its report. No text that a kernel had a part in is more than the database takes."""
    environment, judged_score = report.environment, report.score
    values = {
        "verdict": report.verdict,
        "reason": report.reason,
        "summary": report.summary,
        "report": to_text(report),
        "device": environment.device if environment else None,
        "clock": environment.clock if environment else None,
        "score": judged_score.value if judged_score else None,
        "score_low": judged_score.low if judged_score else None,
        "score_high": judged_score.high if judged_score else None,
        "flags": ",".join(report.flags),
    }
    return {name: plain(value)[: _LENGTHS[name]] if isinstance(value, str) else value for name, value in values.items()}


def plain(text: str) -> str:
    """Text without what a database refuses: NUL, and halves of surrogate pairs, which UTF-8 does not have."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _report(values: sa.RowMapping) -> Report | None:
    if values["verdict"] is None:
        return None
    head = Report(verdict=Verdict(values["verdict"]), reason=values["reason"], summary=values["summary"])
    if (report := values.get("report")) is None:  # left out, or written by another transaction since this one began
        return head
    try:
        return _REPORT.validate_python(json.loads(report))
    except ValueError:
        return dataclasses.replace(head, summary=f"{head.summary} {UNREADABLE}")


def event(row: sa.Row[Any]) -> Event:
    """An event from a row; without its fact where that can't be read any more."""
    fact = None
    with suppress(wire.WireError):
        fact = wire.decode(row.fact.encode()) if row.fact else None
    return read(Event, row._mapping, fact=fact, state=SubmissionState(row.state) if row.state else None)
