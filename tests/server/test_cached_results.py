"""Submissions that may be answered with the result of an identical one: over the API, the command line and pages."""

import pytest
from rich.text import Text

from grader import errors
from grader.cli import report as shown
from grader.v1 import report_pb2, submission_pb2
from sandbox.protocol import wire


async def test_the_second_is_answered_at_once_and_its_report_says_so(client, kernel, finished):
    """A watch ends with it, a list has it, and without the permission it is graded."""
    first = await finished(client, await client.submit(kernel(mode=wire.Mode.TEST)))
    second = await client.submit(kernel(mode=wire.Mode.TEST, tags=["again"]), allow_cached_result=True)
    assert second.state == submission_pb2.SUBMISSION_STATE_SUCCEEDED and second.name != first.name
    assert second.report.cached_from == first.name and first.report.cached_from == ""
    states = [event.submission.state async for event in client.watch(second.name) if event.HasField("submission")]
    assert states == [submission_pb2.SUBMISSION_STATE_QUEUED, submission_pb2.SUBMISSION_STATE_SUCCEEDED]
    ended = await client.get_submission(second.name)
    assert (ended.report.verdict, ended.report.summary, list(ended.tags)) == (first.report.verdict, first.report.summary, ["again"])
    third = await client.submit(kernel(mode=wire.Mode.TEST))  # its place in the queue is estimated from both
    assert third.state == submission_pb2.SUBMISSION_STATE_QUEUED and (await finished(client, third)).report.cached_from == ""


async def test_a_batch_may_be_answered_too(client, kernel, finished):
    """Each by itself."""
    first = await finished(client, await client.submit(kernel("wrong")))
    results = await client.batch_submit([kernel("wrong"), kernel()], allow_cached_result=True)
    assert [submission.report.cached_from for submission in results] == [first.name, ""]
    assert results[0].report.verdict == report_pb2.VERDICT_WRONG_ANSWER


@pytest.mark.parametrize("mode", [wire.Mode.RANKED, wire.Mode.PROFILE])
async def test_other_modes_are_always_graded(client, kernel, mode):
    """The error says which may be answered."""
    with pytest.raises(errors.InvalidSubmission) as refused:
        await client.submit(kernel(mode=mode), allow_cached_result=True)
    (violation,) = refused.value.violations
    assert violation.field == "allow_cached_result" and "MODE_TEST or MODE_BENCHMARK" in violation.description


async def test_the_command_line_says_whose_result_it_shows(client, kernel, finished):
    """In a line of its own."""
    first = await finished(client, await client.submit(kernel()))
    second = await client.submit(kernel(), allow_cached_result=True)
    lines = [[part.plain for part in shown.render(submission) if isinstance(part, Text)] for submission in (first, second)]
    assert [sum(line == f"cached: the result of {first.name}, which is identical" for line in texts) for texts in lines] == [0, 1]
