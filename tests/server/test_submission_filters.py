"""Lists by verdict and by the beginning of an id."""

import pytest

from grader import errors
from grader.v1 import report_pb2

ACCEPTED, WRONG = report_pb2.VERDICT_ACCEPTED, report_pb2.VERDICT_WRONG_ANSWER


async def names(client, **fields):
    return [submission.name for submission in (await client.list_submissions(**fields)).submissions]


@pytest.fixture
async def graded(client, kernel):
    """Two that were accepted, a wrong one between them, and one that has no verdict."""
    submission_names = []
    for order in ("accept", "wrong", "accept", "hang"):
        submission_names.append((await client.submit(kernel(order))).name)
        if order != "hang":
            async for _ in client.watch(submission_names[-1]):
                pass
    return submission_names


async def test_a_list_is_by_verdict(client, graded):
    """Of one or several; without one, what has no verdict yet is there too. Pages follow each other, with the same verdicts only."""
    first, wrong, second, unfinished = graded
    assert await names(client) == [unfinished, second, wrong, first]
    assert await names(client, verdicts=[WRONG]) == [wrong]
    assert await names(client, verdicts=[WRONG, ACCEPTED]) == [second, wrong, first]
    assert await names(client, id_prefix=wrong.removeprefix("submissions/")[:8]) == [wrong]
    page = await client.list_submissions(verdicts=[ACCEPTED], page_size=1)
    assert await names(client, verdicts=[ACCEPTED], page_size=1, page_token=page.next_page_token) == [first]
    with pytest.raises(errors.InvalidRequest, match="page_token"):
        await client.list_submissions(verdicts=[WRONG], page_size=1, page_token=page.next_page_token)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"verdicts": [report_pb2.VERDICT_UNSPECIFIED]}, "verdicts: .*VERDICT_ACCEPTED"),
        ({"verdicts": [77]}, "verdicts: .*VERDICT_ACCEPTED"),
        ({"id_prefix": "submissions/a"}, "id_prefix: .*without 'submissions/'"),
        ({"id_prefix": "\0"}, "id_prefix: "),
        ({"id_prefix": "a" * 65}, "id_prefix: "),
        ({"tag": "a b"}, "tag: 'a b' is not a tag"),
        ({"problem": "sum"}, "problem: .*expected 'problems/<id>'"),
    ],
)
async def test_what_no_list_can_be_by_is_refused(client, fields, expected):
    """By the field."""
    with pytest.raises(errors.InvalidRequest, match=expected):
        await client.list_submissions(**fields)
