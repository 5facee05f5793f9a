"""When events of secret workloads are shown."""

from dataclasses import replace

import pytest

from grader.ledger import Ledger
from grader.rules.disclosure import Redactor
from grader.server.submission_watch import BATCH, RedactedEvents
from sandbox.protocol import wire
from tests import fakes

PROBLEM = replace(fakes.problem(), competition_id="one")
BEGIN = wire.Progress(stage=wire.Stage.VERIFYING, workload_id="secret33")
TRIAL = fakes.trial("secret33", hidden=True)
PUBLIC = fakes.trial()


@pytest.fixture
async def ledger(tmp_path):
    async with Ledger.open(tmp_path / "ledger") as opened:
        yield opened


@pytest.fixture
async def lease(ledger):
    await ledger.submit(fakes.new_submission(), PROBLEM)
    return await ledger.lease("w", ttl_s=100)


async def watcher(ledger, lease, after=0, problem=PROBLEM):
    events = RedactedEvents(ledger, lease.submission.submission_id, Redactor.for_problem(problem))
    await events.begin(after)
    return events


async def sequences(watching, after):
    return [event.sequence for event in await watching.after(after)]


async def test_of_secret_events_the_first_is_told_and_the_rest_when_all_is_over(ledger, lease):
    """Sequences 1 and 2 are the states, 3 is public, 4 to 7 are secret."""
    watching = await watcher(ledger, lease)
    await ledger.append(lease, [PUBLIC, BEGIN])
    assert await sequences(watching, 0) == [1, 2, 3, 4]
    for fact in (TRIAL, BEGIN, TRIAL):
        await ledger.append(lease, [fact])
        assert await sequences(watching, 4) == []
    await ledger.append(lease, [fakes.ENVIRONMENT])
    assert await sequences(watching, 4) == [5, 6, 7, 8]


async def test_the_end_tells_everything(ledger, lease):
    """Also where the last thing that happened is secret."""
    watching = await watcher(ledger, lease)
    await ledger.append(lease, [BEGIN, TRIAL])
    assert await sequences(watching, 0) == [1, 2, 3]
    await ledger.settle(lease, fakes.report())
    assert await sequences(watching, 3) == [4, 5]


@pytest.mark.parametrize("after", [3, 4, 5, 9])
async def test_to_watch_again_and_again_tells_no_more(ledger, lease, after):
    """From within a run, or from behind what is there, nothing of it is shown at once."""
    await ledger.append(lease, [BEGIN, TRIAL])
    watching = await watcher(ledger, lease, after=after)
    await ledger.append(lease, [TRIAL] * 8)
    assert await sequences(watching, after) == []


async def test_outside_of_a_competition_all_is_told_at_once(ledger, lease):
    """The control."""
    watching = await watcher(ledger, lease, problem=fakes.problem())
    await ledger.append(lease, [BEGIN, TRIAL])
    assert await sequences(watching, 0) == [1, 2, 3, 4]


async def test_a_run_that_is_longer_than_a_batch_is_no_dead_end(ledger, lease):
    """The fact that ends it is looked for behind the batch."""
    watching = await watcher(ledger, lease)
    await ledger.append(lease, [TRIAL] * (2 * BATCH))
    assert await sequences(watching, 0) == [1, 2, 3]
    await ledger.append(lease, [PUBLIC])
    assert await sequences(watching, 3) == list(range(4, 2 * BATCH + 4))
