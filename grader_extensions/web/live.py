"""Streams what happens to a submission to its page, as server-sent events: what the API's WatchSubmission sends to the same caller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from aiohttp import web

from grader.errors import ShuttingDown, SubmissionNotFound
from grader.peers import PeerCount, PeerLimits
from grader.v1 import submission_pb2
from grader_extensions.web import views
from grader_extensions.web.site import HEADERS, Site, TooBusy, counted, whole_number

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


class LiveSubmissions:
    """Answers GET requests for streams, and counts those that are open."""

    def __init__(self, site: Site, limits: PeerLimits, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self._site, self._heartbeat_s = site, heartbeat_s
        self.count = PeerCount(limits)

    async def events(self, request: web.Request) -> web.StreamResponse:
        """The stream of one submission; it ends with the submission."""
        with counted(request, self.count, TooBusy("Too many pages are live. Reload this one to see what has changed.", 10)):
            # The header is a browser's own, when it connects again; the page itself asks for what it does not show yet.
            last_event = request.headers.get("Last-Event-ID", request.query.get("after", ""))
            caller, submission_id = self._site.viewer(request), request.match_info["id"]
            # Before the answer begins, so that a refusal is the same as that of a page; the stream asks again.
            await self._site.seen(request, submission_id)
            stream = self._site.service.watch.stream(caller, submission_id, whole_number(last_event) or 0, until_findings=True)
            async with aclosing(stream) as events:
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
        following, holding = asyncio.ensure_future(anext(events, None)), asyncio.ensure_future(self._site.hold(request))
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
                following = asyncio.ensure_future(anext(events, None))
                if text := views.message(event):
                    await response.write(text)
        finally:
            following.cancel()
            holding.cancel()
            await asyncio.wait([following, holding])
