from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AttachRequest(_message.Message):
    __slots__ = ("hello", "fact", "ended", "file_piece", "standing")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    FILE_PIECE_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    fact: Fact
    ended: Ended
    file_piece: FilePiece
    standing: Standing
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., fact: _Optional[_Union[Fact, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ..., file_piece: _Optional[_Union[FilePiece, _Mapping]] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ...) -> None: ...

class AttachResponse(_message.Message):
    __slots__ = ("welcome", "grade", "cancel", "cordon")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    GRADE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    CORDON_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    grade: Grade
    cancel: Cancel
    cordon: Cordon
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., grade: _Optional[_Union[Grade, _Mapping]] = ..., cancel: _Optional[_Union[Cancel, _Mapping]] = ..., cordon: _Optional[_Union[Cordon, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol", "version", "isolation", "safe", "standing", "instance")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    SAFE_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    protocol: str
    version: str
    isolation: str
    safe: bool
    standing: Standing
    instance: str
    def __init__(self, protocol: _Optional[str] = ..., version: _Optional[str] = ..., isolation: _Optional[str] = ..., safe: _Optional[bool] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ..., instance: _Optional[str] = ...) -> None: ...

class Standing(_message.Message):
    __slots__ = ("capacity", "device_kinds", "lanes", "leaving")
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_KINDS_FIELD_NUMBER: _ClassVar[int]
    LANES_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    capacity: int
    device_kinds: _containers.RepeatedScalarFieldContainer[str]
    lanes: _containers.RepeatedCompositeFieldContainer[Lane]
    leaving: bool
    def __init__(self, capacity: _Optional[int] = ..., device_kinds: _Optional[_Iterable[str]] = ..., lanes: _Optional[_Iterable[_Union[Lane, _Mapping]]] = ..., leaving: _Optional[bool] = ...) -> None: ...

class Lane(_message.Message):
    __slots__ = ("name", "state")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: str
    def __init__(self, name: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: str
    def __init__(self, node: _Optional[str] = ...) -> None: ...

class Grade(_message.Message):
    __slots__ = ("attempt", "lease")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    lease: bytes
    def __init__(self, attempt: _Optional[int] = ..., lease: _Optional[bytes] = ...) -> None: ...

class Cancel(_message.Message):
    __slots__ = ("attempt",)
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    def __init__(self, attempt: _Optional[int] = ...) -> None: ...

class Cordon(_message.Message):
    __slots__ = ("lanes",)
    LANES_FIELD_NUMBER: _ClassVar[int]
    lanes: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, lanes: _Optional[_Iterable[str]] = ...) -> None: ...

class Fact(_message.Message):
    __slots__ = ("attempt", "number", "line")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LINE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    number: int
    line: bytes
    def __init__(self, attempt: _Optional[int] = ..., number: _Optional[int] = ..., line: _Optional[bytes] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("attempt", "reason", "message", "final")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FINAL_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    reason: str
    message: str
    final: bool
    def __init__(self, attempt: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., final: _Optional[bool] = ...) -> None: ...

class FilePiece(_message.Message):
    __slots__ = ("attempt", "digest", "content", "last")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    digest: str
    content: bytes
    last: bool
    def __init__(self, attempt: _Optional[int] = ..., digest: _Optional[str] = ..., content: _Optional[bytes] = ..., last: _Optional[bool] = ...) -> None: ...
