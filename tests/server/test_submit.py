"""Submit: what is taken, once; what is refused, with field and remedy."""

import grpc
import pytest
from google.rpc import error_details_pb2

from grader import errors
from grader.v1 import grader_service_pb2 as api
from grader.v1 import report_pb2, submission_pb2
from tests import fakes
from tests.server.processes import until_built

ACCEPTED, WRONG = report_pb2.VERDICT_ACCEPTED, report_pb2.VERDICT_WRONG_ANSWER


async def test_a_right_kernel_is_accepted_and_a_wrong_one_is_not(client, kernel, finished):
    """Both succeed: a failing kernel is data."""
    for order, verdict in (("accept", ACCEPTED), ("wrong", WRONG)):
        submission = await client.submit(kernel(order))
        assert submission.language == "cuda" and submission.name.startswith("submissions/")
        final = await finished(client, submission)
        assert (final.state, final.report.verdict) == (submission_pb2.SUBMISSION_STATE_SUCCEEDED, verdict)
        shown = await client.get_submission(submission.name)
        assert shown.report == final.report and shown.sources[0].content == fakes.source(order)


async def test_a_text_that_is_no_utf_8_is_the_callers_mistake(client):
    """A client in a language that does not check gets INVALID_ARGUMENT and the remedy, not INTERNAL."""
    path = b"k.cu\xff"
    source = b"\x0a" + bytes([len(path)]) + path
    submission = b"\x22" + bytes([len(source)]) + source
    raw = client._channel.unary_unary("/grader.v1.GraderService/Submit")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await raw(b"\x0a" + bytes([len(submission)]) + submission, timeout=60)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT and "UTF-8" in caught.value.details()


@pytest.mark.slow
async def test_a_full_queue_says_when_to_come_back(serve, kernel):
    """UNAVAILABLE with RetryInfo, which clients retry by themselves; then QueueFull."""
    async with serve(fakes.FakeGrade(), capacity=1, queue_limit=1) as client:
        await until_built(client, await client.submit(kernel("hang")))
        await client.submit(kernel())
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            call = client._channel.unary_unary("/grader.v1.GraderService/Submit", request_serializer=api.SubmitRequest.SerializeToString)
            await call(api.SubmitRequest(submission=kernel()), timeout=0.4)
        assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        with pytest.raises(errors.QueueFull) as full:
            await client.submit(kernel())
        assert full.value.limit == 1 and full.value.retry_s > 0


async def test_an_unexpected_error_tells_the_client_an_id_only(client, monkeypatch):
    """The traceback is for the log."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        from grader.server import service

        monkeypatch.setattr(service, "parse", lambda *_: {}["secret"])
        await client.stub.GetSubmission(api.GetSubmissionRequest(name="submissions/x"), timeout=60)
    assert caught.value.code() is grpc.StatusCode.INTERNAL and "secret" not in str(caught.value)
    packed = dict(caught.value.trailing_metadata())["grpc-status-details-bin"]
    assert error_details_pb2.RequestInfo.DESCRIPTOR.full_name.encode() in packed
