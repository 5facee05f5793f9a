import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.rpc import status_pb2 as _status_pb2
from grader.v1 import problem_pb2 as _problem_pb2
from grader.v1 import rejudge_pb2 as _rejudge_pb2
from grader.v1 import report_pb2 as _report_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_TEST: _ClassVar[Mode]
    MODE_BENCHMARK: _ClassVar[Mode]
    MODE_RANKED: _ClassVar[Mode]
    MODE_PROFILE: _ClassVar[Mode]
    MODE_SWEEP: _ClassVar[Mode]
    MODE_SANITIZE: _ClassVar[Mode]

class SubmissionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBMISSION_STATE_UNSPECIFIED: _ClassVar[SubmissionState]
    SUBMISSION_STATE_QUEUED: _ClassVar[SubmissionState]
    SUBMISSION_STATE_RUNNING: _ClassVar[SubmissionState]
    SUBMISSION_STATE_SUCCEEDED: _ClassVar[SubmissionState]
    SUBMISSION_STATE_FAILED: _ClassVar[SubmissionState]
    SUBMISSION_STATE_CANCELLED: _ClassVar[SubmissionState]

class Stage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STAGE_UNSPECIFIED: _ClassVar[Stage]
    STAGE_BUILDING: _ClassVar[Stage]
    STAGE_LOADING: _ClassVar[Stage]
    STAGE_VERIFYING: _ClassVar[Stage]
    STAGE_MEASURING: _ClassVar[Stage]
    STAGE_PROFILING: _ClassVar[Stage]
    STAGE_WAITING: _ClassVar[Stage]
    STAGE_BASELINE: _ClassVar[Stage]
    STAGE_SCREENING: _ClassVar[Stage]
    STAGE_PREPARING: _ClassVar[Stage]
MODE_UNSPECIFIED: Mode
MODE_TEST: Mode
MODE_BENCHMARK: Mode
MODE_RANKED: Mode
MODE_PROFILE: Mode
MODE_SWEEP: Mode
MODE_SANITIZE: Mode
SUBMISSION_STATE_UNSPECIFIED: SubmissionState
SUBMISSION_STATE_QUEUED: SubmissionState
SUBMISSION_STATE_RUNNING: SubmissionState
SUBMISSION_STATE_SUCCEEDED: SubmissionState
SUBMISSION_STATE_FAILED: SubmissionState
SUBMISSION_STATE_CANCELLED: SubmissionState
STAGE_UNSPECIFIED: Stage
STAGE_BUILDING: Stage
STAGE_LOADING: Stage
STAGE_VERIFYING: Stage
STAGE_MEASURING: Stage
STAGE_PROFILING: Stage
STAGE_WAITING: Stage
STAGE_BASELINE: Stage
STAGE_SCREENING: Stage
STAGE_PREPARING: Stage

