"""The client: calls a server, retries what may be retried, and raises the exceptions that the server raised."""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, Unpack, cast

import grpc
from google.protobuf.message import Message
from grpc_status import rpc_status

from grader.api import channels
from grader.api.statuses import to_error
from grader.errors import GraderError, InternalFault, LedgerBusy, ServerUnreachable, ShuttingDown
from grader.v1 import grader_service_pb2 as api
from grader.v1 import grader_service_pb2_grpc, problem_pb2, report_pb2, submission_pb2

DEADLINE_S = 10.0
LONG_DEADLINE_S = 60.0  # of what may be about every submission there is
LIVED_S = 60.0  # no try to connect takes so long: what broke later was connected
# Pauses while a server is away, such as during a restart.
PAUSE_FIRST_S, PAUSE_MOST_S, PAUSE_GROWTH = 0.5, 5.0, 1.5
UNREPORTED_S = 1.0  # a shorter absence is not worth a line
SEEN_LIMIT = 1000  # revisions that a server takes
PAGE_SIZE = 1000  # the most that a server sends at once

# UNAVAILABLE is the one code that clients retry (AIP-194).
_RETRIES = {"maxAttempts": 5, "initialBackoff": "0.2s", "maxBackoff": "2s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}
_SERVICE_CONFIG = {
    "methodConfig": [
        {"name": [{"service": "grader.v1.GraderService"}], "retryPolicy": _RETRIES},
        # Resumed here, after what was seen.
        {"name": [{"service": "grader.v1.GraderService", "method": method} for method in ("WatchSubmission", "WatchSubmissions")]},
    ]
}
_OPTIONS = (
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.max_send_message_length", 16 * 1024 * 1024),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
    # A connection of its own: a server answers 200 calls on one, and gRPC would share it among all clients of a process.
    ("grpc.use_local_subchannel_pool", 1),
)

AWAY = (ServerUnreachable, ShuttingDown, LedgerBusy)  # a call that ends so may be made again: the server, or its ledger, restarts

M = TypeVar("M", bound=Message)


class PageQuery(TypedDict, total=False):
    """Part of a list. page_token: the `next_page_token` of the page before."""

    page_size: int
    page_token: str


class SubmissionQuery(PageQuery, total=False):
    """Fields of `ListSubmissionsRequest`: only submissions with all of these are listed."""

    problem: str
    states: Sequence[submission_pb2.SubmissionState]
    competition: str
    user: str
    tag: str
    verdicts: Sequence[report_pb2.Verdict]
    id_prefix: str


class ServerAbsence:
    """Absence of a server, as a call sees it. report: gets a sentence where that lasts, and where it is over."""

    def __init__(self, address: str, report: Callable[[str], None]) -> None:
        self._address, self._report = address, report
        self._since_s: float | None = None
        self._pause_s, self._reported = PAUSE_FIRST_S, False

    def end(self) -> None:
        """The server has answered."""
        if self._reported:
            self._report(f"{self._address} answers again")
        self._since_s, self._pause_s, self._reported = None, PAUSE_FIRST_S, False

    async def wait(self, limit_s: float, began_s: float | None = None) -> bool:
        """Pause before another try; False, at once, where the server has been away for limit_s. began_s: when it was first missed."""
        now_s = asyncio.get_running_loop().time()
        if self._since_s is None:
            self._since_s = now_s if began_s is None else began_s
        away_s = now_s - self._since_s
        if away_s >= limit_s:
            return False
        if away_s >= UNREPORTED_S and not self._reported:
            self._reported = True
            limit = f"{limit_s / 60:.0f} minutes" if limit_s >= 90 else f"{limit_s:.0f} s"
            self._report(f"no answer from {self._address}; waiting until it is back, for up to {limit}")
        await asyncio.sleep(self._pause_s * random.uniform(1.0, 1.2))  # not all clients at the same time
        self._pause_s = min(self._pause_s * PAUSE_GROWTH, PAUSE_MOST_S)
        return True


class GraderClient:
    """Client of a server. address: HOST:PORT, https://HOST:PORT, http://HOST:PORT or unix:/PATH. Use as an async context.

    tls: whether to speak it, where the address does not specify it; None: with every server but those on this host. ca: the authorities
    to trust, in PEM. key: goes with every call; beyond this host only over TLS, unless plain_text_key. patience_s: how long a watch waits
    for a server that is away; restart_s: how long any call does, once the server has answered anything. A call that is sent again
    does nothing twice. on_absence: gets a sentence where such an absence lasts, and where it is over. client_name: whose turns in the queue
    a client without a key takes; "": its own.
    """

    def __init__(
        self,
        address: str,
        *,
        key: str = "",
        tls: bool | None = None,
        ca: bytes | None = None,
        plain_text_key: bool = False,
        deadline_s: float = DEADLINE_S,
        patience_s: float = 60.0,
        restart_s: float = 0.0,
        on_absence: Callable[[str], None] = lambda sentence: None,
        client_name: str = "",
    ) -> None:
        self.address, self._tls = channels.route(address, tls)
        self._key, self._ca, self._client_name = key, ca, client_name or uuid.uuid4().hex
        if key:
            channels.check_key(key, self.address, tls=self._tls, plain_text=plain_text_key)
        self._deadline_s, self._patience_s, self._restart_s = deadline_s, patience_s, restart_s
        self.on_absence = on_absence
        self._answered = False  # whether the server ever has

    async def __aenter__(self) -> Self:
        if self._tls:
            self._channel = grpc.aio.secure_channel(self.address, grpc.ssl_channel_credentials(self._ca), options=_OPTIONS)
        else:
            self._channel = grpc.aio.insecure_channel(self.address, options=_OPTIONS)
        self.stub = grader_service_pb2_grpc.GraderServiceStub(self._channel)  # type: ignore[no-untyped-call]  # generated
        # Not by gRPC's call credentials: those refuse plain text on loopback, too.
        header = ("authorization", f"Bearer {self._key}") if self._key else (channels.CLIENT_HEADER, self._client_name)
        for name, call in vars(self.stub).items():
            setattr(self.stub, name, partial(call, metadata=(header,)))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._channel.close(None)

    async def submit(
        self, submission: submission_pb2.Submission, *, request_id: str = "", allow_cached_result: bool = False, batch: bool = False
    ) -> submission_pb2.Submission:
        """Hand a kernel in. Safe to retry: without a request_id, one is made for this call. allow_cached_result: it may end at once
        with the result of an identical submission of yours. batch: all that are not so go before it."""
        request_id = request_id or str(uuid.uuid4())
        request = api.SubmitRequest(submission=submission, request_id=request_id, allow_cached_result=allow_cached_result, batch=batch)
        return await self.answer(self.stub.Submit, request)

    async def batch_submit(
        self,
        submissions: Sequence[submission_pb2.Submission],
        *,
        request_ids: Sequence[str] = (),
        allow_cached_result: bool = False,
        batch: bool = False,
    ) -> list[submission_pb2.Submission | GraderError]:
        """Hand in at most 100 kernels at once, as `submit` does. For each the submission, or the exception that it would have raised."""
        ids = request_ids or [str(uuid.uuid4()) for _ in submissions]
        requests = [
            api.SubmitRequest(submission=submission, request_id=request_id, allow_cached_result=allow_cached_result, batch=batch)
            for submission, request_id in zip(submissions, ids, strict=True)
        ]
        request = api.BatchSubmitRequest(requests=requests)
        answer: api.BatchSubmitResponse = await self.answer(self.stub.BatchSubmit, request, LONG_DEADLINE_S)
        return [to_error(result.error) if result.HasField("error") else result.submission for result in answer.results]

    async def get_submission(self, name: str, *, full: bool = False) -> submission_pb2.Submission:
        """Return a submission; full: with single samples."""
        view = report_pb2.REPORT_VIEW_FULL if full else report_pb2.REPORT_VIEW_BASIC
        return await self.answer(self.stub.GetSubmission, api.GetSubmissionRequest(name=name, view=view))

    async def list_submissions(self, **query: Unpack[SubmissionQuery]) -> api.ListSubmissionsResponse:
        """Return a page, newest first."""
        return await self.answer(self.stub.ListSubmissions, api.ListSubmissionsRequest(**query))

    async def submission_pages(self, **query: Unpack[SubmissionQuery]) -> AsyncIterator[Sequence[submission_pb2.Submission]]:
        """Yield a list page after page, newest first."""
        query = {"page_size": PAGE_SIZE, **query}
        while True:
            page = await self.list_submissions(**query)
            yield page.submissions
            if not page.next_page_token:
                return
            query["page_token"] = page.next_page_token

    async def cancel(self, name: str) -> submission_pb2.Submission:
        """Ask for the end of a submission; one that runs is stopped soon after."""
        return await self.answer(self.stub.CancelSubmission, api.CancelSubmissionRequest(name=name))

    async def list_artifacts(self, name: str) -> Sequence[api.Artifact]:
        """The files that a submission left, by name."""
        answer: api.ListArtifactsResponse = await self.answer(self.stub.ListArtifacts, api.ListArtifactsRequest(parent=name))
        return answer.artifacts

    async def download_artifact(self, name: str) -> AsyncIterator[bytes]:
        """The pieces of one of these files. Check its size and digest: a stream that breaks off raises, one that lies does not."""
        try:
            async for piece in self.stub.DownloadArtifact(api.DownloadArtifactRequest(name=name), timeout=LONG_DEADLINE_S):
                yield piece.data
        except grpc.aio.AioRpcError as error:
            raise self._explained(self._error(error)) from None

    async def get_problem(self, name: str) -> problem_pb2.Problem:
        """Return a problem."""
        return await self.answer(self.stub.GetProblem, api.GetProblemRequest(name=name))

    async def list_problems(self, **page: Unpack[PageQuery]) -> api.ListProblemsResponse:
        """Return a page, by name."""
        return await self.answer(self.stub.ListProblems, api.ListProblemsRequest(**page))

    async def get_caller(self, *, with_quotas: bool = False) -> api.Caller:
        """Return whose the key is, to the server; with_quotas: and how many submissions that user may make."""
        return await self.answer(self.stub.GetCaller, api.GetCallerRequest(with_quotas=with_quotas))

    async def watch(
        self, name: str, *, after_sequence: int = 0, until_findings: bool = False
    ) -> AsyncIterator[submission_pb2.SubmissionEvent]:
        """Events to the final one, across restarts of the server; ServerUnreachable where it stays away for patience_s."""

        def call() -> Any:
            request = api.WatchSubmissionRequest(name=name, after_sequence=after_sequence, until_findings=until_findings)
            return self.stub.WatchSubmission(request)

        async with aclosing(self._resumed(call)) as events:
            async for event in events:
                after_sequence = event.sequence
                yield event

    async def watch_many(self, *, tag: str = "", names: Sequence[str] = (), until_idle: bool = True) -> AsyncIterator[api.SubmissionUpdate]:
        """The state of each of these submissions, and each change of it once, across restarts of the server as in `watch`. Ends when all
        have finished; with until_idle False it also waits for new ones with the tag, without end."""
        revisions: dict[str, int] = {}  # by name; what was seen last comes last

        def call() -> Any:
            last = dict(list(revisions.items())[-SEEN_LIMIT:])
            request = api.WatchSubmissionsRequest(tag=tag, names=names, seen_revisions=last, until_idle=until_idle)
            return self.stub.WatchSubmissions(request)

        async with aclosing(self._resumed(call)) as updates:
            async for update in updates:
                name = update.submission.name
                before = revisions.pop(name, 0)
                revisions[name] = max(update.revision, before)
                if update.revision > before:
                    yield update

    async def _resumed(self, call: Callable[[], Any]) -> AsyncGenerator[Any, None]:
        """The messages of a stream, which is called again where it breaks: call asks for what follows the last message."""
        loop = asyncio.get_running_loop()
        absence = ServerAbsence(self.address, self.on_absence)
        while True:
            began_s = loop.time()
            stream = call()
            try:
                async for message in stream:
                    self._answered = True
                    absence.end()
                    yield message
                return
            except grpc.aio.AioRpcError as error:
                if loop.time() - began_s > LIVED_S:  # a watch that was quiet for long before it broke was no absence
                    absence.end()
                failure = self._error(error)
                if error.code() is not grpc.StatusCode.UNAVAILABLE or not await absence.wait(self._stream_limit_s(failure)):
                    raise self._explained(failure) from None
            finally:
                stream.cancel()  # else the server goes on with one whose reader has stopped

    async def answer(self, method: Callable[..., Awaitable[M]], request: Message, deadline_s: float | None = None) -> M:
        """Call a method of the stub, which must be safe to retry. Packages call theirs so."""
        loop, absence = asyncio.get_running_loop(), ServerAbsence(self.address, self.on_absence)
        while True:
            began_s = loop.time()
            try:
                answer = await method(request, timeout=deadline_s or self._deadline_s)
            except grpc.aio.AioRpcError as error:
                failure = self._error(error)
                away = error.code() is grpc.StatusCode.UNAVAILABLE and isinstance(failure, AWAY)
                if not away or not await absence.wait(self._restart_s if self._answered else 0.0, began_s):
                    raise self._explained(failure) from None
            else:
                self._answered = True
                absence.end()
                return answer

    def _stream_limit_s(self, error: GraderError) -> float:
        if self._answered:
            return max(self._patience_s, self._restart_s)
        permanent = isinstance(error, ServerUnreachable) and channels.is_permanent(error.detail, tls=self._tls)
        return 0.0 if permanent else self._patience_s

    def _explained(self, error: GraderError) -> GraderError:
        """In words for people, where it is that nothing answers."""
        if not isinstance(error, ServerUnreachable):
            return error
        return ServerUnreachable(self.address, channels.explain(error.detail, tls=self._tls, answered=self._answered))

    def _error(self, error: grpc.aio.AioRpcError) -> GraderError:
        if (status := rpc_status.from_call(cast(grpc.Call, error))) is not None:
            self._answered = True
            return to_error(status)
        if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            return ServerUnreachable(self.address, error.details() or error.code().name)
        return InternalFault(f"{error.code().name}: {error.details()}")
