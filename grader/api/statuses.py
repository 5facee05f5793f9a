"""Exceptions to `google.rpc.Status` and back: the server writes them, the client rebuilds the same exception from the details.

Knows protobuf, but no gRPC. The reason in ErrorInfo says which exception it was, its metadata what that carried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, MutableSequence
from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from grader import errors

if TYPE_CHECKING:
    from grader.model import Failure

DOMAIN = "grader.v1"

# A status travels in HTTP/2 trailers, of which gRPC takes 8 KiB by default; of one that is larger the caller sees nothing.
HEADER_LIMIT_BYTES = 7000
_CUTS = ((1000, 16), (300, 8), (100, 4))  # characters of a text, and how many parts of one kind: the first pair with which it fits
_CUT_MARK = " [...] "

D = TypeVar("D", bound=Message)


def to_status(error: BaseException, request_id: str) -> status_pb2.Status:
    """The status for an error. One that is not the caller's business becomes INTERNAL, with nothing but the request's id."""
    if not isinstance(error, (errors.CallRefused, errors.GraderFault)) or not error.code:
        text = f"the grader failed; its log has the reason under request {request_id}"
        info = error_details_pb2.ErrorInfo(reason=errors.InternalFault.reason, domain=DOMAIN, metadata={"request_id": request_id})
        return _status(code_pb2.INTERNAL, text, [info, error_details_pb2.RequestInfo(request_id=request_id)])
    data = {name: getattr(error, name) for name in error.fields() if name != "retry_s"}
    metadata = {name: ",".join(value) if isinstance(value, tuple) else str(value) for name, value in data.items() if value != ()}
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata)
    return _status(code_pb2.Code.Value(error.code), str(error), [info, *_details(error)])


def failure_to_status(failure: Failure) -> status_pb2.Status:
    """Why a submission was not graded."""
    return _packed(code_pb2.INTERNAL, failure.message, [error_details_pb2.ErrorInfo(reason=failure.reason, domain=DOMAIN)])


def reason_of(status: status_pb2.Status) -> str:
    """The reason of its ErrorInfo; nothing where it has none."""
    info = _detail(status, error_details_pb2.ErrorInfo)
    return info.reason if info is not None else ""


def to_error(status: status_pb2.Status) -> errors.GraderError:
    """The exception that a status was made from; InternalFault for a status that is not of this server's making."""
    info = _detail(status, error_details_pb2.ErrorInfo)
    if info is None or info.domain != DOMAIN:
        return errors.InternalFault(status.message)
    kinds = (kind for parent in (errors.CallRefused, errors.GraderFault) for kind in _kinds(parent))  # those of packages, too
    kind = next((kind for kind in kinds if kind.code and kind.reason == info.reason), None)
    data = dict(info.metadata)
    if kind is None:
        return errors.InternalFault(status.message, data.get("request_id", ""))
    error: errors.GraderError
    if issubclass(kind, errors.InvalidRequest):
        request = _detail(status, error_details_pb2.BadRequest)
        violations = request.field_violations if request else ()
        error = kind([errors.FieldViolation(violation.field, violation.description) for violation in violations])
    else:
        error = kind(*(_field(name, data, status) for name in kind.fields()))
    return error


def _status(code: int, message: str, details: Iterable[Message]) -> status_pb2.Status:
    """A status that fits where it travels: what quotes a long request is cut in the middle, for the remedy comes last."""
    parts = list(details)
    status = _packed(code, message, parts)
    for most_chars, most_count in _CUTS:
        if _header_bytes(status) <= HEADER_LIMIT_BYTES:
            break
        for detail in parts:
            _shorten(detail, most_chars, most_count)
        status = _packed(code, _shortened(message, most_chars), parts)
    return status


def _header_bytes(status: status_pb2.Status) -> int:
    escaped = sum(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in status.message.encode())  # %XX
    return int(escaped + -(-status.ByteSize() // 3) * 4)  # base64


def _shortened(text: str, most_chars: int) -> str:
    half = most_chars // 2
    return text if len(text) <= most_chars else f"{text[:half]}{_CUT_MARK}{text[-half:]}"


def _shorten(message: Message, most_chars: int, most_count: int) -> None:
    """Cut every text in it, and leave out what is more than most_count of one kind."""
    for field, value in message.ListFields():
        if isinstance(value, str):
            setattr(message, field.name, _shortened(value, most_chars))
        elif isinstance(value, MutableMapping):
            for key in value:
                value[key] = _shortened(value[key], most_chars)
        elif isinstance(value, MutableSequence):
            del value[most_count:]
            for part in value:
                _shorten(part, most_chars, most_count)


def _packed(code: int, message: str, details: Iterable[Message]) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return status


def _details(error: errors.CallRefused | errors.GraderFault) -> Iterable[Message]:
    first = getattr(error, error.fields()[0]) if error.fields() else ""
    if isinstance(error, errors.InvalidRequest):
        violation = error_details_pb2.BadRequest.FieldViolation
        yield error_details_pb2.BadRequest(
            field_violations=[violation(field=wrong.field, description=wrong.description) for wrong in error.violations]
        )
    if error.resource is not None:
        kind, collection = error.resource
        name = f"{collection}/{first}"
        yield error_details_pb2.ResourceInfo(resource_type=f"grader.v1.{kind}", resource_name=name, description=str(error))
    if error.precondition is not None:
        kind, before = error.precondition
        unmet = error_details_pb2.PreconditionFailure.Violation(type=kind, subject=f"{before}{first}", description=str(error))
        yield error_details_pb2.PreconditionFailure(violations=[unmet])
    if error.spends_quota:
        spent = error_details_pb2.QuotaFailure.Violation(subject="caller", description=str(error))
        yield error_details_pb2.QuotaFailure(violations=[spent])
    if retry_s := getattr(error, "retry_s", None):
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(round(retry_s * 1e9))
        yield retry


def _detail(status: status_pb2.Status, kind: type[D]) -> D | None:
    for packed in status.details:
        detail = kind()
        if packed.Is(detail.DESCRIPTOR) and packed.Unpack(detail):
            return detail
    return None


def _field(name: str, data: dict[str, str], status: status_pb2.Status) -> Any:
    """An argument of an error, from what travelled. What another version did not send is as if it were empty."""
    text = data.get(name, "")
    match name:
        case "retry_s":
            retry = _detail(status, error_details_pb2.RetryInfo)
            return retry.retry_delay.ToNanoseconds() / 1e9 if retry else 1.0
        case "limit":
            return int(text) if text.isdecimal() and len(text) < 20 else 0
        case "available":
            return tuple(text.split(",")) if text else ()
        case "detail":
            return text or status.message
    return text


def _kinds(kind: Any) -> Iterator[Any]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _kinds(subclass)
