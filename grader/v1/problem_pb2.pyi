import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Problem(_message.Message):
    __slots__ = ("name", "title", "format", "languages", "workloads", "digest", "entry", "axes", "cuda_signature", "statement", "hidden_workload_count", "inputs", "outputs", "tolerance", "sweeps")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    LANGUAGES_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    CUDA_SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    STATEMENT_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_WORKLOAD_COUNT_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    SWEEPS_FIELD_NUMBER: _ClassVar[int]
    name: str
    title: str
    format: str
    languages: _containers.RepeatedScalarFieldContainer[str]
    workloads: _containers.RepeatedCompositeFieldContainer[Workload]
    digest: str
    entry: str
    axes: _containers.RepeatedScalarFieldContainer[str]
    cuda_signature: str
    statement: str
    hidden_workload_count: int
    inputs: _containers.RepeatedCompositeFieldContainer[Tensor]
    outputs: _containers.RepeatedCompositeFieldContainer[Tensor]
    tolerance: Tolerance
    sweeps: _containers.RepeatedCompositeFieldContainer[Sweep]
    def __init__(self, name: _Optional[str] = ..., title: _Optional[str] = ..., format: _Optional[str] = ..., languages: _Optional[_Iterable[str]] = ..., workloads: _Optional[_Iterable[_Union[Workload, _Mapping]]] = ..., digest: _Optional[str] = ..., entry: _Optional[str] = ..., axes: _Optional[_Iterable[str]] = ..., cuda_signature: _Optional[str] = ..., statement: _Optional[str] = ..., hidden_workload_count: _Optional[int] = ..., inputs: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., outputs: _Optional[_Iterable[_Union[Tensor, _Mapping]]] = ..., tolerance: _Optional[_Union[Tolerance, _Mapping]] = ..., sweeps: _Optional[_Iterable[_Union[Sweep, _Mapping]]] = ...) -> None: ...

class Tensor(_message.Message):
    __slots__ = ("name", "dtype", "shape", "inout")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    INOUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[str]
    inout: bool
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[str] = ..., shape: _Optional[_Iterable[str]] = ..., inout: _Optional[bool] = ...) -> None: ...

class Tolerance(_message.Message):
    __slots__ = ("atol", "rtol", "budget_factor", "allow_lower_precision")
    ATOL_FIELD_NUMBER: _ClassVar[int]
    RTOL_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FACTOR_FIELD_NUMBER: _ClassVar[int]
    ALLOW_LOWER_PRECISION_FIELD_NUMBER: _ClassVar[int]
    atol: float
    rtol: float
    budget_factor: float
    allow_lower_precision: bool
    def __init__(self, atol: _Optional[float] = ..., rtol: _Optional[float] = ..., budget_factor: _Optional[float] = ..., allow_lower_precision: _Optional[bool] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("workload_id", "axes", "device_kind", "moved_bytes", "flops", "tolerance")
    class AxesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    MOVED_BYTES_FIELD_NUMBER: _ClassVar[int]
    FLOPS_FIELD_NUMBER: _ClassVar[int]
    TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    axes: _containers.ScalarMap[str, int]
    device_kind: str
    moved_bytes: int
    flops: int
    tolerance: Tolerance
    def __init__(self, workload_id: _Optional[str] = ..., axes: _Optional[_Mapping[str, int]] = ..., device_kind: _Optional[str] = ..., moved_bytes: _Optional[int] = ..., flops: _Optional[int] = ..., tolerance: _Optional[_Union[Tolerance, _Mapping]] = ...) -> None: ...

class Sweep(_message.Message):
    __slots__ = ("axis", "start", "stop", "factor", "step", "axes", "device_kind", "measure_duration", "workloads")
    class AxesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    AXIS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KIND_FIELD_NUMBER: _ClassVar[int]
    MEASURE_DURATION_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    axis: str
    start: int
    stop: int
    factor: float
    step: int
    axes: _containers.ScalarMap[str, int]
    device_kind: str
    measure_duration: _duration_pb2.Duration
    workloads: _containers.RepeatedCompositeFieldContainer[Workload]
    def __init__(self, axis: _Optional[str] = ..., start: _Optional[int] = ..., stop: _Optional[int] = ..., factor: _Optional[float] = ..., step: _Optional[int] = ..., axes: _Optional[_Mapping[str, int]] = ..., device_kind: _Optional[str] = ..., measure_duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., workloads: _Optional[_Iterable[_Union[Workload, _Mapping]]] = ...) -> None: ...
