"""What a submission asks of its measurement, in the ledger, whatever database is under it."""

from grader.ledger import Ledger
from tests import fakes


async def test_they_read_back_as_they_were_written(location):
    """After the ledger was closed, too; where nothing is asked for, nothing is."""
    async with Ledger.open(location) as first:
        made = await first.submit(fakes.new_submission(precision=0.005, measure_s=2.5), fakes.problem())
        bare = await first.submit(fakes.new_submission(), fakes.problem())
    async with Ledger.open(location) as second:
        new = (await second.get(made.submission_id)).new
        assert (new.precision, new.measure_s) == (0.005, 2.5)
        new = (await second.get(bare.submission_id)).new
        assert new.precision is None and new.measure_s is None