class Submission(_message.Message):
    __slots__ = ("name", "problem", "language", "sources", "device_kind", "mode", "entry", "state", "report", "error", "attempt_count", "create_time", "start_time", "end_time", "competition", "user", "queue_position", "score", "score_low", "score_high", "judgements", "score_kind", "score_baseline", "sources_removed", "cancel_requested", "sweep", "tags", "parent", "annotations", "precision", "measure_duration", "skip_sanitizer", "cascade", "withdrawal")
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_COUNT_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    COMPETITION_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    QUEUE_POSITION_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SCORE_LOW_FIELD_NUMBER: _ClassVar[int]
    SCORE_HIGH_FIELD_NUMBER: _ClassVar[int]
    JUDGEMENTS_FIELD_NUMBER: _ClassVar[int]
    SCORE_KIND_FIELD_NUMBER: _ClassVar[int]
    SCORE_BASELINE_FIELD_NUMBER: _ClassVar[int]
    SOURCES_REMOVED_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    SWEEP_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    MEASURE_DURATION_FIELD_NUMBER: _ClassVar[int]
    SKIP_SANITIZER_FIELD_NUMBER: _ClassVar[int]
    CASCADE_FIELD_NUMBER: _ClassVar[int]
    WITHDRAWAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    problem: str
    language: str
    sources: _containers.RepeatedCompositeFieldContainer[SourceFile]
    device_kind: str
    mode: Mode
    entry: str
    state: SubmissionState
    report: _report_pb2.Report
    error: _status_pb2.Status
    attempt_count: int
    create_time: _timestamp_pb2.Timestamp
    start_time: _timestamp_pb2.Timestamp
    end_time: _timestamp_pb2.Timestamp
    competition: str
    user: str
    queue_position: QueuePosition
    score: float
    score_low: float
    score_high: float
    judgements: _containers.RepeatedCompositeFieldContainer[_rejudge_pb2.Judgement]
    score_kind: _report_pb2.ScoreKind
    score_baseline: str
    sources_removed: bool
    cancel_requested: bool
    sweep: _problem_pb2.Sweep
    tags: _containers.RepeatedScalarFieldContainer[str]
    parent: str
    annotations: _containers.ScalarMap[str, str]
    precision: float
    measure_duration: _duration_pb2.Duration
    skip_sanitizer: bool
    cascade: bool
    withdrawal: Withdrawal
    def __init__(self, name: _Optional[str] = ..., problem: _Optional[str] = ..., language: _Optional[str] = ..., sources: _Optional[_Iterable[_Union[SourceFile, _Mapping]]] = ..., device_kind: _Optional[str] = ..., mode: _Optional[_Union[Mode, str]] = ..., entry: _Optional[str] = ..., state: _Optional[_Union[SubmissionState, str]] = ..., report: _Optional[_Union[_report_pb2.Report, _Mapping]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping]] = ..., attempt_count: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., competition: _Optional[str] = ..., user: _Optional[str] = ..., queue_position: _Optional[_Union[QueuePosition, _Mapping]] = ..., score: _Optional[float] = ..., score_low: _Optional[float] = ..., score_high: _Optional[float] = ..., judgements: _Optional[_Iterable[_Union[_rejudge_pb2.Judgement, _Mapping]]] = ..., score_kind: _Optional[_Union[_report_pb2.ScoreKind, str]] = ..., score_baseline: _Optional[str] = ..., sources_removed: _Optional[bool] = ..., cancel_requested: _Optional[bool] = ..., sweep: _Optional[_Union[_problem_pb2.Sweep, _Mapping]] = ..., tags: _Optional[_Iterable[str]] = ..., parent: _Optional[str] = ..., annotations: _Optional[_Mapping[str, str]] = ..., precision: _Optional[float] = ..., measure_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., skip_sanitizer: _Optional[bool] = ..., cascade: _Optional[bool] = ..., withdrawal: _Optional[_Union[Withdrawal, _Mapping]] = ...) -> None: ...

class Withdrawal(_message.Message):
    __slots__ = ("create_time", "user", "reason")
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    create_time: _timestamp_pb2.Timestamp
    user: str
    reason: str
    def __init__(self, create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., user: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class QueuePosition(_message.Message):
    __slots__ = ("ahead_count", "estimated_duration", "no_worker")
    AHEAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_DURATION_FIELD_NUMBER: _ClassVar[int]
    NO_WORKER_FIELD_NUMBER: _ClassVar[int]
    ahead_count: int
    estimated_duration: _duration_pb2.Duration
    no_worker: bool
    def __init__(self, ahead_count: _Optional[int] = ..., estimated_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., no_worker: _Optional[bool] = ...) -> None: ...

class SourceFile(_message.Message):
    __slots__ = ("path", "content")
    PATH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    path: str
    content: str
    def __init__(self, path: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class SubmissionEvent(_message.Message):
    __slots__ = ("sequence", "event_time", "attempt", "submission", "build", "trial", "measurement", "progress", "environment", "load", "queue_position")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SUBMISSION_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    TRIAL_FIELD_NUMBER: _ClassVar[int]
    MEASUREMENT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    QUEUE_POSITION_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    event_time: _timestamp_pb2.Timestamp
    attempt: int
    submission: Submission
    build: _report_pb2.Build
    trial: _report_pb2.Trial
    measurement: _report_pb2.Measurement
    progress: Progress
    environment: _report_pb2.Environment
    load: _report_pb2.Load
    queue_position: QueuePosition
    def __init__(self, sequence: _Optional[int] = ..., event_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempt: _Optional[int] = ..., submission: _Optional[_Union[Submission, _Mapping]] = ..., build: _Optional[_Union[_report_pb2.Build, _Mapping]] = ..., trial: _Optional[_Union[_report_pb2.Trial, _Mapping]] = ..., measurement: _Optional[_Union[_report_pb2.Measurement, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., environment: _Optional[_Union[_report_pb2.Environment, _Mapping]] = ..., load: _Optional[_Union[_report_pb2.Load, _Mapping]] = ..., queue_position: _Optional[_Union[QueuePosition, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("stage", "workload_id", "process", "process_count")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    stage: Stage
    workload_id: str
    process: int
    process_count: int
    def __init__(self, stage: _Optional[_Union[Stage, str]] = ..., workload_id: _Optional[str] = ..., process: _Optional[int] = ..., process_count: _Optional[int] = ...) -> None: ...
