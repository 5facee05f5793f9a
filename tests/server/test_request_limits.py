"""Requests that once stopped the server are refused before they are read, in words, and those just below a limit are answered."""

from __future__ import annotations

import grpc
import pytest

from grader import errors
from grader.model import SourceFile
from grader.server.request_limits import COUNT, message_bytes
from grader.v1 import grader_service_pb2 as api
from grader.v1 import submission_pb2
from tests import fakes
from tests.requests import new_submission


def submit(**changes):
    sent = new_submission("sum", [SourceFile(path="kernel.cu", content=fakes.source("accept"))])
    sent.MergeFrom(submission_pb2.Submission(**changes))
    return api.SubmitRequest(submission=sent)


SEARCH = [submission_pb2.SUBMISSION_STATE_QUEUED]
# Of each finding: the method, the request, and what is said of it.
HOSTILE = {
    "states": ("ListSubmissions", lambda: api.ListSubmissionsRequest(states=SEARCH * 1_000_000), "request: has 10000"),
    "1001 states": (
        "ListSubmissions",
        lambda: api.ListSubmissionsRequest(states=SEARCH * 1001),
        "states: there are 1001; send at most 1000",
    ),
    "verdicts": ("ListSubmissions", lambda: api.ListSubmissionsRequest(verdicts=[1] * 1_000_000), "ListSubmissions takes at most 65536"),
    "token": ("ListSubmissions", lambda: api.ListSubmissionsRequest(page_token="A" * 60_000), "page_token: has 60000 bytes"),
    "name": ("GetProblem", lambda: api.GetProblemRequest(name="problems/" + "a" * 8_000_000), "GetProblem takes at most 65536"),
    "short name": ("GetProblem", lambda: api.GetProblemRequest(name="problems/" + "a" * 300), "a resource name has at most 300"),
    "sources": ("Submit", lambda: submit(sources=[submission_pb2.SourceFile()] * 500_000), "submission.sources: there are 500001"),
    "more sources": ("Submit", lambda: submit(sources=[submission_pb2.SourceFile()] * 3_500_000), "Submit takes at most 2097152 (2 MiB)"),
    "tags": ("Submit", lambda: submit(tags=["a"] * 500_000), "submission.tags: there are 500000; send at most 1000"),
    "annotations": ("Submit", lambda: submit(annotations={str(key): "" for key in range(2000)}), "submission.annotations: there are 2000"),
    "entry": ("Submit", lambda: submit(entry="a" * 1_000_000), "submission.entry: has 1000000 bytes; send at most 8192"),
    "names": ("WatchSubmissions", lambda: api.WatchSubmissionsRequest(names=["submissions/a"] * 1001), "names: there are 1001"),
    "requests": ("BatchSubmit", lambda: api.BatchSubmitRequest(requests=[api.SubmitRequest()] * 1_000_000), "requests: there are 1000000"),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_request_that_is_too_large_is_refused_in_words(client, name):
    """The interceptor answers, and the method is not called."""
    method, request, text = HOSTILE[name]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await answered(getattr(client.stub, method), request())
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT and text in refused.value.details()


async def test_requests_at_the_limits_are_answered(client):
    """The controls."""
    states = api.ListSubmissionsRequest(states=SEARCH * COUNT, verdicts=[1] * COUNT)
    assert not (await client.stub.ListSubmissions(states)).submissions
    sent = submit()
    sent.submission.report.build.log = "x" * (message_bytes("Submit") - sent.ByteSize() - 20)  # output only, and ignored
    assert message_bytes("Submit") - 20 < sent.ByteSize() <= message_bytes("Submit")
    assert (await client.stub.Submit(sent)).name
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.stub.GetProblem(api.GetProblemRequest(name="problems/" + "a" * 291))
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


async def test_one_request_of_a_batch_that_has_too_many_sources_is_refused_alone(client):
    """Its lists are walked no more than those of Submit."""
    many = submit(sources=[submission_pb2.SourceFile()] * 19_000).submission
    first, second = await client.batch_submit([submit().submission, many])
    assert first.name and isinstance(second, errors.InvalidRequest)
    assert "submission.sources: there are 19001; send at most 1000" in str(second)


async def answered(call, request):
    """The answer, or the first of a stream."""
    answer = call(request, timeout=60)
    return await answer if hasattr(answer, "__await__") else await answer.read()
