"""Exceptions to `google.rpc.Status` and back: the server writes them, the client rebuilds the same exception from the details.

Knows protobuf, but no gRPC. The reason in ErrorInfo says which exception it was, its metadata what that carried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping, MutableSequence
from typing import Any, TypeVar

from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from grader import errors
from grader.model import Failure

DOMAIN = "grader.v1"

_CODES: dict[type[errors.GraderError], int] = {
    errors.InvalidRequest: code_pb2.INVALID_ARGUMENT,
    errors.ProblemNotFound: code_pb2.NOT_FOUND,
    errors.SubmissionNotFound: code_pb2.NOT_FOUND,
    errors.RequestIdReused: code_pb2.ALREADY_EXISTS,
    errors.AlreadyFinished: code_pb2.FAILED_PRECONDITION,
    errors.NoSuchDevice: code_pb2.FAILED_PRECONDITION,
    errors.ReadOnly: code_pb2.FAILED_PRECONDITION,
    errors.Unauthenticated: code_pb2.UNAUTHENTICATED,
    errors.PermissionDenied: code_pb2.PERMISSION_DENIED,
    errors.CompetitionNotFound: code_pb2.NOT_FOUND,
    errors.CompetitionClosed: code_pb2.FAILED_PRECONDITION,
    errors.RejudgeNotFound: code_pb2.NOT_FOUND,
    errors.RejudgeNotReady: code_pb2.FAILED_PRECONDITION,
    errors.RejudgeOutdated: code_pb2.FAILED_PRECONDITION,
    errors.QuotaExceeded: code_pb2.RESOURCE_EXHAUSTED,
    errors.QueueFull: code_pb2.UNAVAILABLE,
    errors.QueueShareUsed: code_pb2.RESOURCE_EXHAUSTED,
    errors.ShuttingDown: code_pb2.UNAVAILABLE,
    errors.LedgerBusy: code_pb2.UNAVAILABLE,
}

# A status travels in HTTP/2 trailers, of which gRPC takes 8 KiB unless told otherwise; of one that is larger the caller sees nothing.
HEADER_LIMIT_BYTES = 7000
_CUTS = ((1000, 16), (300, 8), (100, 4))  # characters of a text, and how many parts of one kind: the first pair with which it fits
_CUT_MARK = " [...] "

D = TypeVar("D", bound=Message)


def to_status(error: BaseException, request_id: str) -> status_pb2.Status:
    """The status for an error. One that is not the caller's business becomes INTERNAL, with nothing but the request's id."""
    code = next((code for kind, code in _CODES.items() if isinstance(error, kind)), None)
    if code is None or not isinstance(error, (errors.CallRefused, errors.GraderFault)):
        text = f"the grader failed; its log has the reason under request {request_id}"
        info = error_details_pb2.ErrorInfo(reason=errors.InternalFault.reason, domain=DOMAIN, metadata={"request_id": request_id})
        return _status(code_pb2.INTERNAL, text, [info, error_details_pb2.RequestInfo(request_id=request_id)])
    info = error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=_metadata(error))
    return _status(code, str(error), [info, *_details(error)])


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
    rebuild = _REBUILD.get(info.reason)
    return errors.InternalFault(status.message) if rebuild is None else rebuild(status, dict(info.metadata))


def _status(code: int, message: str, details: Iterable[Message]) -> status_pb2.Status:
    """A status that fits where it travels: what quotes a long request is cut in the middle, for the remedy comes last."""
    kept = list(details)
    status = _packed(code, message, kept)
    for most_chars, most_count in _CUTS:
        if _header_bytes(status) <= HEADER_LIMIT_BYTES:
            break
        for detail in kept:
            _shorten(detail, most_chars, most_count)
        status = _packed(code, _shortened(message, most_chars), kept)
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
            for one in value:
                _shorten(one, most_chars, most_count)


def _packed(code: int, message: str, details: Iterable[Message]) -> status_pb2.Status:
    status = status_pb2.Status(code=code, message=message)
    for detail in details:
        status.details.add().Pack(detail)
    return status


def _metadata(error: errors.CallRefused | errors.GraderFault) -> dict[str, str]:
    names = (
        *("problem_id", "submission_id", "request_id", "state", "device_kind", "limit", "detail"),
        *("scope", "competition_id", "phase", "time", "rejudge_id", "period"),
    )
    data = {name: str(getattr(error, name)) for name in names if hasattr(error, name)}
    if available := getattr(error, "available", ()):
        data["available"] = ",".join(available)
    return data


def _details(error: errors.CallRefused | errors.GraderFault) -> Iterable[Message]:
    match error:
        case errors.InvalidRequest(violations=violations):
            violation = error_details_pb2.BadRequest.FieldViolation
            yield error_details_pb2.BadRequest(
                field_violations=[violation(field=one.field, description=one.description) for one in violations]
            )
        case errors.ProblemNotFound():
            yield _resource("grader.v1.Problem", f"problems/{error.problem_id}", str(error))
        case errors.SubmissionNotFound():
            yield _resource("grader.v1.Submission", f"submissions/{error.submission_id}", str(error))
        case errors.AlreadyFinished():
            yield _precondition("SUBMISSION_FINISHED", f"submissions/{error.submission_id}", str(error))
        case errors.NoSuchDevice():
            yield _precondition("DEVICE_KIND", error.device_kind, str(error))
        case errors.CompetitionNotFound():
            yield _resource("grader.v1.Competition", f"competitions/{error.competition_id}", str(error))
        case errors.CompetitionClosed():
            yield _precondition("COMPETITION_PHASE", f"competitions/{error.competition_id}", str(error))
        case errors.RejudgeNotFound():
            yield _resource("grader.v1.Rejudge", f"rejudges/{error.rejudge_id}", str(error))
        case errors.RejudgeNotReady() | errors.RejudgeOutdated():
            yield _precondition("REJUDGE_STATE", f"rejudges/{error.rejudge_id}", str(error))
        case errors.QuotaExceeded() | errors.QueueShareUsed():
            violation = error_details_pb2.QuotaFailure.Violation
            yield error_details_pb2.QuotaFailure(violations=[violation(subject="caller", description=str(error))])
        case _:
            pass
    if retry_s := getattr(error, "retry_s", None):
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(round(retry_s * 1e9))
        yield retry


def _resource(kind: str, name: str, description: str) -> error_details_pb2.ResourceInfo:
    return error_details_pb2.ResourceInfo(resource_type=kind, resource_name=name, description=description)


def _precondition(kind: str, subject: str, description: str) -> error_details_pb2.PreconditionFailure:
    violation = error_details_pb2.PreconditionFailure.Violation
    return error_details_pb2.PreconditionFailure(violations=[violation(type=kind, subject=subject, description=description)])


def _detail(status: status_pb2.Status, kind: type[D]) -> D | None:
    for packed in status.details:
        found = kind()
        if packed.Is(found.DESCRIPTOR) and packed.Unpack(found):
            return found
    return None


def _violations(status: status_pb2.Status) -> list[errors.FieldViolation]:
    found = _detail(status, error_details_pb2.BadRequest)
    return [errors.FieldViolation(one.field, one.description) for one in found.field_violations] if found else []


def _retry_s(status: status_pb2.Status) -> float:
    found = _detail(status, error_details_pb2.RetryInfo)
    return float(found.retry_delay.ToNanoseconds()) / 1e9 if found else 1.0


def _limit(data: dict[str, str]) -> int:
    text = data.get("limit", "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def _available(data: dict[str, str]) -> list[str]:
    return data["available"].split(",") if data.get("available") else []


_Rebuild = Callable[[status_pb2.Status, dict[str, Any]], errors.GraderError]
_REBUILD: dict[str, _Rebuild] = {
    errors.InvalidRequest.reason: lambda status, _: errors.InvalidRequest(_violations(status)),
    errors.InvalidSubmission.reason: lambda status, _: errors.InvalidSubmission(_violations(status)),
    errors.ProblemNotFound.reason: lambda _, data: errors.ProblemNotFound(data.get("problem_id", ""), _available(data)),
    errors.SubmissionNotFound.reason: lambda _, data: errors.SubmissionNotFound(data.get("submission_id", "")),
    errors.RequestIdReused.reason: lambda _, data: errors.RequestIdReused(data.get("request_id", "")),
    errors.AlreadyFinished.reason: lambda _, data: errors.AlreadyFinished(data.get("submission_id", ""), data.get("state", "")),
    errors.NoSuchDevice.reason: lambda _, data: errors.NoSuchDevice(data.get("device_kind", ""), _available(data)),
    errors.ReadOnly.reason: lambda _, __: errors.ReadOnly(),
    errors.Unauthenticated.reason: lambda status, data: errors.Unauthenticated(data.get("detail", status.message)),
    errors.PermissionDenied.reason: lambda _, data: errors.PermissionDenied(data.get("scope", "")),
    errors.CompetitionNotFound.reason: lambda _, data: errors.CompetitionNotFound(data.get("competition_id", ""), _available(data)),
    errors.CompetitionClosed.reason: lambda _, data: errors.CompetitionClosed(
        data.get("competition_id", ""), data.get("phase", ""), data.get("time", "")
    ),
    errors.RejudgeNotFound.reason: lambda _, data: errors.RejudgeNotFound(data.get("rejudge_id", "")),
    errors.RejudgeNotReady.reason: lambda _, data: errors.RejudgeNotReady(data.get("rejudge_id", ""), data.get("state", "")),
    errors.RejudgeOutdated.reason: lambda _, data: errors.RejudgeOutdated(data.get("rejudge_id", ""), data.get("submission_id", "")),
    errors.QuotaExceeded.reason: lambda status, data: errors.QuotaExceeded(_limit(data), _retry_s(status), data.get("period", "")),
    errors.QueueFull.reason: lambda status, data: errors.QueueFull(_limit(data), _retry_s(status)),
    errors.QueueShareUsed.reason: lambda status, data: errors.QueueShareUsed(_limit(data), _retry_s(status)),
    errors.ShuttingDown.reason: lambda status, _: errors.ShuttingDown(_retry_s(status)),
    errors.LedgerBusy.reason: lambda status, data: errors.LedgerBusy(data.get("detail", status.message)),
    errors.InternalFault.reason: lambda status, data: errors.InternalFault(status.message, data.get("request_id", "")),
}
