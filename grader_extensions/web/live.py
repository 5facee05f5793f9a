"""Streams what happens to a submission to its page, as server-sent events: what the API's WatchSubmission sends to the same caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Protocol

from aiohttp import web

from grader import access
from grader.errors import ShuttingDown, SubmissionNotFound
from grader.model import Caller
from grader.peers import PeerCount, PeerLimits, network_of
from grader.v1 import submission_pb2
from grader_extensions.web import views
from grader_extensions.web.site import HEADERS, Site, whole_number

HEARTBEAT_S = 15.0  # below what proxies wait for; it also finds out who has left
RECONNECT_MS = 3000
STREAM_LIMITS = PeerLimits(total=128, per_address=16)
_HEADERS = {
    **HEADERS,
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",  # nginx would keep events until it has 8 KiB of them
}


Events = AsyncGenerator[submission_pb2.SubmissionEvent, None]


class SubmissionEvents(Protocol):
    """The events of one submission, for callers who may see it; else SubmissionNotFound."""

    def stream(self, caller: Caller, submission_id: str, after: int) -> Events:
        """Return what followed the event with this sequence, until the submission has ended; ShuttingDown."""

    async def so_far(self, caller: Caller, submission_id: str) -> list[submission_pb2.SubmissionEvent]:
        """Return what a stream from the beginning would send at once."""


class LiveSubmissions:
    """Answers GET requests for streams, and counts those that are open."""

    def __init__(self, site: Site, events: SubmissionEvents, limits: PeerLimits, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._site, self._events, self._heartbeat_s = site, events, heartbeat_s
        self.count = PeerCount(limits)

    async def so_far(self, caller: Caller, submission_id: str) -> list[submission_pb2.SubmissionEvent]:
        """Return what has happened until now."""
        return await self._events.so_far(caller, submission_id)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The stream of one submission; it ends with the submission."""
        with self.count.entered(network_of(request.remote or "unix")) as inside:
            if not inside:
                answer = await self._site.error(
                    request, 503, "Not now", "Too many pages are live. Reload this one to see what has changed."
                )
                answer.headers["Retry-After"] = "10"
                return answer
            # The header is a browser's own, when it connects again; the page itself asks for what it does not show yet.
            last_event = request.headers.get("Last-Event-ID", request.query.get("after", ""))
            caller, submission_id = self._site.viewer(request), request.match_info["id"]
            submission = await self._site.ledger.get(submission_id)
            # Before the answer begins, so that it is the same as that of a page; the stream asks again.
            access.check_seen(caller, submission, self._site.readable())
            async with aclosing(self._events.stream(caller, submission_id, whole_number(last_event) or 0)) as events:
                response = web.StreamResponse(headers=_HEADERS)
                with suppress(ConnectionResetError, ShuttingDown, SubmissionNotFound):
                    await response.prepare(request)
                    await response.write(f"retry: {RECONNECT_MS}\n\n".encode())
                    await self._send(request, response, events)
                return response

    async def _send(self, request: web.Request, response: web.StreamResponse, events: Events) -> None:
        """Send each event, and something where there is none for a while; then the end. ConnectionResetError where the reader has left.

        A session that is over ends the stream without an end event: the browser comes again, and is refused.
        """
        following, holding = asyncio.ensure_future(_next(events)), asyncio.ensure_future(self._site.hold(request))
        try:
            while True:
                await asyncio.wait([following, holding], timeout=self._heartbeat_s, return_when=asyncio.FIRST_COMPLETED)
                if holding.done():
                    return
                if not following.done():
                    await response.write(b": still here\n\n")
                    continue
                event = following.result()
                if event is None:
                    await response.write(b"event: end\ndata: {}\n\n")
                    return
                following = asyncio.ensure_future(_next(events))
                if text := views.message(event):
                    await response.write(text)
        finally:
            following.cancel()
            holding.cancel()
            await asyncio.wait([following, holding])


async def _next(events: Events) -> submission_pb2.SubmissionEvent | None:
    """The next event; None after the last."""
    return await anext(events, None)
