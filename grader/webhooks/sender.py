"""Sends what the ledger's outbox holds to webhooks: signed, and retried for a day.  Where it may go is `public_http`'s."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import random
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby

import structlog

from grader.api import messages, stable_json
from grader.errors import GraderFault
from grader.ledger import Ledger
from grader.ledger.hooks import STATUS_CHARS, Claimed, Delivery
from grader.model import Submission
from grader.observability.observer import DeliveryOutcome, Observer
from grader.rules.disclosure import Redactor
from grader.views.sanitize import one_line
from grader.webhooks import public_http

log = structlog.get_logger()

POLL_S = 1.0
RESOLVER_COUNT = 4  # threads of its own: a resolver that hangs must not hold up those who check submissions
FIRST_RETRY_S, LONGEST_RETRY_S = 5.0, 3600.0


class HookSender:
    """Sends until it is stopped. Any number of them may work on one ledger: each delivery is claimed by one at a time."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        allow_private: bool = False,
        resolve: public_http.Resolve | None = None,
        context: ssl.SSLContext | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        poll_s: float = POLL_S,
        observer: Observer | None = None,
    ) -> None:
        self._ledger, self._allow_private, self._now = ledger, allow_private, now
        self._threads = ThreadPoolExecutor(RESOLVER_COUNT, "hook-resolve")
        self._resolve = resolve or public_http.resolver(self._threads)
        self._context, self._poll_s = context, poll_s
        self._observer = observer or Observer()
        self._redactors: dict[str, Redactor] = {}
        self._busy: set[str] = set()
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """Claim nothing more; `run` ends when what is under way has ended."""
        self._stopped.set()

    async def run(self) -> None:
        """Send what is due, again and again."""
        try:
            await self._run()
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while not self._stopped.is_set():
                try:
                    await self.send_due(group)
                except GraderFault as error:  # a busy ledger; the next round tries again
                    log.warning("hooks_not_claimed", reason=error.reason, detail=error.detail)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), self._poll_s)

    async def send_due(self, group: asyncio.TaskGroup) -> int:
        """Start to send what is due now; how many. A hook whose last batch is under way waits, so that a slow one holds up nobody else."""
        claimed = await self._ledger.hooks.claim(busy=sorted(self._busy))
        for hook_id, batch in groupby(claimed, key=lambda one: one.delivery.hook_id):
            self._busy.add(hook_id)
            group.create_task(self._send_batch(hook_id, list(batch)))
        return len(claimed)

    async def _send_batch(self, hook_id: str, batch: list[Claimed]) -> None:
        try:
            await asyncio.gather(*(self._send_one(one) for one in batch))
        finally:
            self._busy.discard(hook_id)

    async def _send_one(self, one: Claimed) -> None:
        sent = one.delivery
        try:
            arrived, status = await self._post(one)
            if arrived:
                await self._ledger.hooks.delivered(sent, status)
                self._observer.delivery_sent(DeliveryOutcome.DELIVERED)
                log.info("hook_delivered", hook=sent.hook_id, delivery=sent.delivery_id, attempt=sent.attempt)
                return
            given_up = await self._ledger.hooks.failed(sent, status, retry_s=retry_s(sent.attempt))
            self._observer.delivery_sent(DeliveryOutcome.GIVEN_UP if given_up else DeliveryOutcome.FAILED)
            log.warning("hook_failed", hook=sent.hook_id, delivery=sent.delivery_id, attempt=sent.attempt, given_up=given_up)
        except Exception as error:  # one delivery's trouble is no other's; it is due again when the claim lapses
            self._observer.delivery_sent(DeliveryOutcome.FAILED)
            log.error("hook_broken", hook=sent.hook_id, delivery=sent.delivery_id, exc_info=error)

    async def _post(self, one: Claimed) -> tuple[bool, str]:
        """Whether it arrived, and what was said, in few words."""
        submission = await self._ledger.get(one.delivery.submission_id)
        history = tuple(await self._ledger.judgements(submission.submission_id))
        sent_time = self._now()
        data = body(one.delivery, replace(submission, judgements=history), await self._redactor(submission.problem_digest), sent_time)
        headers = {"Content-Type": "application/json", **signed(one.secret, one.delivery.delivery_id, sent_time, data)}
        try:
            answer = await public_http.post(
                public_http.target(one.url),
                headers,
                data,
                allow_private=self._allow_private,
                resolve=self._resolve,
                context=self._context,
            )
        except (public_http.UrlRefused, public_http.PostFailed) as error:
            return False, one_line(str(error), most_chars=STATUS_CHARS)
        message = one_line(answer.body.decode("utf-8", "replace"))
        return 200 <= answer.status < 300, f"HTTP {answer.status}{': ' + message if message else ''}"[:STATUS_CHARS]

    async def _redactor(self, digest: str) -> Redactor:
        if digest not in self._redactors:
            self._redactors[digest] = Redactor.of(await self._ledger.problem(digest))
        return self._redactors[digest]


def retry_s(attempt: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
    """How long to wait after this attempt: twice as long each time, up to an hour, each spread so that they do not come together."""
    full = min(FIRST_RETRY_S * 2.0 ** min(attempt - 1, 20), LONGEST_RETRY_S)
    return full * uniform(0.5, 1.0)


def body(delivery: Delivery, submission: Submission, redactor: Redactor, sent_time: datetime) -> bytes:
    """What is sent: the submission as it is now, as its owner sees it, but without its sources."""
    shown = messages.submission_to_proto(submission, redactor, owned=True)
    shown.ClearField("sources")
    data = {
        "event": delivery.event.value,
        "delivery_id": delivery.delivery_id,
        "sent_time": sent_time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "submission": stable_json.to_data(shown),
    }
    return stable_json.to_text(data).encode()


def signed(secret: str, delivery_id: str, sent_time: datetime, data: bytes) -> dict[str, str]:
    """The headers by which a receiver knows that we sent this, and when. docs/api.md shows how to check them."""
    timestamp = str(int(sent_time.timestamp()))
    return {
        "X-Grader-Delivery": delivery_id,
        "X-Grader-Timestamp": timestamp,
        "X-Grader-Signature": f"v1={signature(secret, timestamp, data)}",
    }


def signature(secret: str, timestamp: str, data: bytes) -> str:
    """HMAC-SHA256 of timestamp, a dot, and the body, in hex."""
    return hmac.new(secret.encode(), timestamp.encode() + b"." + data, hashlib.sha256).hexdigest()
