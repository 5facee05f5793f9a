"""The page to submit with.  What is submitted goes to the API's own code, and a refusal comes back with all that was typed."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from aiohttp import web

from grader.errors import CallRefused, PermissionDenied, RequestIdReused
from grader.model import Caller
from grader.peers import PeerCount, PeerLimits, network_of
from grader.v1 import grader_service_pb2 as api
from grader.web import submit_form
from grader.web.forms import TOKEN_FIELD, FormTokens, check_origin, check_private
from grader.web.sent_form import FormTooLarge, SentForm, read_form
from grader.web.site import FormRefused, SignInNeeded, Site, sentence
from grader.web.submit_form import SubmitForm

FORM_LIMIT_BYTES = 4 * 1024 * 1024  # sources over their limit of 1 MiB are refused by intake, which says why
READ_S = 60.0  # for one form to come in
# Of forms that are read at once: of those who may submit, and of those whose session is over, who only get back what they typed.
SUBMIT_LIMITS = PeerLimits(total=32, per_address=8)
STRANGER_LIMITS = PeerLimits(total=4, per_address=1)
_SIGNED_OUT = "You are not signed in any more. Sign in, in another tab, and then send this form again: what you typed is still here."
_OTHER_SESSION = "This form was of an earlier session, so nothing was submitted. Send it again: what you typed is still here."
_BUSY = "Too many forms are being sent. Try again in a few seconds."


class Submitter(Protocol):
    """The API's Submit, for callers who may call it."""

    async def submit(self, caller: Caller, request: api.SubmitRequest) -> str:
        """The id of the submission, which is on disk; CallRefused."""

    def device_kinds(self) -> tuple[str, ...]:
        """What can be asked for."""


class SubmitPage:
    """Answers requests for the form, and what it sends."""

    def __init__(
        self, site: Site, submitter: Submitter, *, limits: PeerLimits = SUBMIT_LIMITS, stranger_limits: PeerLimits = STRANGER_LIMITS
    ) -> None:
        self._site, self._submitter, self._tokens = site, submitter, FormTokens(site)
        self.count, self.stranger_count = PeerCount(limits), PeerCount(stranger_limits)

    async def form(self, request: web.Request) -> web.Response:
        """The empty form."""
        self._site.user_of(request, "Submit")
        return await self._page(request, submit_form.from_query(request.query), {})

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
            sent = await self._read(request, self.stranger_count if caller is None else self.count)
        except FormTooLarge:
            text = f"The form has more than {FORM_LIMIT_BYTES >> 20} MiB. The files of a submission have at most 1 MiB together."
            return await self._site.error(request, 413, "Too large", text)
        form = submit_form.from_sent(sent)
        try:
            self._tokens.check(request, sent.one(TOKEN_FIELD))
        except FormRefused:  # it is of this site, as its origin says: only the session has changed
            refused = refused or _OTHER_SESSION
        if caller is None or refused:
            return await self._page(request, form, {"form": [refused]}, 403)
        try:
            made = await self._submitter.submit(caller, submit_form.to_request(form))
        except CallRefused as error:
            if isinstance(error, RequestIdReused):  # the form was changed after it was sent
                form = replace(form, request_id=str(uuid.uuid4()))
            answer = await self._page(request, form, submit_form.refusals(error), submit_form.status(error))
            if error.retry_s is not None:
                answer.headers["Retry-After"] = f"{max(error.retry_s, 1):.0f}"
            return answer
        return web.Response(status=303, headers={"Location": f"/submissions/{made}"})

    async def _read(self, request: web.Request, count: PeerCount) -> SentForm:
        with count.entered(network_of(request.remote or "unix")) as inside:
            if not inside:
                raise FormRefused(_BUSY)
            try:
                async with asyncio.timeout(READ_S):
                    return await read_form(request, FORM_LIMIT_BYTES)
            except TimeoutError:
                raise FormRefused(f"The form did not come within {READ_S:.0f} s.") from None

    async def _page(self, request: web.Request, form: SubmitForm, found: Mapping[str, Sequence[str]], status: int = 200) -> web.Response:
        site = self._site
        token, cookie = self._tokens.of(request)
        shown = submit_form.context(form, found, site.problems.all(), site.competitions.all(), self._submitter.device_kinds(), site.now())
        page = await site.page(request, "submit.html", {**shown, "token": token}, status, form=True)
        return self._tokens.keep(request, page, cookie)
