"""Lists by verdict and by the beginning of an id, whatever database is under it."""

from grader.ledger.statements import SubmissionFilter
from tests import fakes


async def ids(ledger, **fields):
    return [one.submission_id for one in (await ledger.page(size=9, submission_filter=SubmissionFilter(**fields)))[0]]


async def test_a_prefix_is_compared_as_it_is_written(ledger):
    """In its case; signs that mean something to LIKE mean themselves."""
    made = (await ledger.submit(fakes.new_submission(), fakes.problem())).submission_id
    assert await ids(ledger, id_prefix=made[:5]) == await ids(ledger, id_prefix=made) == [made]
    for other in ("_", "%", f"{made}0", made[:3] + "%"):
        assert await ids(ledger, id_prefix=other) == []
    upper = made.upper()
    assert await ids(ledger, id_prefix=upper) == ([made] if upper == made else [])
