"""Our exceptions cross the wire and come back as what they were."""

import pytest
from google.rpc import code_pb2, error_details_pb2, status_pb2

from grader import errors
from grader.api import statuses

VIOLATIONS = [errors.FieldViolation("sources[1].path", "write 'b.cu'"), errors.FieldViolation("mode", "take another")]
CASES = [
    (errors.InvalidRequest(VIOLATIONS), code_pb2.INVALID_ARGUMENT, error_details_pb2.BadRequest),
    (errors.InvalidSubmission(VIOLATIONS), code_pb2.INVALID_ARGUMENT, error_details_pb2.BadRequest),
    (errors.ProblemNotFound("p", ("a", "b")), code_pb2.NOT_FOUND, error_details_pb2.ResourceInfo),
    (errors.SubmissionNotFound("s"), code_pb2.NOT_FOUND, error_details_pb2.ResourceInfo),
    (errors.ArtifactNotFound("s", "a.ptx"), code_pb2.NOT_FOUND, error_details_pb2.ResourceInfo),
    (errors.RequestIdReused("r"), code_pb2.ALREADY_EXISTS, None),
    (errors.AlreadyFinished("s", "failed"), code_pb2.FAILED_PRECONDITION, error_details_pb2.PreconditionFailure),
    (errors.NoSuchDevice("cuda", ("emulated",)), code_pb2.FAILED_PRECONDITION, error_details_pb2.PreconditionFailure),
    (errors.ReadOnly(), code_pb2.FAILED_PRECONDITION, None),
    (errors.QuotaExceeded(5, 2.5), code_pb2.RESOURCE_EXHAUSTED, error_details_pb2.QuotaFailure),
    (errors.Unauthenticated("the key is not known"), code_pb2.UNAUTHENTICATED, None),
    (errors.PermissionDenied("admin"), code_pb2.PERMISSION_DENIED, None),
    (errors.NotInstalled("GetCompetition"), code_pb2.UNIMPLEMENTED, None),
    (errors.CompetitionNotFound("c", ("a", "b")), code_pb2.NOT_FOUND, error_details_pb2.ResourceInfo),
    (errors.CompetitionClosed("c", "ended", "noon"), code_pb2.FAILED_PRECONDITION, error_details_pb2.PreconditionFailure),
    (errors.UserBanned("c", "copied a kernel"), code_pb2.PERMISSION_DENIED, None),
    (errors.QuotaExceeded(5, 2.5, "in an hour"), code_pb2.RESOURCE_EXHAUSTED, error_details_pb2.RetryInfo),
    (errors.QueueFull(7, 2.5), code_pb2.UNAVAILABLE, error_details_pb2.RetryInfo),
    (errors.QueueShareUsed(7, 2.5), code_pb2.RESOURCE_EXHAUSTED, error_details_pb2.QuotaFailure),
    (errors.QueueShareUsed(7, 30.0), code_pb2.RESOURCE_EXHAUSTED, error_details_pb2.RetryInfo),
    (errors.TooManyWatches(7, 30.0), code_pb2.RESOURCE_EXHAUSTED, error_details_pb2.RetryInfo),
    (errors.ShuttingDown(2.5), code_pb2.UNAVAILABLE, error_details_pb2.RetryInfo),
    (errors.LedgerBusy("locked"), code_pb2.UNAVAILABLE, error_details_pb2.RetryInfo),
]


@pytest.mark.parametrize(("error", "code", "detail"), CASES, ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "")
def test_an_error_comes_back_as_it_was(error, code, detail):
    """Type, message and data; with its code, an ErrorInfo, and the detail that the table promises."""
    status = statuses.to_status(error, "r1")
    assert status.code == code and status.details[0].Is(error_details_pb2.ErrorInfo.DESCRIPTOR)
    assert detail is None or any(message.Is(detail.DESCRIPTOR) for message in status.details)
    back = statuses.to_error(status)
    assert type(back) is type(error) and str(back) == str(error) and vars(back) == vars(error)


def test_every_refusal_is_in_the_table():
    """A new one can't be forgotten and become INTERNAL. Those of an extension, such as HTTP's, do not cross gRPC."""
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.CallRefused)}
    assert kinds - {errors.CallRefused} == {type(error) for error, _, _ in CASES if isinstance(error, errors.CallRefused)}


@pytest.mark.parametrize(
    "error", [KeyError("secret"), errors.SandboxBroken("secret"), errors.LeaseLost("secret", 1), ExceptionGroup("secret", [KeyError()])]
)
def test_what_is_not_the_callers_business_stays_here(error):
    """The client gets the request's id and nothing else."""
    status = statuses.to_status(error, "r1")
    assert status.code == code_pb2.INTERNAL and "secret" not in str(status) and "r1" in status.message
    back = statuses.to_error(status)
    assert isinstance(back, errors.InternalFault) and back.request_id == "r1"


def test_a_status_of_somebody_else_is_an_internal_fault():
    """A proxy's error is shown as it is."""
    assert str(statuses.to_error(status_pb2.Status(code=14, message="proxy says no"))) == "proxy says no"
    odd = statuses.to_status(errors.ReadOnly(), "")
    info = error_details_pb2.ErrorInfo(reason="FROM_THE_FUTURE", domain=statuses.DOMAIN)
    odd.details[0].Pack(info)
    assert isinstance(statuses.to_error(odd), errors.InternalFault)
