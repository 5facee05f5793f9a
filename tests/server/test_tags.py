"""Tags, parent and annotations of a submission: what is taken, and who sees them."""

import pytest

from grader import errors
from grader.v1 import submission_pb2


def labelled(kernel, **fields):
    submission = kernel()
    submission.MergeFrom(submission_pb2.Submission(**fields))
    return submission


def shown(submission):
    return list(submission.tags), submission.parent, dict(submission.annotations)


async def test_they_come_back_from_every_call(client, kernel):
    """Tags in order; a list has them too, and one by tag has those with the tag."""
    parent = await client.submit(kernel())
    labels = labelled(kernel, tags=["b", "a/1"], parent=parent.name, annotations={"tile": "16"})
    submission = await client.submit(labels)
    expected = (["a/1", "b"], parent.name, {"tile": "16"})
    assert shown(submission) == shown(await client.get_submission(submission.name)) == expected
    assert [shown(entry) for entry in (await client.list_submissions(tag="b")).submissions] == [expected]
    assert [entry.name for entry in (await client.list_submissions()).submissions] == [submission.name, parent.name]
    assert not (await client.list_submissions(tag="a")).submissions


@pytest.mark.parametrize(
    ("fields", "field", "description"),
    [
        ({"tags": [""]}, "tags[0]", "1 to 64"),
        ({"tags": ["ok", "a b"]}, "tags[1]", "letters, digits"),
        ({"tags": ["a,b"]}, "tags[0]", "letters, digits"),
        ({"tags": ["a\n"]}, "tags[0]", "letters, digits"),
        ({"tags": ["é"]}, "tags[0]", "letters, digits"),
        ({"tags": ["x" * 65]}, "tags[0]", "1 to 64"),
        ({"tags": ["a", "a"]}, "tags[1]", "sent twice"),
        ({"tags": [f"t{index}" for index in range(17)]}, "tags", "at most 16"),
        ({"parent": "s1"}, "parent", "submissions/<id>"),
        ({"parent": "submissions/" + "x" * 65}, "parent", "as Submit returned it"),
        ({"parent": "submissions/none"}, "parent", "no submission 'submissions/none'"),
        ({"annotations": {"": "x"}}, "annotations['']", "not plain"),
        ({"annotations": {"a b": "x"}}, "annotations['a b']", "not plain"),
        ({"annotations": {"a": "x\ny"}}, "annotations['a']", "does not print"),
        ({"annotations": {"a": "\0"}}, "annotations['a']", "does not print"),
        ({"annotations": {"a": "x" * 257}}, "annotations['a']", "at most 256"),
        ({"annotations": {f"k{index}": "" for index in range(17)}}, "annotations", "at most 16"),
    ],
)
async def test_what_is_not_plain_or_too_much_is_refused_by_its_field(client, kernel, fields, field, description):
    """With what to send in its place; nothing is kept."""
    with pytest.raises(errors.InvalidSubmission) as refused:
        await client.submit(labelled(kernel, **fields))
    assert [violation.field for violation in refused.value.violations] == [field] and description in refused.value.violations[0].description
    assert not (await client.list_submissions()).submissions


async def test_as_much_as_may_be_is_taken(client, kernel):
    """The control."""
    tags = [f"{index:02}._/:=-".ljust(64, "x") for index in range(16)]
    annotations = dict.fromkeys(tags, "é" * 256)
    submission = await client.submit(labelled(kernel, tags=tags, annotations=annotations))
    assert shown(submission) == (tags, "", annotations)
