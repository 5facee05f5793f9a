import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from grader.v1 import report_pb2 as _report_pb2
from grader.v1 import submission_pb2 as _submission_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TieRule(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIE_RULE_UNSPECIFIED: _ClassVar[TieRule]
    TIE_RULE_SHARE: _ClassVar[TieRule]
    TIE_RULE_EARLIEST: _ClassVar[TieRule]

class Visibility(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VISIBILITY_UNSPECIFIED: _ClassVar[Visibility]
    VISIBILITY_PRIVATE: _ClassVar[Visibility]
    VISIBILITY_AFTER_END: _ClassVar[Visibility]

class CompetitionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPETITION_STATE_UNSPECIFIED: _ClassVar[CompetitionState]
    COMPETITION_STATE_UPCOMING: _ClassVar[CompetitionState]
    COMPETITION_STATE_OPEN: _ClassVar[CompetitionState]
    COMPETITION_STATE_FROZEN: _ClassVar[CompetitionState]
    COMPETITION_STATE_ENDED: _ClassVar[CompetitionState]

class CompetitionChangeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMPETITION_CHANGE_KIND_UNSPECIFIED: _ClassVar[CompetitionChangeKind]
    COMPETITION_CHANGE_KIND_ADDED: _ClassVar[CompetitionChangeKind]
    COMPETITION_CHANGE_KIND_CHANGED: _ClassVar[CompetitionChangeKind]
    COMPETITION_CHANGE_KIND_REMOVED: _ClassVar[CompetitionChangeKind]
TIE_RULE_UNSPECIFIED: TieRule
TIE_RULE_SHARE: TieRule
TIE_RULE_EARLIEST: TieRule
VISIBILITY_UNSPECIFIED: Visibility
VISIBILITY_PRIVATE: Visibility
VISIBILITY_AFTER_END: Visibility
COMPETITION_STATE_UNSPECIFIED: CompetitionState
COMPETITION_STATE_UPCOMING: CompetitionState
COMPETITION_STATE_OPEN: CompetitionState
COMPETITION_STATE_FROZEN: CompetitionState
COMPETITION_STATE_ENDED: CompetitionState
COMPETITION_CHANGE_KIND_UNSPECIFIED: CompetitionChangeKind
COMPETITION_CHANGE_KIND_ADDED: CompetitionChangeKind
COMPETITION_CHANGE_KIND_CHANGED: CompetitionChangeKind
COMPETITION_CHANGE_KIND_REMOVED: CompetitionChangeKind

class Competition(_message.Message):
    __slots__ = ("name", "title", "statement", "problems", "device_kinds", "start_time", "end_time", "freeze_time", "mode", "hourly_limit", "daily_limit", "score_kind", "baseline", "tie_rule", "visibility", "process_count", "secret_workload_counts", "state")
    class SecretWorkloadCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KINDS_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    FREEZE_TIME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    HOURLY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    DAILY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    SCORE_KIND_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    TIE_RULE_FIELD_NUMBER: _ClassVar[int]
    VISIBILITY_FIELD_NUMBER: _ClassVar[int]
    PROCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    SECRET_WORKLOAD_COUNTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    title: str
    statement: str
    problems: _containers.RepeatedScalarFieldContainer[str]
    device_kinds: _containers.RepeatedScalarFieldContainer[str]
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    freeze_time: _timestamp_pb2.Timestamp
    mode: _submission_pb2.Mode
    hourly_limit: int
    daily_limit: int
    score_kind: _report_pb2.ScoreKind
    baseline: str
    tie_rule: TieRule
    visibility: Visibility
    process_count: int
    secret_workload_counts: _containers.ScalarMap[str, int]
    state: CompetitionState
    def __init__(self, name: _Optional[str] = ..., title: _Optional[str] = ..., statement: _Optional[str] = ..., problems: _Optional[_Iterable[str]] = ..., device_kinds: _Optional[_Iterable[str]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., freeze_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., mode: _Optional[_Union[_submission_pb2.Mode, str]] = ..., hourly_limit: _Optional[int] = ..., daily_limit: _Optional[int] = ..., score_kind: _Optional[_Union[_report_pb2.ScoreKind, str]] = ..., baseline: _Optional[str] = ..., tie_rule: _Optional[_Union[TieRule, str]] = ..., visibility: _Optional[_Union[Visibility, str]] = ..., process_count: _Optional[int] = ..., secret_workload_counts: _Optional[_Mapping[str, int]] = ..., state: _Optional[_Union[CompetitionState, str]] = ...) -> None: ...

class Ban(_message.Message):
    __slots__ = ("competition", "user", "reason", "create_time", "administrator", "submission_count")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    ADMINISTRATOR_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    competition: str
    user: str
    reason: str
    create_time: _timestamp_pb2.Timestamp
    administrator: str
    submission_count: int
    def __init__(self, competition: _Optional[str] = ..., user: _Optional[str] = ..., reason: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., administrator: _Optional[str] = ..., submission_count: _Optional[int] = ...) -> None: ...

class CompetitionAction(_message.Message):
    __slots__ = ("competition", "action", "user", "subject", "reason", "create_time")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    competition: str
    action: str
    user: str
    subject: str
    reason: str
    create_time: _timestamp_pb2.Timestamp
    def __init__(self, competition: _Optional[str] = ..., action: _Optional[str] = ..., user: _Optional[str] = ..., subject: _Optional[str] = ..., reason: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CompetitionChange(_message.Message):
    __slots__ = ("competition", "kind", "keys")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    competition: str
    kind: CompetitionChangeKind
    keys: _containers.RepeatedCompositeFieldContainer[CompetitionKeyChange]
    def __init__(self, competition: _Optional[str] = ..., kind: _Optional[_Union[CompetitionChangeKind, str]] = ..., keys: _Optional[_Iterable[_Union[CompetitionKeyChange, _Mapping]]] = ...) -> None: ...

class CompetitionKeyChange(_message.Message):
    __slots__ = ("key", "before", "after")
    KEY_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    key: str
    before: str
    after: str
    def __init__(self, key: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ...) -> None: ...

class Leaderboard(_message.Message):
    __slots__ = ("competition", "problem", "device", "devices", "entries", "entry_count", "freeze_time", "official", "score_kind", "baseline", "next_page_token", "rule", "other_rule_count")
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ENTRY_COUNT_FIELD_NUMBER: _ClassVar[int]
    FREEZE_TIME_FIELD_NUMBER: _ClassVar[int]
    OFFICIAL_FIELD_NUMBER: _ClassVar[int]
    SCORE_KIND_FIELD_NUMBER: _ClassVar[int]
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    OTHER_RULE_COUNT_FIELD_NUMBER: _ClassVar[int]
    competition: str
    problem: str
    device: str
    devices: _containers.RepeatedScalarFieldContainer[str]
    entries: _containers.RepeatedCompositeFieldContainer[LeaderboardEntry]
    entry_count: int
    freeze_time: _timestamp_pb2.Timestamp
    official: bool
    score_kind: _report_pb2.ScoreKind
    baseline: str
    next_page_token: str
    rule: str
    other_rule_count: int
    def __init__(self, competition: _Optional[str] = ..., problem: _Optional[str] = ..., device: _Optional[str] = ..., devices: _Optional[_Iterable[str]] = ..., entries: _Optional[_Iterable[_Union[LeaderboardEntry, _Mapping]]] = ..., entry_count: _Optional[int] = ..., freeze_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., official: _Optional[bool] = ..., score_kind: _Optional[_Union[_report_pb2.ScoreKind, str]] = ..., baseline: _Optional[str] = ..., next_page_token: _Optional[str] = ..., rule: _Optional[str] = ..., other_rule_count: _Optional[int] = ...) -> None: ...

class LeaderboardEntry(_message.Message):
    __slots__ = ("rank", "user", "submission", "score", "score_low", "score_high", "create_time", "problem_count", "flags", "language", "submission_count")
    RANK_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SCORE_LOW_FIELD_NUMBER: _ClassVar[int]
    SCORE_HIGH_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_COUNT_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_COUNT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    user: str
    submission: str
    score: float
    score_low: float
    score_high: float
    create_time: _timestamp_pb2.Timestamp
    problem_count: int
    flags: _containers.RepeatedScalarFieldContainer[str]
    language: str
    submission_count: int
    def __init__(self, rank: _Optional[int] = ..., user: _Optional[str] = ..., submission: _Optional[str] = ..., score: _Optional[float] = ..., score_low: _Optional[float] = ..., score_high: _Optional[float] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., problem_count: _Optional[int] = ..., flags: _Optional[_Iterable[str]] = ..., language: _Optional[str] = ..., submission_count: _Optional[int] = ...) -> None: ...
