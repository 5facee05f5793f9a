"""The submit form: from what a browser sent to the API's request, and from the API's refusals to the fields that they are about.  Pure."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from markupsafe import escape

from grader.api.resource_names import COMPETITIONS, PROBLEMS, full_name
from grader.errors import (
    CallRefused,
    CompetitionClosed,
    CompetitionNotFound,
    FieldViolation,
    InvalidRequest,
    InvalidSubmission,
    NoSuchDevice,
    ProblemNotFound,
    RequestIdReused,
    UserBanned,
)
from grader.intake.gate import decode_source
from grader.model import Competition, Phase, Problem
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from grader.web.sent_form import SentForm
from grader.web.site import sentence
from sandbox.protocol import wire

_SOURCE = re.compile(r"sources\[(\d+)\]\.(path|content)")
_LABELS = {
    "problem": "Problem", "language": "Language", "mode": "Mode", "device_kind": "Device", "competition": "Competition",
    "sources": "Files", "path": "File name", "content": "Content",
}  # fmt: skip
_CHOICES = ("problem", "language", "mode", "device_kind", "competition")
_MODES = {
    wire.Mode.BENCHMARK: "verify, and time on the public and hidden workloads",
    wire.Mode.TEST: "verify only",
    wire.Mode.RANKED: "verify and time in fresh processes; boards count these only",
    wire.Mode.PROFILE: "verify, then run profilers",
    wire.Mode.SWEEP: "time over many sizes, where the problem says which",
    wire.Mode.SANITIZE: "verify, and look for races and wrong accesses",
}
_UNKNOWN_MODE = 99  # the API says what is known
_STATUSES = {"NOT_FOUND": 404, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503}
_FIELD_OF: Mapping[type[CallRefused], str] = {
    ProblemNotFound: "problem",
    NoSuchDevice: "device_kind",
    CompetitionNotFound: "competition",
    CompetitionClosed: "competition",
    UserBanned: "competition",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitForm:
    """What somebody has filled in. sources: path and content of each. unreadable: what is wrong with files that are no text."""

    problem: str = ""
    language: str = ""
    mode: str = wire.Mode.BENCHMARK.value
    device_kind: str = ""
    competition: str = ""
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    sources: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[FieldViolation, ...] = ()


def from_query(query: Mapping[str, str]) -> SubmitForm:
    """The form as a link opens it: for a problem, in a competition."""
    competition = query.get("competition", "")[:64]
    mode = wire.Mode.RANKED if competition else wire.Mode.BENCHMARK
    return SubmitForm(problem=query.get("problem", "")[:200], competition=competition, mode=mode.value)


def from_sent(sent: SentForm) -> SubmitForm:
    """The form as it came back. A source that was left empty is none; the lines of a text that was typed end as they do in files."""
    typed = [(path.strip(), text.replace("\r\n", "\n")) for path, text in zip(sent.all("path"), sent.all("content"), strict=False)]
    sources, unreadable = [(path, text) for path, text in typed if path or text.strip()], list[FieldViolation]()
    for name, content in sent.files:
        try:
            sources.append((name, decode_source(name, content, index=len(sources)).content))
        except InvalidSubmission as error:
            unreadable += error.violations
            sources.append((name, ""))
    chosen = {name: sent.one(name).strip() for name in (*_CHOICES, "request_id")}
    return SubmitForm(**chosen, sources=tuple(sources), unreadable=tuple(unreadable))


def to_request(form: SubmitForm) -> api.SubmitRequest:
    """What the API is asked; InvalidSubmission where a file is no text."""
    if form.unreadable:
        raise InvalidSubmission(form.unreadable)
    name = f"MODE_{form.mode.upper()}"
    mode = submission_pb2.Mode.Value(name) if name in submission_pb2.Mode.keys() else _UNKNOWN_MODE  # noqa: SIM118  # of the enum
    submission = submission_pb2.Submission(
        problem=full_name(PROBLEMS, form.problem) if form.problem else "",
        language=form.language,
        sources=[submission_pb2.SourceFile(path=path, content=content) for path, content in form.sources],
        device_kind=form.device_kind,
        competition=full_name(COMPETITIONS, form.competition) if form.competition else "",
    )
    submission.mode = mode  # type: ignore[assignment]  # an open enum
    return api.SubmitRequest(submission=submission, request_id=form.request_id)


def refusals(error: CallRefused) -> dict[str, list[str]]:
    """The sentences of a refusal, by the field that each is about; "form": about none of them."""
    if not isinstance(error, InvalidRequest):
        return {_FIELD_OF.get(type(error), "form"): [sentence(str(error))]}
    found = dict[str, list[str]]()
    for one in error.violations:
        source = _SOURCE.fullmatch(one.field)
        if source is not None:
            name, label = f"{source[2]}-{source[1]}", _LABELS[source[2]]
        else:
            name, label = (one.field if one.field in _LABELS else "form"), _LABELS.get(one.field, one.field)
        found.setdefault(name, []).append(f"{label}: {one.description}.")
    return found


def status(error: CallRefused) -> int:
    """Of the answer that shows the form again."""
    return 409 if isinstance(error, RequestIdReused) else _STATUSES.get(error.code, 400)


def context(
    form: SubmitForm,
    found: Mapping[str, Sequence[str]],
    problems: Sequence[Problem],
    competitions: Sequence[Competition],
    device_kinds: Sequence[str],
    now: datetime,
) -> dict[str, Any]:
    """What the page shows. What was typed is shown as it is, for it is the reader's own: an escape in its place would be sent back."""
    taking = {one.competition_id: one.title or one.competition_id for one in competitions if one.phase(now) in (Phase.OPEN, Phase.FROZEN)}
    sources = form.sources or (("", ""),)
    return {
        "form": form,
        "problems": _with_chosen({one.problem_id: one.title or one.problem_id for one in problems}, form.problem),
        "competitions": _with_chosen(taking, form.competition),
        "languages": _with_chosen({one: one for problem in problems for one in problem.languages}, form.language),
        "modes": _with_chosen({mode.value: f"{mode.value}: {text}" for mode, text in _MODES.items()}, form.mode),
        "device_kinds": device_kinds,
        "sources": [{"path": path, "content": escape(content)} for path, content in sources],
        "errors": found,
    }


def _with_chosen(options: Mapping[str, str], chosen: str) -> list[tuple[str, str]]:
    """Options with what was chosen, even where it is none of them: what was sent is not changed silently."""
    known = list(options.items())
    return known if not chosen or chosen in options else [*known, (chosen, chosen)]
