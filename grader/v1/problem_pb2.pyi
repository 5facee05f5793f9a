from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Problem(_message.Message):
    __slots__ = ("name", "title", "format", "languages", "workloads", "digest", "entry", "axes", "cuda_signature", "statement", "hidden_workload_count")
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
    def __init__(self, name: _Optional[str] = ..., title: _Optional[str] = ..., format: _Optional[str] = ..., languages: _Optional[_Iterable[str]] = ..., workloads: _Optional[_Iterable[_Union[Workload, _Mapping]]] = ..., digest: _Optional[str] = ..., entry: _Optional[str] = ..., axes: _Optional[_Iterable[str]] = ..., cuda_signature: _Optional[str] = ..., statement: _Optional[str] = ..., hidden_workload_count: _Optional[int] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("workload_id", "axes")
    class AxesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    WORKLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    AXES_FIELD_NUMBER: _ClassVar[int]
    workload_id: str
    axes: _containers.ScalarMap[str, int]
    def __init__(self, workload_id: _Optional[str] = ..., axes: _Optional[_Mapping[str, int]] = ...) -> None: ...
