"""The page to submit with.  What is submitted goes to the API's own code, and a refusal comes back with all that was typed."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import structlog
from aiohttp import web
from markupsafe import escape
from multidict import MultiDict

from grader.api.resource_names import COMPETITIONS, PROBLEMS, full_name
from grader.errors import (
    CallRefused,
    CompetitionClosed,
    CompetitionNotFound,
    FieldViolation,
    InvalidRequest,
    InvalidSubmission,
    NoSuchDevice,
    PermissionDenied,
    ProblemNotFound,
    RequestIdReused,
    UserBanned,
)
from grader.model import Caller, Problem, Submission
from grader.peers import PeerCount, PeerLimits
from grader.server.interceptors import enter_call
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from grader_extensions.competitions.model import Competition, Phase
from grader_extensions.web.forms import TOKEN_FIELD, FormTokens, FormTooLarge, SentForm, check_origin, check_private, read_form
from grader_extensions.web.site import FormRefused, SignInNeeded, Site, counted, sentence
from sandbox.protocol import wire

FORM_LIMIT_BYTES = 4 * 1024 * 1024  # sources over their limit of 1 MiB are refused by intake, which says why
READ_S = 60.0  # for one form to come in
# Of forms that are read at once: of those who may submit, and of those whose session is over, who only get back what they typed.
SUBMIT_LIMITS = PeerLimits(total=32, per_address=8)
STRANGER_LIMITS = PeerLimits(total=4, per_address=1)
_SIGNED_OUT = "You are not signed in any more. Sign in, in another tab, and then send this form again: what you typed is still here."
_OTHER_SESSION = "This form was of an earlier session, so nothing was submitted. Send it again: what you typed is still here."


class SubmitPage:
    """Answers requests for the form, and what it sends."""

    def __init__(self, site: Site, *, limits: PeerLimits = SUBMIT_LIMITS, stranger_limits: PeerLimits = STRANGER_LIMITS) -> None:
        self._site, self._tokens = site, FormTokens(site)
        self.count, self.stranger_count = PeerCount(limits), PeerCount(stranger_limits)

    async def form(self, request: web.Request) -> web.Response:
        """The empty form."""
        self._site.user_of(request, "Submit")
        competition = request.query.get("competition", "")[:64]
        mode = wire.Mode.RANKED if competition else wire.Mode.BENCHMARK
        form = SubmitForm(problem=request.query.get("problem", "")[:200], competition=competition, mode=mode.value)
        return await self._page(request, form, {})

    async def submit(self, request: web.Request) -> web.Response:
        """Submit, and go on to the live page; or the form again, with what is wrong."""
        check_private(request)
        check_origin(request)
        caller, refused = None, ""
        try:
            caller = self._site.user_of(request, "Submit")
        except SignInNeeded:
            refused = _SIGNED_OUT
        except PermissionDenied as error:
            refused = sentence(str(error))
        try:
            fields, files = await self._read(request, self.stranger_count if caller is None else self.count)
        except FormTooLarge:
            text = f"The form has more than {FORM_LIMIT_BYTES >> 20} MiB. The files of a submission have at most 1 MiB together."
            return await self._site.error(request, 413, "Too large", text)
        form = from_sent(fields, files)
        try:
            self._tokens.check(request, fields.get(TOKEN_FIELD, ""))
        except FormRefused:  # it is of this site, as its origin says: only the session has changed
            refused = refused or _OTHER_SESSION
        if caller is None or refused:
            return await self._page(request, form, {"form": [refused]}, 403)
        if not caller.user:  # nobody signs in here: each browser takes turns, by half of its token, which opens no form
            caller = replace(caller, share=f"client:{fields[TOKEN_FIELD][:32]}")
        try:
            # A task of its own: who calls is kept for each task, and one task of the web port serves every request of a connection.
            submission = await asyncio.create_task(self._take(caller, to_request(form)))
        except CallRefused as error:
            if isinstance(error, RequestIdReused):  # the form was changed after it was sent
                form = replace(form, request_id=str(uuid.uuid4()))
            status = 409 if isinstance(error, RequestIdReused) else _STATUSES.get(error.code, 400)
            answer = await self._page(request, form, refusals(error), status)
            if error.retry_s is not None:
                answer.headers["Retry-After"] = f"{max(error.retry_s, 1):.0f}"
            return answer
        return web.Response(status=303, headers={"Location": f"/submissions/{submission.submission_id}"})

    async def _take(self, caller: Caller, request: api.SubmitRequest) -> Submission:
        enter_call(caller)
        structlog.contextvars.bind_contextvars(user=caller.user, key=caller.key_id)
        return await self._site.service.take(request)

    async def _read(self, request: web.Request, count: PeerCount) -> SentForm:
        with counted(request, count, FormRefused("Too many forms are being sent. Try again in a few seconds.")):
            try:
                async with asyncio.timeout(READ_S):
                    return await read_form(request, FORM_LIMIT_BYTES)
            except TimeoutError:
                raise FormRefused(f"The form did not come within {READ_S:.0f} s.") from None

    async def _page(
        self, request: web.Request, form: SubmitForm, field_refusals: Mapping[str, Sequence[str]], status: int = 200
    ) -> web.Response:
        site = self._site
        shown = context(form, field_refusals, site.problems.all(), site.competitions.all(), site.service.device_kinds(), site.now())
        return await self._tokens.page(request, "submit.html", shown, status)


# The form: from a browser's fields to the API's request, and from the API's refusals to the fields that they are about.  Pure.

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
    """A form as it was filled in. sources: path and content of each. unreadable: what is wrong with files that are no text."""

    problem: str = ""
    language: str = ""
    mode: str = wire.Mode.BENCHMARK.value
    device_kind: str = ""
    competition: str = ""
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    sources: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[FieldViolation, ...] = ()


def from_sent(fields: MultiDict[str], files: list[tuple[str, bytes]]) -> SubmitForm:
    """The form as it came back. A source that was left empty is none; the lines of a text that was typed end as they do in files."""
    typed = zip(map(str.strip, fields.getall("path", [])), fields.getall("content", []), strict=False)
    sources = [(path, text.replace("\r\n", "\n")) for path, text in typed if path or text.strip()]
    unreadable = list[FieldViolation]()
    for name, content in files:
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            text, byte, line = "", content[error.start], content.count(b"\n", 0, error.start) + 1
            mistake = f"{name!r} is not UTF-8: byte 0x{byte:02x} on line {line}; save the file as UTF-8"
            unreadable.append(FieldViolation(f"sources[{len(sources)}].content", mistake))
        sources.append((name, text))
    chosen = {name: fields.get(name, "").strip() for name in (*_CHOICES, "request_id")}
    return SubmitForm(**chosen, sources=tuple(sources), unreadable=tuple(unreadable))


def to_request(form: SubmitForm) -> api.SubmitRequest:
    """Return what the API is asked; InvalidSubmission where a file is no text."""
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
    texts = dict[str, list[str]]()
    for violation in error.violations:
        source = _SOURCE.fullmatch(violation.field)
        if source is not None:
            name, label = f"{source[2]}-{source[1]}", _LABELS[source[2]]
        else:
            name, label = (violation.field if violation.field in _LABELS else "form"), _LABELS.get(violation.field, violation.field)
        texts.setdefault(name, []).append(f"{label}: {violation.description}.")
    if "sources" in texts:
        texts.pop("language", None)  # it can't be told of no sources
    return texts


def context(
    form: SubmitForm,
    field_refusals: Mapping[str, Sequence[str]],
    problems: Sequence[Problem],
    competitions: Sequence[Competition],
    device_kinds: Sequence[str],
    now: datetime,
) -> dict[str, Any]:
    """Return what the page shows. The reader's own text is shown unescaped by us: an escape in its place would be sent back."""
    taking = {
        competition.competition_id: competition.title or competition.competition_id
        for competition in competitions
        if competition.phase(now) in (Phase.OPEN, Phase.FROZEN)
    }
    sources = form.sources or (("", ""),)
    return {
        "form": form,
        "problems": _with_chosen({problem.problem_id: problem.title or problem.problem_id for problem in problems}, form.problem),
        "problem_languages": {problem.problem_id: " ".join(problem.languages) for problem in problems},
        "competitions": _with_chosen(taking, form.competition),
        "languages": _with_chosen({language: language for problem in problems for language in problem.languages}, form.language),
        "modes": _with_chosen({mode.value: f"{mode.value}: {text}" for mode, text in _MODES.items()}, form.mode),
        "device_kinds": device_kinds,
        "sources": [{"path": path, "content": escape(content)} for path, content in sources],
        "errors": field_refusals,
    }


def _with_chosen(options: Mapping[str, str], chosen: str) -> list[tuple[str, str]]:
    """Options with what was chosen, even where it is none of them: what was sent is not changed silently."""
    choices = list(options.items())
    return choices if not chosen or chosen in options else [*choices, (chosen, chosen)]
