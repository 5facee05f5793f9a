import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from grader.v1 import competition_pb2 as _competition_pb2
from grader.v1 import problem_pb2 as _problem_pb2
from grader.v1 import rejudge_pb2 as _rejudge_pb2
from grader.v1 import report_pb2 as _report_pb2
from grader.v1 import submission_pb2 as _submission_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SubmitRequest(_message.Message):
    __slots__ = ("submission", "request_id", "allow_cached_result", "batch")
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ALLOW_CACHED_RESULT_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    submission: _submission_pb2.Submission
    request_id: str
    allow_cached_result: bool
    batch: bool
    def __init__(self, submission: _Optional[_Union[_submission_pb2.Submission, _Mapping]] = ..., request_id: _Optional[str] = ..., allow_cached_result: _Optional[bool] = ..., batch: _Optional[bool] = ...) -> None: ...

class BatchSubmitRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[SubmitRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[SubmitRequest, _Mapping]]] = ...) -> None: ...

class BatchSubmitResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[SubmitResult]
    def __init__(self, results: _Optional[_Iterable[_Union[SubmitResult, _Mapping]]] = ...) -> None: ...

class SubmitResult(_message.Message):
    __slots__ = ("submission", "error")
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    submission: _submission_pb2.Submission
    error: _status_pb2.Status
    def __init__(self, submission: _Optional[_Union[_submission_pb2.Submission, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ...) -> None: ...

class GetSubmissionRequest(_message.Message):
    __slots__ = ("name", "view")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    name: str
    view: _report_pb2.ReportView
    def __init__(self, name: _Optional[str] = ..., view: _Optional[_Union[_report_pb2.ReportView, str]] = ...) -> None: ...

class ListSubmissionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "problem", "states", "competition", "user", "tag", "verdicts", "id_prefix")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    problem: str
    states: _containers.RepeatedScalarFieldContainer[_submission_pb2.SubmissionState]
    competition: str
    user: str
    tag: str
    verdicts: _containers.RepeatedScalarFieldContainer[_report_pb2.Verdict]
    id_prefix: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., problem: _Optional[str] = ..., states: _Optional[_Iterable[_Union[_submission_pb2.SubmissionState, str]]] = ..., competition: _Optional[str] = ..., user: _Optional[str] = ..., tag: _Optional[str] = ..., verdicts: _Optional[_Iterable[_Union[_report_pb2.Verdict, str]]] = ..., id_prefix: _Optional[str] = ...) -> None: ...

