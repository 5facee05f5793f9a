import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ReportView(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPORT_VIEW_UNSPECIFIED: _ClassVar[ReportView]
    REPORT_VIEW_BASIC: _ClassVar[ReportView]
    REPORT_VIEW_FULL: _ClassVar[ReportView]

class ProfileToolOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROFILE_TOOL_OUTCOME_UNSPECIFIED: _ClassVar[ProfileToolOutcome]
    PROFILE_TOOL_OUTCOME_RAN: _ClassVar[ProfileToolOutcome]
    PROFILE_TOOL_OUTCOME_FAILED: _ClassVar[ProfileToolOutcome]
    PROFILE_TOOL_OUTCOME_UNAVAILABLE: _ClassVar[ProfileToolOutcome]

class SanitizerFindingKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANITIZER_FINDING_KIND_UNSPECIFIED: _ClassVar[SanitizerFindingKind]
    SANITIZER_FINDING_KIND_OUT_OF_BOUNDS: _ClassVar[SanitizerFindingKind]
    SANITIZER_FINDING_KIND_UNINITIALISED_READ: _ClassVar[SanitizerFindingKind]
    SANITIZER_FINDING_KIND_RACE: _ClassVar[SanitizerFindingKind]
    SANITIZER_FINDING_KIND_DIVERGENT_BARRIER: _ClassVar[SanitizerFindingKind]
    SANITIZER_FINDING_KIND_MISALIGNED: _ClassVar[SanitizerFindingKind]
    SANITIZER_FINDING_KIND_INACTIVE_LANE: _ClassVar[SanitizerFindingKind]
    SANITIZER_FINDING_KIND_UNCHECKED_LAUNCH: _ClassVar[SanitizerFindingKind]

class MemoryAccess(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMORY_ACCESS_UNSPECIFIED: _ClassVar[MemoryAccess]
    MEMORY_ACCESS_GLOBAL_LOAD: _ClassVar[MemoryAccess]
    MEMORY_ACCESS_GLOBAL_STORE: _ClassVar[MemoryAccess]
    MEMORY_ACCESS_GLOBAL_ATOMIC: _ClassVar[MemoryAccess]
    MEMORY_ACCESS_SHARED_LOAD: _ClassVar[MemoryAccess]
    MEMORY_ACCESS_SHARED_STORE: _ClassVar[MemoryAccess]
    MEMORY_ACCESS_SHARED_ATOMIC: _ClassVar[MemoryAccess]

class SanitizerSeverity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SANITIZER_SEVERITY_UNSPECIFIED: _ClassVar[SanitizerSeverity]
    SANITIZER_SEVERITY_ERROR: _ClassVar[SanitizerSeverity]
    SANITIZER_SEVERITY_WARNING: _ClassVar[SanitizerSeverity]
    SANITIZER_SEVERITY_INFO: _ClassVar[SanitizerSeverity]

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_ACCEPTED: _ClassVar[Verdict]
    VERDICT_COMPILE_ERROR: _ClassVar[Verdict]
    VERDICT_RUNTIME_ERROR: _ClassVar[Verdict]
    VERDICT_TIME_LIMIT_EXCEEDED: _ClassVar[Verdict]
    VERDICT_MEMORY_LIMIT_EXCEEDED: _ClassVar[Verdict]
    VERDICT_WRONG_ANSWER: _ClassVar[Verdict]
    VERDICT_DISQUALIFIED: _ClassVar[Verdict]
    VERDICT_OUTPUT_LIMIT_EXCEEDED: _ClassVar[Verdict]

class Step(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STEP_UNSPECIFIED: _ClassVar[Step]
    STEP_QUEUED: _ClassVar[Step]
    STEP_DEVICE: _ClassVar[Step]
    STEP_BUILDER: _ClassVar[Step]
    STEP_BOX: _ClassVar[Step]
    STEP_COMPILE: _ClassVar[Step]
    STEP_ARTIFACT: _ClassVar[Step]
    STEP_LOAD: _ClassVar[Step]
    STEP_BASELINE: _ClassVar[Step]
    STEP_VERIFY: _ClassVar[Step]
    STEP_MEASURE: _ClassVar[Step]
    STEP_PROFILE: _ClassVar[Step]
    STEP_CLOSE: _ClassVar[Step]
    STEP_SCREEN: _ClassVar[Step]

class ScreeningOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCREENING_OUTCOME_UNSPECIFIED: _ClassVar[ScreeningOutcome]
    SCREENING_OUTCOME_PASSED: _ClassVar[ScreeningOutcome]
    SCREENING_OUTCOME_FAILED: _ClassVar[ScreeningOutcome]
    SCREENING_OUTCOME_INCONCLUSIVE: _ClassVar[ScreeningOutcome]
    SCREENING_OUTCOME_SKIPPED: _ClassVar[ScreeningOutcome]

class MeasurementEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEASUREMENT_END_UNSPECIFIED: _ClassVar[MeasurementEnd]
    MEASUREMENT_END_WIDTH: _ClassVar[MeasurementEnd]
    MEASUREMENT_END_FLOOR: _ClassVar[MeasurementEnd]
    MEASUREMENT_END_TURNS: _ClassVar[MeasurementEnd]
    MEASUREMENT_END_BUDGET: _ClassVar[MeasurementEnd]

class BuildOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BUILD_OUTCOME_UNSPECIFIED: _ClassVar[BuildOutcome]
    BUILD_OUTCOME_BUILT: _ClassVar[BuildOutcome]
    BUILD_OUTCOME_REJECTED: _ClassVar[BuildOutcome]
    BUILD_OUTCOME_TIMED_OUT: _ClassVar[BuildOutcome]
    BUILD_OUTCOME_OUT_OF_MEMORY: _ClassVar[BuildOutcome]
    BUILD_OUTCOME_OUTPUT_EXCEEDED: _ClassVar[BuildOutcome]

class LoadOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOAD_OUTCOME_UNSPECIFIED: _ClassVar[LoadOutcome]
    LOAD_OUTCOME_LOADED: _ClassVar[LoadOutcome]
    LOAD_OUTCOME_ENTRY_NOT_FOUND: _ClassVar[LoadOutcome]
    LOAD_OUTCOME_RAISED: _ClassVar[LoadOutcome]
    LOAD_OUTCOME_CRASHED: _ClassVar[LoadOutcome]
    LOAD_OUTCOME_TIMED_OUT: _ClassVar[LoadOutcome]

class TrialPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRIAL_PHASE_UNSPECIFIED: _ClassVar[TrialPhase]
    TRIAL_PHASE_VERIFY: _ClassVar[TrialPhase]
    TRIAL_PHASE_CERTIFY: _ClassVar[TrialPhase]

class TrialOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRIAL_OUTCOME_UNSPECIFIED: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_PASSED: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_MISMATCHED: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_UNWRITTEN: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_CRASHED: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_TIMED_OUT: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_NON_FINITE: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_WRONG_SHAPE: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_WRONG_DTYPE: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_INPUT_MODIFIED: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_OUT_OF_BOUNDS: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_RAISED: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_DEVICE_FAULT: _ClassVar[TrialOutcome]
    TRIAL_OUTCOME_OUT_OF_MEMORY: _ClassVar[TrialOutcome]

class Clock(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CLOCK_UNSPECIFIED: _ClassVar[Clock]
    CLOCK_DEVICE_EVENTS: _ClassVar[Clock]
    CLOCK_HOST: _ClassVar[Clock]

class ScoreKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCORE_KIND_UNSPECIFIED: _ClassVar[ScoreKind]
    SCORE_KIND_SPEEDUP: _ClassVar[ScoreKind]
    SCORE_KIND_TIME: _ClassVar[ScoreKind]
REPORT_VIEW_UNSPECIFIED: ReportView
REPORT_VIEW_BASIC: ReportView
REPORT_VIEW_FULL: ReportView
PROFILE_TOOL_OUTCOME_UNSPECIFIED: ProfileToolOutcome
PROFILE_TOOL_OUTCOME_RAN: ProfileToolOutcome
PROFILE_TOOL_OUTCOME_FAILED: ProfileToolOutcome
PROFILE_TOOL_OUTCOME_UNAVAILABLE: ProfileToolOutcome
SANITIZER_FINDING_KIND_UNSPECIFIED: SanitizerFindingKind
SANITIZER_FINDING_KIND_OUT_OF_BOUNDS: SanitizerFindingKind
SANITIZER_FINDING_KIND_UNINITIALISED_READ: SanitizerFindingKind
SANITIZER_FINDING_KIND_RACE: SanitizerFindingKind
SANITIZER_FINDING_KIND_DIVERGENT_BARRIER: SanitizerFindingKind
SANITIZER_FINDING_KIND_MISALIGNED: SanitizerFindingKind
SANITIZER_FINDING_KIND_INACTIVE_LANE: SanitizerFindingKind
SANITIZER_FINDING_KIND_UNCHECKED_LAUNCH: SanitizerFindingKind
MEMORY_ACCESS_UNSPECIFIED: MemoryAccess
MEMORY_ACCESS_GLOBAL_LOAD: MemoryAccess
MEMORY_ACCESS_GLOBAL_STORE: MemoryAccess
MEMORY_ACCESS_GLOBAL_ATOMIC: MemoryAccess
MEMORY_ACCESS_SHARED_LOAD: MemoryAccess
MEMORY_ACCESS_SHARED_STORE: MemoryAccess
MEMORY_ACCESS_SHARED_ATOMIC: MemoryAccess
SANITIZER_SEVERITY_UNSPECIFIED: SanitizerSeverity
SANITIZER_SEVERITY_ERROR: SanitizerSeverity
SANITIZER_SEVERITY_WARNING: SanitizerSeverity
SANITIZER_SEVERITY_INFO: SanitizerSeverity
VERDICT_UNSPECIFIED: Verdict
VERDICT_ACCEPTED: Verdict
VERDICT_COMPILE_ERROR: Verdict
VERDICT_RUNTIME_ERROR: Verdict
VERDICT_TIME_LIMIT_EXCEEDED: Verdict
VERDICT_MEMORY_LIMIT_EXCEEDED: Verdict
VERDICT_WRONG_ANSWER: Verdict
VERDICT_DISQUALIFIED: Verdict
VERDICT_OUTPUT_LIMIT_EXCEEDED: Verdict
STEP_UNSPECIFIED: Step
STEP_QUEUED: Step
STEP_DEVICE: Step
STEP_BUILDER: Step
STEP_BOX: Step
STEP_COMPILE: Step
STEP_ARTIFACT: Step
STEP_LOAD: Step
STEP_BASELINE: Step
STEP_VERIFY: Step
STEP_MEASURE: Step
STEP_PROFILE: Step
STEP_CLOSE: Step
STEP_SCREEN: Step
SCREENING_OUTCOME_UNSPECIFIED: ScreeningOutcome
SCREENING_OUTCOME_PASSED: ScreeningOutcome
SCREENING_OUTCOME_FAILED: ScreeningOutcome
SCREENING_OUTCOME_INCONCLUSIVE: ScreeningOutcome
SCREENING_OUTCOME_SKIPPED: ScreeningOutcome
MEASUREMENT_END_UNSPECIFIED: MeasurementEnd
MEASUREMENT_END_WIDTH: MeasurementEnd
MEASUREMENT_END_FLOOR: MeasurementEnd
MEASUREMENT_END_TURNS: MeasurementEnd
MEASUREMENT_END_BUDGET: MeasurementEnd
BUILD_OUTCOME_UNSPECIFIED: BuildOutcome
BUILD_OUTCOME_BUILT: BuildOutcome
BUILD_OUTCOME_REJECTED: BuildOutcome
BUILD_OUTCOME_TIMED_OUT: BuildOutcome
BUILD_OUTCOME_OUT_OF_MEMORY: BuildOutcome
BUILD_OUTCOME_OUTPUT_EXCEEDED: BuildOutcome
LOAD_OUTCOME_UNSPECIFIED: LoadOutcome
LOAD_OUTCOME_LOADED: LoadOutcome
LOAD_OUTCOME_ENTRY_NOT_FOUND: LoadOutcome
LOAD_OUTCOME_RAISED: LoadOutcome
LOAD_OUTCOME_CRASHED: LoadOutcome
LOAD_OUTCOME_TIMED_OUT: LoadOutcome
TRIAL_PHASE_UNSPECIFIED: TrialPhase
TRIAL_PHASE_VERIFY: TrialPhase
TRIAL_PHASE_CERTIFY: TrialPhase
TRIAL_OUTCOME_UNSPECIFIED: TrialOutcome
TRIAL_OUTCOME_PASSED: TrialOutcome
TRIAL_OUTCOME_MISMATCHED: TrialOutcome
TRIAL_OUTCOME_UNWRITTEN: TrialOutcome
TRIAL_OUTCOME_CRASHED: TrialOutcome
TRIAL_OUTCOME_TIMED_OUT: TrialOutcome
TRIAL_OUTCOME_NON_FINITE: TrialOutcome
TRIAL_OUTCOME_WRONG_SHAPE: TrialOutcome
TRIAL_OUTCOME_WRONG_DTYPE: TrialOutcome
TRIAL_OUTCOME_INPUT_MODIFIED: TrialOutcome
TRIAL_OUTCOME_OUT_OF_BOUNDS: TrialOutcome
TRIAL_OUTCOME_RAISED: TrialOutcome
TRIAL_OUTCOME_DEVICE_FAULT: TrialOutcome
TRIAL_OUTCOME_OUT_OF_MEMORY: TrialOutcome
CLOCK_UNSPECIFIED: Clock
CLOCK_DEVICE_EVENTS: Clock
CLOCK_HOST: Clock
SCORE_KIND_UNSPECIFIED: ScoreKind
SCORE_KIND_SPEEDUP: ScoreKind
SCORE_KIND_TIME: ScoreKind

class Report(_message.Message):
    __slots__ = ("verdict", "reason", "summary", "speedups", "build", "trials", "measurements", "environment", "flags", "output", "libraries", "process_count", "rule", "profile", "timeline", "cached_from", "exit_code", "signal", "screening")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SPEEDUPS_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    TRIALS_FIELD_NUMBER: _ClassVar[int]
    MEASUREMENTS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    LIBRARIES_FIELD_NUMBER: _ClassVar[int]
    PROCESS_COUNT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    TIMELINE_FIELD_NUMBER: _ClassVar[int]
    CACHED_FROM_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    SCREENING_FIELD_NUMBER: _ClassVar[int]
    verdict: Verdict
    reason: str
    summary: str
    speedups: _containers.RepeatedCompositeFieldContainer[Speedup]
    build: Build
    trials: _containers.RepeatedCompositeFieldContainer[Trial]
    measurements: _containers.RepeatedCompositeFieldContainer[Measurement]
    environment: Environment
    flags: _containers.RepeatedScalarFieldContainer[str]
    output: str
    libraries: _containers.RepeatedScalarFieldContainer[str]
    process_count: int
    rule: str
    profile: Profile
    timeline: _containers.RepeatedCompositeFieldContainer[Span]
    cached_from: str
    exit_code: int
    signal: int
    screening: Screening
    def __init__(self, verdict: _Optional[_Union[Verdict, str]] = ..., reason: _Optional[str] = ..., summary: _Optional[str] = ..., speedups: _Optional[_Iterable[_Union[Speedup, _Mapping]]] = ..., build: _Optional[_Union[Build, _Mapping]] = ..., trials: _Optional[_Iterable[_Union[Trial, _Mapping]]] = ..., measurements: _Optional[_Iterable[_Union[Measurement, _Mapping]]] = ..., environment: _Optional[_Union[Environment, _Mapping]] = ..., flags: _Optional[_Iterable[str]] = ..., output: _Optional[str] = ..., libraries: _Optional[_Iterable[str]] = ..., process_count: _Optional[int] = ..., rule: _Optional[str] = ..., profile: _Optional[_Union[Profile, _Mapping]] = ..., timeline: _Optional[_Iterable[_Union[Span, _Mapping]]] = ..., cached_from: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., screening: _Optional[_Union[Screening, _Mapping]] = ...) -> None: ...

class Screening(_message.Message):
    __slots__ = ("outcome", "detail", "workload_count", "duration")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    outcome: ScreeningOutcome
    detail: str
    workload_count: int
    duration: _duration_pb2.Duration
    def __init__(self, outcome: _Optional[_Union[ScreeningOutcome, str]] = ..., detail: _Optional[str] = ..., workload_count: _Optional[int] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Span(_message.Message):
    __slots__ = ("step", "begin", "duration")
    STEP_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    step: Step
    begin: _duration_pb2.Duration
    duration: _duration_pb2.Duration
    def __init__(self, step: _Optional[_Union[Step, str]] = ..., begin: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Profile(_message.Message):
    __slots__ = ("tools", "workload_id", "architecture", "kernels", "launches", "remarks", "findings", "access_counts")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    LAUNCHES_FIELD_NUMBER: _ClassVar[int]
    REMARKS_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    ACCESS_COUNTS_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[ProfileTool]
    workload_id: str
    architecture: str
    kernels: _containers.RepeatedCompositeFieldContainer[KernelUse]
    launches: _containers.RepeatedCompositeFieldContainer[KernelLaunch]
    remarks: _containers.RepeatedScalarFieldContainer[str]
    findings: _containers.RepeatedCompositeFieldContainer[SanitizerFinding]
    access_counts: AccessCounts
    def __init__(self, tools: _Optional[_Iterable[_Union[ProfileTool, _Mapping]]] = ..., workload_id: _Optional[str] = ..., architecture: _Optional[str] = ..., kernels: _Optional[_Iterable[_Union[KernelUse, _Mapping]]] = ..., launches: _Optional[_Iterable[_Union[KernelLaunch, _Mapping]]] = ..., remarks: _Optional[_Iterable[str]] = ..., findings: _Optional[_Iterable[_Union[SanitizerFinding, _Mapping]]] = ..., access_counts: _Optional[_Union[AccessCounts, _Mapping]] = ...) -> None: ...

class AccessCounts(_message.Message):
    __slots__ = ("lines", "counted_blocks", "blocks", "partial")
    LINES_FIELD_NUMBER: _ClassVar[int]
    COUNTED_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[LineCounts]
    counted_blocks: int
    blocks: int
    partial: bool
    def __init__(self, lines: _Optional[_Iterable[_Union[LineCounts, _Mapping]]] = ..., counted_blocks: _Optional[int] = ..., blocks: _Optional[int] = ..., partial: _Optional[bool] = ...) -> None: ...

class LineCounts(_message.Message):
    __slots__ = ("path", "line", "access", "requests", "transactions", "least_transactions", "active_lanes", "requested_bytes")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    ACCESS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    LEAST_TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_LANES_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BYTES_FIELD_NUMBER: _ClassVar[int]
    path: str
    line: int
    access: MemoryAccess
    requests: int
    transactions: int
    least_transactions: int
    active_lanes: int
    requested_bytes: int
    def __init__(self, path: _Optional[str] = ..., line: _Optional[int] = ..., access: _Optional[_Union[MemoryAccess, str]] = ..., requests: _Optional[int] = ..., transactions: _Optional[int] = ..., least_transactions: _Optional[int] = ..., active_lanes: _Optional[int] = ..., requested_bytes: _Optional[int] = ...) -> None: ...

class SanitizerFinding(_message.Message):
    __slots__ = ("kind", "severity", "message", "path", "line", "other_path", "other_line", "memory", "block", "thread", "count")
    KIND_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    OTHER_PATH_FIELD_NUMBER: _ClassVar[int]
    OTHER_LINE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    THREAD_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    kind: SanitizerFindingKind
    severity: SanitizerSeverity
    message: str
    path: str
    line: int
    other_path: str
    other_line: int
    memory: str
    block: _containers.RepeatedScalarFieldContainer[int]
    thread: _containers.RepeatedScalarFieldContainer[int]
    count: int
    def __init__(self, kind: _Optional[_Union[SanitizerFindingKind, str]] = ..., severity: _Optional[_Union[SanitizerSeverity, str]] = ..., message: _Optional[str] = ..., path: _Optional[str] = ..., line: _Optional[int] = ..., other_path: _Optional[str] = ..., other_line: _Optional[int] = ..., memory: _Optional[str] = ..., block: _Optional[_Iterable[int]] = ..., thread: _Optional[_Iterable[int]] = ..., count: _Optional[int] = ...) -> None: ...

class ProfileTool(_message.Message):
    __slots__ = ("name", "outcome", "detail")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    name: str
    outcome: ProfileToolOutcome
    detail: str
    def __init__(self, name: _Optional[str] = ..., outcome: _Optional[_Union[ProfileToolOutcome, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class KernelLaunch(_message.Message):
    __slots__ = ("kernel", "grid", "block", "shared_bytes", "count", "total_duration")
    KERNEL_FIELD_NUMBER: _ClassVar[int]
    GRID_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    SHARED_BYTES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_DURATION_FIELD_NUMBER: _ClassVar[int]
    kernel: str
    grid: _containers.RepeatedScalarFieldContainer[int]
    block: _containers.RepeatedScalarFieldContainer[int]
    shared_bytes: int
    count: int
    total_duration: _duration_pb2.Duration
    def __init__(self, kernel: _Optional[str] = ..., grid: _Optional[_Iterable[int]] = ..., block: _Optional[_Iterable[int]] = ..., shared_bytes: _Optional[int] = ..., count: _Optional[int] = ..., total_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Build(_message.Message):
    __slots__ = ("outcome", "log", "log_truncated", "build_duration", "reason", "cached", "headers", "fallback", "kernels", "remarks", "diagnostics", "argument_order", "mismatch", "unbuilt")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    LOG_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    BUILD_DURATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CACHED_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    FALLBACK_FIELD_NUMBER: _ClassVar[int]
    KERNELS_FIELD_NUMBER: _ClassVar[int]
    REMARKS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_ORDER_FIELD_NUMBER: _ClassVar[int]
    MISMATCH_FIELD_NUMBER: _ClassVar[int]
    UNBUILT_FIELD_NUMBER: _ClassVar[int]
    outcome: BuildOutcome
    log: str
    log_truncated: bool
    build_duration: _duration_pb2.Duration
    reason: str
    cached: bool
    headers: str
    fallback: str
    kernels: _containers.RepeatedCompositeFieldContainer[KernelUse]
    remarks: _containers.RepeatedScalarFieldContainer[str]
    diagnostics: _containers.RepeatedCompositeFieldContainer[CompilerDiagnostic]
    argument_order: _containers.RepeatedScalarFieldContainer[int]
    mismatch: str
    unbuilt: str
    def __init__(self, outcome: _Optional[_Union[BuildOutcome, str]] = ..., log: _Optional[str] = ..., log_truncated: _Optional[bool] = ..., build_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., reason: _Optional[str] = ..., cached: _Optional[bool] = ..., headers: _Optional[str] = ..., fallback: _Optional[str] = ..., kernels: _Optional[_Iterable[_Union[KernelUse, _Mapping]]] = ..., remarks: _Optional[_Iterable[str]] = ..., diagnostics: _Optional[_Iterable[_Union[CompilerDiagnostic, _Mapping]]] = ..., argument_order: _Optional[_Iterable[int]] = ..., mismatch: _Optional[str] = ..., unbuilt: _Optional[str] = ...) -> None: ...

class CompilerDiagnostic(_message.Message):
    __slots__ = ("file", "line", "column", "severity", "message")
    FILE_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    file: str
    line: int
    column: int
    severity: str
    message: str
    def __init__(self, file: _Optional[str] = ..., line: _Optional[int] = ..., column: _Optional[int] = ..., severity: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class KernelUse(_message.Message):
    __slots__ = ("name", "registers", "shared_bytes", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "constant_bytes", "double_instruction_count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REGISTERS_FIELD_NUMBER: _ClassVar[int]
    SHARED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STACK_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILL_STORE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPILL_LOAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONSTANT_BYTES_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_INSTRUCTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    registers: int
    shared_bytes: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    constant_bytes: int
    double_instruction_count: int
    def __init__(self, name: _Optional[str] = ..., registers: _Optional[int] = ..., shared_bytes: _Optional[int] = ..., stack_bytes: _Optional[int] = ..., spill_store_bytes: _Optional[int] = ..., spill_load_bytes: _Optional[int] = ..., constant_bytes: _Optional[int] = ..., double_instruction_count: _Optional[int] = ...) -> None: ...

class Load(_message.Message):
    __slots__ = ("outcome", "message")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    outcome: LoadOutcome
    message: str
    def __init__(self, outcome: _Optional[_Union[LoadOutcome, str]] = ..., message: _Optional[str] = ...) -> None: ...

class Trial(_message.Message):
    __slots__ = ("workload_id", "key", "outcome", "mismatched_count", "unwritten_count", "max_absolute_error", "max_relative_error", "phase", "index", "hidden", "element_count", "nonfinite_count", "budget_ratio", "message", "run_duration", "run_count", "wrong_elements", "symptom", "cuda_error")
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    MISMATCHED_COUNT_FIELD_NUMBER: _ClassVar[int]
    UNWRITTEN_COUNT_FIELD_NUMBER: _ClassVar[int]
    MAX_ABSOLUTE_ERROR_FIELD_NUMBER: _ClassVar[int]
    MAX_RELATIVE_ERROR_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    ELEMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_COUNT_FIELD_NUMBER: _ClassVar[int]
    BUDGET_RATIO_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RUN_DURATION_FIELD_NUMBER: _ClassVar[int]
    RUN_COUNT_FIELD_NUMBER: _ClassVar[int]
    WRONG_ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    SYMPTOM_FIELD_NUMBER: _ClassVar[int]
    CUDA_ERROR_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    key: str
    outcome: TrialOutcome
    mismatched_count: int
    unwritten_count: int
    max_absolute_error: float
    max_relative_error: float
    phase: TrialPhase
    index: int
    hidden: bool
    element_count: int
    nonfinite_count: int
    budget_ratio: float
    message: str
    run_duration: _duration_pb2.Duration
    run_count: int
    wrong_elements: _containers.RepeatedCompositeFieldContainer[WrongElement]
    symptom: str
    cuda_error: str
    def __init__(self, workload_id: _Optional[str] = ..., key: _Optional[str] = ..., outcome: _Optional[_Union[TrialOutcome, str]] = ..., mismatched_count: _Optional[int] = ..., unwritten_count: _Optional[int] = ..., max_absolute_error: _Optional[float] = ..., max_relative_error: _Optional[float] = ..., phase: _Optional[_Union[TrialPhase, str]] = ..., index: _Optional[int] = ..., hidden: _Optional[bool] = ..., element_count: _Optional[int] = ..., nonfinite_count: _Optional[int] = ..., budget_ratio: _Optional[float] = ..., message: _Optional[str] = ..., run_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., run_count: _Optional[int] = ..., wrong_elements: _Optional[_Iterable[_Union[WrongElement, _Mapping]]] = ..., symptom: _Optional[str] = ..., cuda_error: _Optional[str] = ...) -> None: ...

class WrongElement(_message.Message):
    __slots__ = ("output", "index", "expected", "actual", "allowed_error")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_ERROR_FIELD_NUMBER: _ClassVar[int]
    output: str
    index: _containers.RepeatedScalarFieldContainer[int]
    expected: float
    actual: float
    allowed_error: float
    def __init__(self, output: _Optional[str] = ..., index: _Optional[_Iterable[int]] = ..., expected: _Optional[float] = ..., actual: _Optional[float] = ..., allowed_error: _Optional[float] = ...) -> None: ...

class Speedup(_message.Message):
    __slots__ = ("baseline", "ratio", "ratio_low", "ratio_high")
    BASELINE_FIELD_NUMBER: _ClassVar[int]
    RATIO_FIELD_NUMBER: _ClassVar[int]
    RATIO_LOW_FIELD_NUMBER: _ClassVar[int]
    RATIO_HIGH_FIELD_NUMBER: _ClassVar[int]
    baseline: str
    ratio: float
    ratio_low: float
    ratio_high: float
    def __init__(self, baseline: _Optional[str] = ..., ratio: _Optional[float] = ..., ratio_low: _Optional[float] = ..., ratio_high: _Optional[float] = ...) -> None: ...

class Measurement(_message.Message):
    __slots__ = ("workload_id", "reported", "certified", "reported_confirmed", "baselines", "speedups", "clock", "bound_duration", "floor_duration", "hidden", "reported_baselines", "physical_floor_duration", "conditions", "bandwidth_share", "peak_share", "declared_work", "turn_count", "half_width", "end", "own_share")
    class BaselinesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Samples
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Samples, _Mapping]] = ...) -> None: ...
    class ReportedBaselinesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Samples
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Samples, _Mapping]] = ...) -> None: ...
    class ConditionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    REPORTED_FIELD_NUMBER: _ClassVar[int]
    CERTIFIED_FIELD_NUMBER: _ClassVar[int]
    REPORTED_CONFIRMED_FIELD_NUMBER: _ClassVar[int]
    BASELINES_FIELD_NUMBER: _ClassVar[int]
    SPEEDUPS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    BOUND_DURATION_FIELD_NUMBER: _ClassVar[int]
    FLOOR_DURATION_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    REPORTED_BASELINES_FIELD_NUMBER: _ClassVar[int]
    PHYSICAL_FLOOR_DURATION_FIELD_NUMBER: _ClassVar[int]
    CONDITIONS_FIELD_NUMBER: _ClassVar[int]
    BANDWIDTH_SHARE_FIELD_NUMBER: _ClassVar[int]
    PEAK_SHARE_FIELD_NUMBER: _ClassVar[int]
    DECLARED_WORK_FIELD_NUMBER: _ClassVar[int]
    TURN_COUNT_FIELD_NUMBER: _ClassVar[int]
    HALF_WIDTH_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    OWN_SHARE_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    reported: Samples
    certified: Samples
    reported_confirmed: bool
    baselines: _containers.MessageMap[str, Samples]
    speedups: _containers.RepeatedCompositeFieldContainer[Speedup]
    clock: Clock
    bound_duration: _duration_pb2.Duration
    floor_duration: _duration_pb2.Duration
    hidden: bool
    reported_baselines: _containers.MessageMap[str, Samples]
    physical_floor_duration: _duration_pb2.Duration
    conditions: _containers.ScalarMap[str, str]
    bandwidth_share: float
    peak_share: float
    declared_work: DeclaredWork
    turn_count: int
    half_width: float
    end: MeasurementEnd
    own_share: float
    def __init__(self, workload_id: _Optional[str] = ..., reported: _Optional[_Union[Samples, _Mapping]] = ..., certified: _Optional[_Union[Samples, _Mapping]] = ..., reported_confirmed: _Optional[bool] = ..., baselines: _Optional[_Mapping[str, Samples]] = ..., speedups: _Optional[_Iterable[_Union[Speedup, _Mapping]]] = ..., clock: _Optional[_Union[Clock, str]] = ..., bound_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., floor_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., hidden: _Optional[bool] = ..., reported_baselines: _Optional[_Mapping[str, Samples]] = ..., physical_floor_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., conditions: _Optional[_Mapping[str, str]] = ..., bandwidth_share: _Optional[float] = ..., peak_share: _Optional[float] = ..., declared_work: _Optional[_Union[DeclaredWork, _Mapping]] = ..., turn_count: _Optional[int] = ..., half_width: _Optional[float] = ..., end: _Optional[_Union[MeasurementEnd, str]] = ..., own_share: _Optional[float] = ...) -> None: ...

class DeclaredWork(_message.Message):
    __slots__ = ("moved_bytes", "flops", "dtype")
    MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    moved_bytes: int
    flops: int
    dtype: str
    def __init__(self, moved_bytes: _Optional[int] = ..., flops: _Optional[int] = ..., dtype: _Optional[str] = ...) -> None: ...

class Samples(_message.Message):
    __slots__ = ("sample_count", "median_duration", "first_quartile_duration", "third_quartile_duration", "sample_durations_ns", "p20_duration", "p80_duration", "mean_duration", "median_low_duration", "median_high_duration")
    SAMPLE_COUNT_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_DURATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_QUARTILE_DURATION_FIELD_NUMBER: _ClassVar[int]
    THIRD_QUARTILE_DURATION_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_DURATIONS_NS_FIELD_NUMBER: _ClassVar[int]
    P20_DURATION_FIELD_NUMBER: _ClassVar[int]
    P80_DURATION_FIELD_NUMBER: _ClassVar[int]
    MEAN_DURATION_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_LOW_DURATION_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_HIGH_DURATION_FIELD_NUMBER: _ClassVar[int]
    sample_count: int
    median_duration: _duration_pb2.Duration
    first_quartile_duration: _duration_pb2.Duration
    third_quartile_duration: _duration_pb2.Duration
    sample_durations_ns: _containers.RepeatedScalarFieldContainer[int]
    p20_duration: _duration_pb2.Duration
    p80_duration: _duration_pb2.Duration
    mean_duration: _duration_pb2.Duration
    median_low_duration: _duration_pb2.Duration
    median_high_duration: _duration_pb2.Duration
    def __init__(self, sample_count: _Optional[int] = ..., median_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., first_quartile_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., third_quartile_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., sample_durations_ns: _Optional[_Iterable[int]] = ..., p20_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p80_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., mean_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., median_low_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., median_high_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class Environment(_message.Message):
    __slots__ = ("device", "device_kind", "versions", "clock", "isolation", "architecture", "device_uuid", "ceilings")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class CeilingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_UUID_FIELD_NUMBER: _ClassVar[int]
    CEILINGS_FIELD_NUMBER: _ClassVar[int]
    device: str
    device_kind: str
    versions: _containers.ScalarMap[str, str]
    clock: Clock
    isolation: str
    architecture: str
    device_uuid: str
    ceilings: _containers.ScalarMap[str, float]
    def __init__(self, device: _Optional[str] = ..., device_kind: _Optional[str] = ..., versions: _Optional[_Mapping[str, str]] = ..., clock: _Optional[_Union[Clock, str]] = ..., isolation: _Optional[str] = ..., architecture: _Optional[str] = ..., device_uuid: _Optional[str] = ..., ceilings: _Optional[_Mapping[str, float]] = ...) -> None: ...
