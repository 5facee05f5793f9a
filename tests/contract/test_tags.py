"""Tags, parents, annotations and beginnings of ids in the ledger, whatever database is under it."""

from dataclasses import replace

import pytest

from grader.errors import InvalidSubmission, RequestIdReused
from grader.ledger import Ledger, records
from grader.ledger.statements import SubmissionFilter
from tests import fakes


async def submit(ledger, *, request_id="", **fields):
    return await ledger.submit(fakes.new_submission(**fields), fakes.problem(), request_id=request_id)


async def listed(ledger, tag, **fields):
    page, _ = await ledger.page(size=9, submission_filter=SubmissionFilter(tag=tag, **fields))
    return [submission.submission_id for submission in page]


async def test_they_read_back_as_they_were_written(location):
    """After the ledger was closed, too."""
    async with Ledger.open(location) as first:
        parent = await submit(first)
        submission = await submit(first, tags=("a", "run/7"), parent_id=parent.submission_id, annotations={"tile": "16", "why": 'é, "x"'})
    async with Ledger.open(location) as second:
        assert (await second.get(submission.submission_id)).new == submission.new
        assert [head.new for head in await second.heads([submission.submission_id], reports=True)] == [replace(submission.new, sources=())]
        assert (await second.get(parent.submission_id)).new.tags == ()


async def test_a_list_by_tag_has_those_with_the_tag(ledger):
    """Newest first; of one user where one is named, and of the caller where not all may be seen."""
    first, second = await submit(ledger, tags=("a",), user="ann"), await submit(ledger, tags=("a", "b"), user="ann")
    by_bob = await submit(ledger, tags=("a",), user="bob")
    await submit(ledger, user="ann")
    ids = [submission.submission_id for submission in (by_bob, second, first)]
    assert await listed(ledger, "a") == ids and await listed(ledger, "b") == ids[1:2]
    assert await listed(ledger, "a", user="ann") == await listed(ledger, "a", seen_by="ann") == ids[1:]
    assert await listed(ledger, "a", user="bob", seen_by="ann", open_competitions=[""]) == []
    assert await listed(ledger, "A") == []


async def test_a_prefix_is_compared_as_it_is_written(ledger):
    """In its case; signs that mean something to LIKE mean themselves."""
    submission_id = (await submit(ledger)).submission_id
    assert await listed(ledger, "", id_prefix=submission_id[:5]) == await listed(ledger, "", id_prefix=submission_id) == [submission_id]
    for prefix in ("_", "%", f"{submission_id}0", submission_id[:3] + "%"):
        assert await listed(ledger, "", id_prefix=prefix) == []
    upper = submission_id.upper()
    assert await listed(ledger, "", id_prefix=upper) == ([submission_id] if upper == submission_id else [])


async def test_a_watch_finds_the_newest_and_then_those_that_follow(ledger):
    """By number, oldest first."""
    ids = [(await submit(ledger, tags=("a",), user="ann")).submission_id for _ in range(5)]
    newest = await ledger.tagged("ann", "a", after_number=0, limit=3)
    assert [submission_id for _, submission_id in newest] == ids[2:]
    following = await ledger.tagged("ann", "a", after_number=newest[0][0], limit=1)
    assert [submission_id for _, submission_id in following] == ids[3:4]
    assert await ledger.tagged("bob", "a", after_number=0, limit=3) == []


async def test_a_parent_is_one_of_the_same_user(ledger):
    """Somebody else's is refused with the words for one that is not there."""
    theirs, by_ann = await submit(ledger, user="bob"), await submit(ledger, user="ann")
    assert (await submit(ledger, user="ann", parent_id=by_ann.submission_id)).new.parent_id == by_ann.submission_id
    texts = []
    for parent_id in (theirs.submission_id, "nothing"):
        with pytest.raises(InvalidSubmission) as refused:
            await submit(ledger, user="ann", parent_id=parent_id)
        assert [violation.field for violation in refused.value.violations] == ["parent"]
        texts.append(str(refused.value).replace(parent_id, "ID"))
    assert texts[0] == texts[1]


async def test_a_request_id_is_of_one_submission_with_its_tags(ledger):
    """The same again finds it; other tags are another submission."""
    request_id = "00000000-0000-4000-8000-000000000000"
    submission = await submit(ledger, request_id=request_id, tags=("a",), annotations={"x": "1", "y": "2"})
    again = await submit(ledger, request_id=request_id, tags=("a",), annotations={"y": "2", "x": "1"})
    assert again.submission_id == submission.submission_id
    with pytest.raises(RequestIdReused):
        await submit(ledger, request_id=request_id, tags=("b",))
    assert await listed(ledger, "a") == [submission.submission_id]


def test_without_them_a_submission_is_the_same_as_before_there_were_any():
    """Its digest is the one that an older grader kept."""
    digest = "a93e25d8d08e3576ba799e30d866b339cf4f6d5cf23a27a9181e384f1601ade1"
    assert records.body_digest(fakes.new_submission(), fakes.problem()) == digest