class ListSubmissionsResponse(_message.Message):
    __slots__ = ("submissions", "next_page_token")
    SUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    submissions: _containers.RepeatedCompositeFieldContainer[_submission_pb2.Submission]
    next_page_token: str
    def __init__(self, submissions: _Optional[_Iterable[_Union[_submission_pb2.Submission, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CancelSubmissionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WatchSubmissionRequest(_message.Message):
    __slots__ = ("name", "after_sequence", "until_findings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FINDINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    after_sequence: int
    until_findings: bool
    def __init__(self, name: _Optional[str] = ..., after_sequence: _Optional[int] = ..., until_findings: _Optional[bool] = ...) -> None: ...

class WatchSubmissionsRequest(_message.Message):
    __slots__ = ("tag", "names", "seen_revisions", "until_idle")
    class SeenRevisionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TAG_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    SEEN_REVISIONS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_IDLE_FIELD_NUMBER: _ClassVar[int]
    tag: str
    names: _containers.RepeatedScalarFieldContainer[str]
    seen_revisions: _containers.ScalarMap[str, int]
    until_idle: bool
    def __init__(self, tag: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., seen_revisions: _Optional[_Mapping[str, int]] = ..., until_idle: _Optional[bool] = ...) -> None: ...

class SubmissionUpdate(_message.Message):
    __slots__ = ("submission", "revision")
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    submission: _submission_pb2.Submission
    revision: int
    def __init__(self, submission: _Optional[_Union[_submission_pb2.Submission, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("name", "tool", "size_bytes", "digest", "create_time", "expire_time", "available")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    name: str
    tool: str
    size_bytes: int
    digest: str
    create_time: _timestamp_pb2.Timestamp
    expire_time: _timestamp_pb2.Timestamp
    available: bool
    def __init__(self, name: _Optional[str] = ..., tool: _Optional[str] = ..., size_bytes: _Optional[int] = ..., digest: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., available: _Optional[bool] = ...) -> None: ...

class ListArtifactsRequest(_message.Message):
    __slots__ = ("parent",)
    PARENT_FIELD_NUMBER: _ClassVar[int]
    parent: str
    def __init__(self, parent: _Optional[str] = ...) -> None: ...

class ListArtifactsResponse(_message.Message):
    __slots__ = ("artifacts",)
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    artifacts: _containers.RepeatedCompositeFieldContainer[Artifact]
    def __init__(self, artifacts: _Optional[_Iterable[_Union[Artifact, _Mapping]]] = ...) -> None: ...

class DownloadArtifactRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DownloadArtifactResponse(_message.Message):
    __slots__ = ("data", "size_bytes", "digest")
    DATA_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    size_bytes: int
    digest: str
    def __init__(self, data: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., digest: _Optional[str] = ...) -> None: ...

class GetProblemRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListProblemsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListProblemsResponse(_message.Message):
    __slots__ = ("problems", "next_page_token")
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    problems: _containers.RepeatedCompositeFieldContainer[_problem_pb2.Problem]
    next_page_token: str
    def __init__(self, problems: _Optional[_Iterable[_Union[_problem_pb2.Problem, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetCallerRequest(_message.Message):
    __slots__ = ("with_quotas",)
    WITH_QUOTAS_FIELD_NUMBER: _ClassVar[int]
    with_quotas: bool
    def __init__(self, with_quotas: _Optional[bool] = ...) -> None: ...

class Caller(_message.Message):
    __slots__ = ("user", "scopes", "key_id", "expire_time", "quotas")
    USER_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    user: str
    scopes: _containers.RepeatedScalarFieldContainer[str]
    key_id: str
    expire_time: _timestamp_pb2.Timestamp
    quotas: _containers.RepeatedCompositeFieldContainer[QuotaUse]
    def __init__(self, user: _Optional[str] = ..., scopes: _Optional[_Iterable[str]] = ..., key_id: _Optional[str] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., quotas: _Optional[_Iterable[_Union[QuotaUse, _Mapping]]] = ...) -> None: ...

class QuotaUse(_message.Message):
    __slots__ = ("competition", "limit", "window", "used_count", "next_time")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WINDOW_FIELD_NUMBER: _ClassVar[int]
    USED_COUNT_FIELD_NUMBER: _ClassVar[int]
    NEXT_TIME_FIELD_NUMBER: _ClassVar[int]
    competition: str
    limit: int
    window: _duration_pb2.Duration
    used_count: int
    next_time: _timestamp_pb2.Timestamp
    def __init__(self, competition: _Optional[str] = ..., limit: _Optional[int] = ..., window: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., used_count: _Optional[int] = ..., next_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class GetCompetitionRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListCompetitionsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCompetitionsResponse(_message.Message):
    __slots__ = ("competitions", "next_page_token")
    COMPETITIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    competitions: _containers.RepeatedCompositeFieldContainer[_competition_pb2.Competition]
    next_page_token: str
    def __init__(self, competitions: _Optional[_Iterable[_Union[_competition_pb2.Competition, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetLeaderboardRequest(_message.Message):
    __slots__ = ("competition", "problem", "device", "page_size", "page_token")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    competition: str
    problem: str
    device: str
    page_size: int
    page_token: str
    def __init__(self, competition: _Optional[str] = ..., problem: _Optional[str] = ..., device: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class CreateRejudgeRequest(_message.Message):
    __slots__ = ("rejudge", "request_id")
    REJUDGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    rejudge: _rejudge_pb2.Rejudge
    request_id: str
    def __init__(self, rejudge: _Optional[_Union[_rejudge_pb2.Rejudge, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class GetRejudgeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListRejudgesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRejudgesResponse(_message.Message):
    __slots__ = ("rejudges", "next_page_token")
    REJUDGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rejudges: _containers.RepeatedCompositeFieldContainer[_rejudge_pb2.Rejudge]
    next_page_token: str
    def __init__(self, rejudges: _Optional[_Iterable[_Union[_rejudge_pb2.Rejudge, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ApplyRejudgeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DiscardRejudgeRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class WithdrawSubmissionRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RestoreSubmissionRequest(_message.Message):
    __slots__ = ("name", "reason")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class BanUserRequest(_message.Message):
    __slots__ = ("competition", "user", "reason")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    competition: str
    user: str
    reason: str
    def __init__(self, competition: _Optional[str] = ..., user: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LiftBanRequest(_message.Message):
    __slots__ = ("competition", "user", "reason")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    competition: str
    user: str
    reason: str
    def __init__(self, competition: _Optional[str] = ..., user: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LiftBanResponse(_message.Message):
    __slots__ = ("lifted",)
    LIFTED_FIELD_NUMBER: _ClassVar[int]
    lifted: bool
    def __init__(self, lifted: _Optional[bool] = ...) -> None: ...

class ListBansRequest(_message.Message):
    __slots__ = ("competition",)
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    competition: str
    def __init__(self, competition: _Optional[str] = ...) -> None: ...

class ListBansResponse(_message.Message):
    __slots__ = ("bans",)
    BANS_FIELD_NUMBER: _ClassVar[int]
    bans: _containers.RepeatedCompositeFieldContainer[_competition_pb2.Ban]
    def __init__(self, bans: _Optional[_Iterable[_Union[_competition_pb2.Ban, _Mapping]]] = ...) -> None: ...

class ListCompetitionActionsRequest(_message.Message):
    __slots__ = ("competition", "page_size", "page_token")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    competition: str
    page_size: int
    page_token: str
    def __init__(self, competition: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListCompetitionActionsResponse(_message.Message):
    __slots__ = ("actions", "next_page_token")
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    actions: _containers.RepeatedCompositeFieldContainer[_competition_pb2.CompetitionAction]
    next_page_token: str
    def __init__(self, actions: _Optional[_Iterable[_Union[_competition_pb2.CompetitionAction, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ReloadCompetitionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadCompetitionsResponse(_message.Message):
    __slots__ = ("changes",)
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[_competition_pb2.CompetitionChange]
    def __init__(self, changes: _Optional[_Iterable[_Union[_competition_pb2.CompetitionChange, _Mapping]]] = ...) -> None: ...
