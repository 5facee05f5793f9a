"""BatchSubmit: many at once, each as by Submit."""

import uuid
from unittest.mock import Mock

import grpc
import pytest

from grader import errors
from grader.extensions import NoCompetitions
from grader.ledger import Ledger
from grader.problems.store import Problems
from grader.server.request_limits import BATCH_LIMIT
from grader.server.service import GraderServicer
from grader.v1 import grader_service_pb2 as api
from tests import fakes
from tests.server.keyed import keyed_server
from tests.server.test_queue_share import until_running


async def names(client, **fields):
    return [submission.name for submission in (await client.list_submissions(page_size=1000, **fields)).submissions]


async def test_each_gets_its_own_result_and_one_that_is_wrong_loses_nothing(client, kernel, finished):
    """In the order of the requests; errors are those that Submit raises."""
    wrong = kernel()
    wrong.sources[0].path = "/a.cu"
    results = await client.batch_submit([kernel("wrong"), wrong, kernel(problem="none"), kernel(device_kind="cuda"), kernel()])
    assert [type(error) for error in results[1:4]] == [errors.InvalidSubmission, errors.ProblemNotFound, errors.NoSuchDevice]
    assert [violation.field for violation in results[1].violations] == ["sources[0].path"]
    with pytest.raises(errors.InvalidSubmission) as alone:
        await client.submit(wrong)
    assert str(alone.value) == str(results[1])
    accepted_names = [results[0].name, results[4].name]
    assert await names(client) == accepted_names[::-1]
    assert [(await finished(client, result)).report.reason for result in (results[0], results[4])] == ["MISMATCH", ""]


async def test_a_large_batch_is_taken_in_its_order_and_answered_without_sources(client, kernel):
    """As many as may be, of which some are large."""
    submissions = [kernel(tags=["t"]) for _ in range(BATCH_LIMIT)]
    for submission in submissions[::10]:
        submission.sources[0].content += "//" + "x" * 100_000
    results = await client.batch_submit(submissions)
    assert [result.name for result in results] == (await names(client, tag="t"))[::-1]
    assert not any(result.sources for result in results) and (await client.get_submission(results[0].name)).sources


async def test_a_batch_that_is_sent_again_makes_nothing_twice(client, kernel):
    """By each request's id, also where Submit made it; another kernel under the same id is refused alone."""
    ids = [str(uuid.uuid4()) for _ in range(3)]
    first = await client.submit(kernel(), request_id=ids[0])
    results = await client.batch_submit([kernel(), kernel("wrong")], request_ids=ids[:2])
    again = await client.batch_submit([kernel(), kernel(), kernel(), kernel()], request_ids=[*ids, ids[2]])
    assert again[0].name == results[0].name == first.name and isinstance(again[1], errors.RequestIdReused)
    assert again[2].name == again[3].name and len(await names(client)) == 3


@pytest.mark.parametrize(
    ("count", "content", "field", "message"),
    [
        (0, "", "requests", "there are none"),
        (BATCH_LIMIT + 1, "", "requests", "there are 101; send at most 100"),
        (5, "x" * 1_000_000, "request", "4 MiB"),
    ],
)
async def test_a_batch_has_bounds(client, kernel, count, content, field, message):
    """In words; nothing of it is kept."""
    submission = kernel()
    submission.sources[0].content += f"// {content}"
    with pytest.raises(errors.InvalidRequest, match=message) as refused:
        await client.batch_submit([submission] * count)
    assert [violation.field for violation in refused.value.violations] == [field] and await names(client) == []


async def test_what_is_larger_than_a_message_may_be_is_refused_by_the_transport(client, kernel):
    """Before it is read."""
    submission = kernel()
    submission.sources[0].content += "x" * 1_000_000
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await client.stub.BatchSubmit(api.BatchSubmitRequest(requests=[api.SubmitRequest(submission=submission)] * 9), timeout=60)
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(("share", "accepted_count"), [(0.25, 2), (1.0, 8)])
async def test_the_share_of_the_queue_counts_for_each(settings, kernel, share, accepted_count):
    """So many of a batch are kept as Submit would have kept. The control: with a larger share more of them."""
    async with (
        keyed_server(settings, queue_limit=8, user_queue_share=share, drain_s=0.0) as server,
        server.client(await server.key("ann")) as client,
    ):
        for _ in range(4):  # the fake grades four at a time
            await until_running(client, kernel)
        results = await client.batch_submit([kernel("hang") for _ in range(12)])
        refused = [result for result in results if isinstance(result, Exception)]
        assert {type(error) for error in refused} == {errors.QueueShareUsed} and len(refused) == 12 - accepted_count
        assert results[accepted_count:] == refused and refused[0].limit == accepted_count and refused[0].retry_s > 0


class Breaking(NoCompetitions):
    """Fails, by a bug, at kernels for a competition."""

    def terms(self, request, device_kinds):
        raise ZeroDivisionError


async def test_a_bug_that_one_meets_is_its_own_result(settings, place, kernel):
    """The others are stored."""
    async with Ledger.open(place / "ledger") as ledger:
        worker = Mock(wake=lambda: None)
        service = GraderServicer(ledger, Problems.load(settings.problems), worker=worker, policy=Breaking())
        kernels = [kernel("accept"), kernel("accept"), kernel("wrong")]
        kernels[1].competition = "competitions/cup"
        requests = [api.SubmitRequest(submission=submission) for submission in kernels]
        answer = await service.BatchSubmit(api.BatchSubmitRequest(requests=requests), None)
        assert answer.results[1].error.code == grpc.StatusCode.INTERNAL.value[0] and await fakes.queued_count(ledger) == 2
