"""The API's methods: from message to ledger and back.  Raises `grader.errors`; the interceptor turns them into statuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, NoReturn, TypeVar

import grpc
import structlog
from google.protobuf.descriptor import EnumDescriptor

from grader import access
from grader.api import messages
from grader.api.conversion import from_enum
from grader.api.resource_names import COMPETITIONS, PROBLEMS, SUBMISSIONS, check_prefix, parse, parse_artifact
from grader.artifacts import SubmissionFiles, chunks
from grader.config import Settings
from grader.dispatch.dispatcher import Dispatcher
from grader.errors import ArtifactNotFound, FieldViolation, InvalidRequest, NotInstalled, ReadOnly, ShuttingDown
from grader.extensions import Call, NoCompetitions, SubmitPolicy
from grader.intake.gate import Accepted, SubmissionGate
from grader.ledger import Ledger
from grader.model import Caller, Submission, SubmissionArtifact, SubmissionState, Verdict
from grader.problems.store import Problems
from grader.rules.quotas import for_server
from grader.server import interceptors
from grader.server.interceptors import status_for
from grader.server.request_limits import check_fields, page_position, page_size, page_token
from grader.server.submission_watch import PATIENCE_S, WATCH_POLL_S, SubmissionUpdates, SubmissionWatch
from grader.v1 import grader_service_pb2 as api
from grader.v1 import grader_service_pb2_grpc, problem_pb2, report_pb2, submission_pb2

log = structlog.get_logger()

AT_ONCE_BYTES = 16 * 1024  # a submission of this size is checked in less time than a thread takes to begin
READER_POLL_S = 1.0  # a server that only reads hears nothing from the one that writes

Context = grpc.aio.ServicerContext[Any, Any]
E = TypeVar("E", bound=StrEnum)


class OwnedArtifacts:
    """Answers a submission's owner and administrators. For everybody else there is no such submission, whatever else of it they may see.

    retention: how long after it was made a file is there; None: for ever.
    """

    def __init__(self, ledger: Ledger, files: SubmissionFiles, retention: timedelta | None) -> None:
        self._ledger, self._files, self.retention = ledger, files, retention

    async def list_for(self, caller: Caller, submission_id: str) -> list[SubmissionArtifact]:
        """The files, by name. Raises SubmissionNotFound."""
        access.check_owned(caller, await self._ledger.get(submission_id))
        oldest = None if self.retention is None else self._ledger.now() - self.retention
        return await self._ledger.artifacts.of(submission_id, made_after=oldest)

    def holds(self, artifact: SubmissionArtifact) -> bool:
        """Return whether this server has the bytes."""
        return self._files.holds(artifact.digest)

    async def read(self, caller: Caller, submission_id: str, name: str) -> tuple[SubmissionArtifact, bytes]:
        """A file and its bytes. Raises SubmissionNotFound, and ArtifactNotFound where there is no such file, or its bytes are not here."""
        artifact = next((artifact for artifact in await self.list_for(caller, submission_id) if artifact.name == name), None)
        content = None if artifact is None else await asyncio.to_thread(self._files.read, artifact.digest)
        if artifact is None or content is None:
            raise ArtifactNotFound(submission_id, name)
        return artifact, content


class GraderServicer(grader_service_pb2_grpc.GraderServiceServicer):
    """Answers calls. worker None: a server that only reads. settings: of its limits and files. watch: None for one of its own."""

    def __init__(
        self,
        ledger: Ledger,
        problems: Problems,
        *,
        worker: Dispatcher | None,
        device_kinds: Callable[[], tuple[str, ...]] = tuple,
        settings: Settings | None = None,
        policy: SubmitPolicy | None = None,
        watch: SubmissionWatch | None = None,
    ) -> None:
        settings = settings or Settings()
        self.ledger, self.problems = ledger, problems
        self.policy = policy or NoCompetitions()
        quotas = for_server(settings.hourly_limit, settings.daily_limit)
        self._gate = SubmissionGate(problems=problems, policy=self.policy, quotas=quotas, user_queue_limit=settings.user_queue_limit)
        self._queue_limit = settings.queue_limit
        files = SubmissionFiles(settings.submission_files_path, settings.submission_files_bytes)
        retention = timedelta(days=settings.retain_artifacts_days) if settings.retain_artifacts_days else None
        self.artifacts = OwnedArtifacts(ledger, files, retention)
        self.worker, self.device_kinds = worker, device_kinds
        self.watch = watch or SubmissionWatch(ledger, self.policy, poll_s=READER_POLL_S if worker is None else WATCH_POLL_S)
        self.accepting = True  # new submissions
        self._updates = SubmissionUpdates(ledger, self.shown, self.watch.poll_s)
        methods = {method.name for method in api.DESCRIPTOR.services_by_name["GraderService"].methods}
        self.add({method: partial(_refuse, method) for method in methods - vars(GraderServicer).keys()})

    def add(self, calls: Mapping[str, Call]) -> None:
        """Answer these methods of the API, too."""
        for method, call in calls.items():
            assert method not in vars(GraderServicer), method  # those of the core are not replaced
            setattr(self, method, partial(_answer, call))

    async def Submit(self, request: api.SubmitRequest, context: Context) -> submission_pb2.Submission:
        return await self._placed(await self.take(request))

    async def take(self, request: api.SubmitRequest) -> Submission:
        """Put a submission into the queue, for the API and for pages; it is on disk when this returns."""
        worker, small = self._taking(), request.ByteSize() <= AT_ONCE_BYTES
        submission = await self._store(self._check(request) if small else await asyncio.to_thread(self._check, request))
        worker.wake()
        return submission

    async def BatchSubmit(self, request: api.BatchSubmitRequest, context: Context) -> api.BatchSubmitResponse:
        worker = self._taking()
        if not request.requests:
            raise InvalidRequest([FieldViolation("requests", "there are none; send at least one")])
        checked = await asyncio.to_thread(lambda: [self._checked(submit) for submit in request.requests])
        # All wait at once, so that they share a commit.
        results = await asyncio.gather(*map(self._store, checked), return_exceptions=True)
        worker.wake()
        return api.BatchSubmitResponse(results=[await self._result(result) for result in results])

    async def GetSubmission(self, request: api.GetSubmissionRequest, context: Context) -> submission_pb2.Submission:
        submission = await self.ledger.get(parse(SUBMISSIONS, request.name))
        access.check_seen(interceptors.current_caller(), submission, self.policy.readable(self.ledger.now()))
        full = request.view == report_pb2.REPORT_VIEW_FULL
        if full:
            submission = replace(submission, judgements=tuple(await self.ledger.judgements(submission.submission_id)))
        return await self._placed(submission, full=full, patience_s=PATIENCE_S)

    async def ListSubmissions(self, request: api.ListSubmissionsRequest, context: Context) -> api.ListSubmissionsResponse:
        size = page_size(request.page_size)
        problem_id = parse(PROBLEMS, request.problem, "problem") if request.problem else ""
        states = tuple(_members(SubmissionState, submission_pb2.SubmissionState.DESCRIPTOR, "states", request.states))
        verdicts = tuple(sorted(set(_members(Verdict, report_pb2.Verdict.DESCRIPTOR, "verdicts", request.verdicts))))
        competition_id = parse(COMPETITIONS, request.competition, "competition") if request.competition else ""
        submission_filter = access.submission_filter(
            interceptors.current_caller(), request.user, competition_id, self.policy.readable(self.ledger.now()), tag=request.tag
        )
        id_prefix = check_prefix(SUBMISSIONS, request.id_prefix, "id_prefix")
        submission_filter = replace(submission_filter, verdicts=verdicts, id_prefix=id_prefix)
        later = [(verdicts, id_prefix)] if verdicts or id_prefix else []
        scope = problem_id, states, competition_id, request.user, *([request.tag] if request.tag else []), *later
        before = page_position(request.page_token, int, *scope)
        submissions, following = await self.ledger.page(
            size=size, before=before, problem_id=problem_id, states=states, submission_filter=submission_filter
        )
        return api.ListSubmissionsResponse(
            submissions=[await self.shown(submission) for submission in submissions], next_page_token=page_token(following, *scope)
        )

    async def CancelSubmission(self, request: api.CancelSubmissionRequest, context: Context) -> submission_pb2.Submission:
        worker = self.writable()
        submission = await self.ledger.get(parse(SUBMISSIONS, request.name))
        access.check_owned(interceptors.current_caller(), submission)
        submission = await self.ledger.cancel(submission.submission_id)
        worker.check(submission.submission_id)
        return await self.shown(submission)

    async def WatchSubmission(self, request: api.WatchSubmissionRequest, context: Context) -> AsyncIterator[submission_pb2.SubmissionEvent]:
        submission_id, after = parse(SUBMISSIONS, request.name), request.after_sequence
        if after < 0:
            raise InvalidRequest([FieldViolation("after_sequence", f"{after} is negative; send the last sequence seen, or 0")])
        async with aclosing(self.watch.stream(interceptors.current_caller(), submission_id, after, request.until_findings)) as events:
            async for event in events:
                yield event

    async def WatchSubmissions(self, request: api.WatchSubmissionsRequest, context: Context) -> AsyncIterator[api.SubmissionUpdate]:
        async with aclosing(self._updates.stream(request, interceptors.current_caller())) as updates:
            async for update in updates:
                yield update

    async def ListArtifacts(self, request: api.ListArtifactsRequest, context: Context) -> api.ListArtifactsResponse:
        submission_id, owned = parse(SUBMISSIONS, request.parent, "parent"), self.artifacts
        artifacts = await owned.list_for(interceptors.current_caller(), submission_id)
        shown = (
            messages.artifact_to_proto(submission_id, artifact, retention=owned.retention, available=owned.holds(artifact))
            for artifact in artifacts
        )
        return api.ListArtifactsResponse(artifacts=shown)

    async def DownloadArtifact(self, request: api.DownloadArtifactRequest, context: Context) -> AsyncIterator[api.DownloadArtifactResponse]:
        submission_id, name = parse_artifact(request.name)
        artifact, content = await self.artifacts.read(interceptors.current_caller(), submission_id, name)
        pieces = chunks(content)
        yield api.DownloadArtifactResponse(data=next(pieces), size_bytes=len(content), digest=artifact.digest)
        for piece in pieces:
            yield api.DownloadArtifactResponse(data=piece)

    async def GetProblem(self, request: api.GetProblemRequest, context: Context) -> problem_pb2.Problem:
        return messages.problem_to_proto(self.problems.get(parse(PROBLEMS, request.name)))

    async def ListProblems(self, request: api.ListProblemsRequest, context: Context) -> api.ListProblemsResponse:
        size = page_size(request.page_size)
        after = page_position(request.page_token, str, "problems") or ""
        problems = [problem for problem in self.problems.all() if problem.problem_id > after]
        following = problems[size - 1].problem_id if len(problems) > size else None
        return api.ListProblemsResponse(
            problems=[messages.problem_to_proto(problem) for problem in problems[:size]],
            next_page_token=page_token(following, "problems"),
        )

    async def GetCaller(self, request: api.GetCallerRequest, context: Context) -> api.Caller:
        caller = interceptors.current_caller()
        quotas = [*self._gate.quotas, *self._gate.policy.quotas(self.ledger.now())] if request.with_quotas else []
        return messages.caller_to_proto(caller, await self.ledger.quota_uses(caller.user, quotas) if quotas else ())

    def _check(self, request: api.SubmitRequest) -> Accepted:
        check_fields(request)
        return self._gate.check(request, self.device_kinds())

    def _checked(self, request: api.SubmitRequest) -> Accepted | Exception:
        try:
            return self._check(request)
        except Exception as error:  # noqa: BLE001  # it is the result of this request, and the others have their own
            return error

    async def _store(self, checked: Accepted | Exception) -> Submission:
        if isinstance(checked, Exception):
            raise checked
        submission = await self.ledger.submit(
            replace(checked.submission, user=interceptors.current_caller().user),
            checked.problem,
            request_id=checked.request_id,
            queue_limit=self._queue_limit,
            policy=checked.policy,
            allow_cached=checked.allow_cached,
            share=interceptors.current_caller().share,
            batch=checked.batch,
        )
        log.info("submission_accepted", submission=submission.submission_id, problem=submission.new.problem_id)
        return submission

    def _taking(self) -> Dispatcher:
        worker = self.writable()
        if not self.accepting:
            raise ShuttingDown()
        return worker

    def writable(self) -> Dispatcher:
        """Return the worker; ReadOnly where there is none."""
        if self.worker is None:
            raise ReadOnly()
        return self.worker

    async def shown(self, submission: Submission, *, full: bool = False) -> submission_pb2.Submission:
        """Return a submission as the caller may see it."""
        owned = interceptors.current_caller().may_see(submission.new.user)
        return await self.watch.redactors.message(submission, full=full, owned=owned)

    async def _result(self, result: Submission | BaseException) -> api.SubmitResult:
        if isinstance(result, Exception):
            return api.SubmitResult(error=status_for(result, "BatchSubmit"))
        if isinstance(result, BaseException):
            raise result
        message = await self.shown(result)
        message.ClearField("sources")
        return api.SubmitResult(submission=message)

    async def _placed(self, submission: Submission, *, full: bool = False, patience_s: float = 0.0) -> submission_pb2.Submission:
        """Shown with its place in the queue."""
        message = await self.shown(submission, full=full)
        if submission.state is SubmissionState.QUEUED:
            position = await self.watch.positions.position(submission.submission_id, patience_s=patience_s)
            if position is not None:
                message.queue_position.CopyFrom(messages.position_to_proto(position))
        return message


async def _answer(call: Call, request: Any, context: Context) -> Any:
    return await call(request)


async def _refuse(method: str, request: Any) -> NoReturn:
    raise NotInstalled(method)


def _members(kind: type[E], enum: EnumDescriptor, field: str, numbers: Iterable[int]) -> list[E]:
    try:
        return [from_enum(kind, enum, number) for number in numbers]
    except ValueError:
        names = ", ".join(value.name for value in enum.values if not value.name.endswith("_UNSPECIFIED"))
        raise InvalidRequest([FieldViolation(field, f"one of them is not known here; take some of: {names}")]) from None
