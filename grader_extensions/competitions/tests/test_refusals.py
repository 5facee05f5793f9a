"""Refusals of this package cross the wire and come back as what they were."""

import pytest
from google.rpc import code_pb2, error_details_pb2

from grader.api import statuses
from grader.errors import CallRefused
from grader_extensions.competitions import refusals

CASES = [
    (refusals.WithdrawalRefused("s", "it is in no competition"), code_pb2.FAILED_PRECONDITION, error_details_pb2.PreconditionFailure),
    (refusals.ReloadRefused("a.toml:3: end: is wrong"), code_pb2.FAILED_PRECONDITION, None),
    (refusals.RejudgeNotFound("r"), code_pb2.NOT_FOUND, error_details_pb2.ResourceInfo),
    (refusals.RejudgeNotReady("r", "running"), code_pb2.FAILED_PRECONDITION, error_details_pb2.PreconditionFailure),
    (refusals.RejudgeOutdated("r", "s"), code_pb2.FAILED_PRECONDITION, error_details_pb2.PreconditionFailure),
]


@pytest.mark.parametrize(("error", "code", "detail"), CASES, ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "")
def test_a_refusal_comes_back_as_it_was(error, code, detail):
    """Type, message and data, with the detail that the table promises."""
    status = statuses.to_status(error, "r1")
    assert status.code == code and (detail is None or any(part.Is(detail.DESCRIPTOR) for part in status.details))
    back = statuses.to_error(status)
    assert type(back) is type(error) and str(back) == str(error) and vars(back) == vars(error)


def test_every_refusal_is_in_the_table():
    """A new one can't be forgotten."""
    kinds = {kind for kind in vars(refusals).values() if isinstance(kind, type) and issubclass(kind, CallRefused)}
    assert kinds - {CallRefused} == {type(error) for error, _, _ in CASES}
