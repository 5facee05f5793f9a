import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from grader.v1 import report_pb2 as _report_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RejudgeMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REJUDGE_METHOD_UNSPECIFIED: _ClassVar[RejudgeMethod]
    REJUDGE_METHOD_FACTS_OR_RUN: _ClassVar[RejudgeMethod]
    REJUDGE_METHOD_RUN: _ClassVar[RejudgeMethod]

class RejudgeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REJUDGE_STATE_UNSPECIFIED: _ClassVar[RejudgeState]
    REJUDGE_STATE_RUNNING: _ClassVar[RejudgeState]
    REJUDGE_STATE_READY: _ClassVar[RejudgeState]
    REJUDGE_STATE_APPLIED: _ClassVar[RejudgeState]
    REJUDGE_STATE_DISCARDED: _ClassVar[RejudgeState]
REJUDGE_METHOD_UNSPECIFIED: RejudgeMethod
REJUDGE_METHOD_FACTS_OR_RUN: RejudgeMethod
REJUDGE_METHOD_RUN: RejudgeMethod
REJUDGE_STATE_UNSPECIFIED: RejudgeState
REJUDGE_STATE_RUNNING: RejudgeState
REJUDGE_STATE_READY: RejudgeState
REJUDGE_STATE_APPLIED: RejudgeState
REJUDGE_STATE_DISCARDED: RejudgeState

class Rejudge(_message.Message):
    __slots__ = ("name", "cause", "problem", "competition", "submissions", "method", "top_count", "device_kind", "fresh_sizes", "sizes_of", "state", "submission_count", "refolded_count", "rerun_count", "pending_count", "failed_count", "changes", "change_count", "pending_runs", "user", "create_time", "end_time")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    SUBMISSIONS_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TOP_COUNT_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    FRESH_SIZES_FIELD_NUMBER: _ClassVar[int]
    SIZES_OF_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    REFOLDED_COUNT_FIELD_NUMBER: _ClassVar[int]
    RERUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_COUNT_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    CHANGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PENDING_RUNS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    name: str
    cause: str
    problem: str
    competition: str
    submissions: _containers.RepeatedScalarFieldContainer[str]
    method: RejudgeMethod
    top_count: int
    device_kind: str
    fresh_sizes: bool
    sizes_of: str
    state: RejudgeState
    submission_count: int
    refolded_count: int
    rerun_count: int
    pending_count: int
    failed_count: int
    changes: _containers.RepeatedCompositeFieldContainer[RejudgeChange]
    change_count: int
    pending_runs: _containers.RepeatedScalarFieldContainer[str]
    user: str
    create_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, name: _Optional[str] = ..., cause: _Optional[str] = ..., problem: _Optional[str] = ..., competition: _Optional[str] = ..., submissions: _Optional[_Iterable[str]] = ..., method: _Optional[_Union[RejudgeMethod, str]] = ..., top_count: _Optional[int] = ..., device_kind: _Optional[str] = ..., fresh_sizes: _Optional[bool] = ..., sizes_of: _Optional[str] = ..., state: _Optional[_Union[RejudgeState, str]] = ..., submission_count: _Optional[int] = ..., refolded_count: _Optional[int] = ..., rerun_count: _Optional[int] = ..., pending_count: _Optional[int] = ..., failed_count: _Optional[int] = ..., changes: _Optional[_Iterable[_Union[RejudgeChange, _Mapping]]] = ..., change_count: _Optional[int] = ..., pending_runs: _Optional[_Iterable[str]] = ..., user: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RejudgeChange(_message.Message):
    __slots__ = ("submission", "user", "before", "after", "rank_before", "rank_after")
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    RANK_BEFORE_FIELD_NUMBER: _ClassVar[int]
    RANK_AFTER_FIELD_NUMBER: _ClassVar[int]
    submission: str
    user: str
    before: Judgement
    after: Judgement
    rank_before: int
    rank_after: int
    def __init__(self, submission: _Optional[str] = ..., user: _Optional[str] = ..., before: _Optional[_Union[Judgement, _Mapping]] = ..., after: _Optional[_Union[Judgement, _Mapping]] = ..., rank_before: _Optional[int] = ..., rank_after: _Optional[int] = ...) -> None: ...

class Judgement(_message.Message):
    __slots__ = ("sequence", "verdict", "reason", "summary", "score", "score_low", "score_high", "problem_digest", "create_time", "rejudge")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SCORE_LOW_FIELD_NUMBER: _ClassVar[int]
    SCORE_HIGH_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    REJUDGE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    verdict: _report_pb2.Verdict
    reason: str
    summary: str
    score: float
    score_low: float
    score_high: float
    problem_digest: str
    create_time: _timestamp_pb2.Timestamp
    rejudge: str
    def __init__(self, sequence: _Optional[int] = ..., verdict: _Optional[_Union[_report_pb2.Verdict, str]] = ..., reason: _Optional[str] = ..., summary: _Optional[str] = ..., score: _Optional[float] = ..., score_low: _Optional[float] = ..., score_high: _Optional[float] = ..., problem_digest: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., rejudge: _Optional[str] = ...) -> None: ...
