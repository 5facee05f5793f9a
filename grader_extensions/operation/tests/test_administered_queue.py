"""An administrator puts a submission first, whatever database is under the queue."""

import pytest

from grader.errors import SubmissionNotFound
from grader_extensions.operation import admin_queue
from grader_extensions.operation.admin_queue import entries
from sandbox.protocol import wire
from tests import fakes
from tests.contract.test_queue_order import FAULT, lease, submit


async def take_first(ledger, submission_id):
    await ledger.database.write(lambda connection: admin_queue.take_first(connection, submission_id))


async def test_what_an_administrator_puts_first_is_taken_up_first(ledger, clock):
    """Before those that were there and those of a quicker mode; it keeps its place. Only one that waits can be put there."""
    (running,) = await submit(ledger, "running")
    leased = await lease(ledger)
    await submit(ledger, "test", 2, mode=wire.Mode.TEST)
    (last,) = await submit(ledger, "ranked", mode=wire.Mode.RANKED, competition_id="spring")
    assert [entry.user for entry in await ledger.database.read(entries)] == ["running", "test", "test", "ranked"]
    await take_first(ledger, last)
    queue = await ledger.database.read(entries)
    assert [entry.user for entry in queue] == ["running", "ranked", "test", "test"]
    assert [(entry.state, entry.worker_id) for entry in queue[:2]] == [("running", "w"), ("queued", "")]
    assert (queue[1].competition_id, queue[1].mode, queue[1].since) == ("spring", "ranked", clock())
    first = await lease(ledger)
    assert first.submission.submission_id == last
    await ledger.release(first, FAULT)
    assert (await lease(ledger)).submission.submission_id == last
    for submission_id in (running, last):
        with pytest.raises(ValueError, match="is RUNNING; only one that waits"):
            await take_first(ledger, submission_id)
    with pytest.raises(SubmissionNotFound):
        await take_first(ledger, "none")
    await ledger.settle(leased, fakes.report())


async def test_one_of_the_class_batch_can_be_put_first(ledger):
    """The control: before, it was behind all others."""
    draft, problem = fakes.new_submission(user="own"), fakes.problem()
    last = await ledger.submit(draft, problem, batch=True)
    first = await ledger.submit(draft, problem)
    waiting = [entry.submission_id for entry in await ledger.database.read(entries)]
    assert waiting == [first.submission_id, last.submission_id]
    await take_first(ledger, last.submission_id)
    assert (await lease(ledger)).submission.submission_id == last.submission_id
