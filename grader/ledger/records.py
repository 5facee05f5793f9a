"""Rows to data and back.  Pure."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

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

_REPORT = TypeAdapter(Report)
UNREADABLE = "The rest of this report cannot be read: a value in it is out of range, or of another version. Have it judged again."
_PROBLEM = TypeAdapter(Problem)
_FAILURE = TypeAdapter(Failure)
_SOURCES = TypeAdapter(tuple[SourceFile, ...])
# Where they are empty.
_LEFT_OUT = ("user", "competition_id", "tags", "parent_id", "annotations", "precision", "measure_s", "skip_sanitizer")


def to_text(data: Any) -> str:
    """JSON of a dataclass of ours. NaN and infinities are kept: a largest error may be either."""
    return json.dumps(data, separators=(",", ":"), default=wire.parts)


def body_digest(new_submission: NewSubmission, problem: Problem) -> str:
    """Return what makes two submissions the same, for request ids. What is not set is left out, so that new fields change no old digest.

    The sizes of a sweep are part of its problem only."""
    data = {name: value for name, value in dataclasses.asdict(new_submission).items() if value or name not in _LEFT_OUT}
    if new_submission.mode is wire.Mode.SWEEP:
        data["problem_digest"] = problem.digest
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


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
    return Submission(
        submission_id=values["submission_id"],
        new=NewSubmission(
            problem_id=values["problem_id"],
            language=values["language"],
            sources=_SOURCES.validate_python(json.loads(sources)) if sources else (),
            entry=values["entry"],
            device_kind=values["device_kind"],
            mode=wire.Mode(values["mode"]),
            user=values["user_name"],
            competition_id=values["competition_id"],
            tags=tuple(values["tags"].split(",")) if values["tags"] else (),
            parent_id=values["parent_id"],
            annotations=json.loads(values["annotations"]) if values["annotations"] else {},
            precision=values["precision"],
            measure_s=values["measure_s"],
            skip_sanitizer=bool(values["skip_sanitizer"]),
        ),
        problem_digest=values["problem_digest"],
        state=SubmissionState(values["state"]),
        create_time=values["create_time"],
        attempt_count=values["attempt"],
        start_time=values["start_time"],
        end_time=values["end_time"],
        report=_report(values),
        failure=_FAILURE.validate_python(json.loads(failure)) if failure else None,
        score=score(values),
        sources_removed=sources == "",
        judgement_count=values["judgement_count"],
        rejudge_id=values["rejudge_id"] or "",
        cancel_requested=bool(values["cancel_requested"]),
        withdrawal=withdrawal,
    )


def score(values: Mapping[Any, Any]) -> Score | None:
    """The score in a row that has its three columns."""
    if values["score"] is None:
        return None
    return Score(value=values["score"], low=values["score_low"], high=values["score_high"])


def judgement(values: Mapping[Any, Any]) -> Judgement:
    """A judgement from the values of its columns."""
    return Judgement(
        sequence=values["sequence"],
        verdict=Verdict(values["verdict"]),
        reason=values["reason"],
        summary=values["summary"],
        problem_digest=values["problem_digest"],
        create_time=values["create_time"],
        score=score(values),
        rejudge_id=values["rejudge_id"] or "",
    )


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
    limits = {name: getattr(judgements.c[name].type, "length", None) for name in values}
    return {name: plain(value)[: limits[name]] if isinstance(value, str) else value for name, value in values.items()}


def plain(text: str) -> str:
    """Text without what a database refuses: NUL, and halves of surrogate pairs, which UTF-8 does not have."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def _report(values: sa.RowMapping) -> Report | None:
    if values["verdict"] is None:
        return None
    head = Report(verdict=Verdict(values["verdict"]), reason=values["reason"], summary=values["summary"])
    if "report" not in values:
        return head
    try:
        return _REPORT.validate_python(json.loads(values["report"]))
    except ValueError:
        return dataclasses.replace(head, summary=f"{head.summary} {UNREADABLE}")


def event(row: sa.Row[Any]) -> Event:
    """An event from a row; without its fact where that can't be read any more."""
    fact = None
    with suppress(wire.WireError):
        fact = wire.decode(row.fact.encode()) if row.fact else None
    return Event(
        sequence=row.sequence,
        event_time=row.event_time,
        attempt=row.attempt,
        fact=fact,
        state=SubmissionState(row.state) if row.state else None,
    )
