"""Keys in the ledger, in each database."""

from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from grader.ledger import Ledger
from grader.ledger.tables import keys
from grader.model import Scope
from tests.clock import Clock

START = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock():
    return Clock(START, step_s=1)


async def test_a_key_comes_back_as_it_was_made(ledger, location):
    """From another server's ledger too, with its times in UTC. Of its secret only a digest is written, which opens nothing."""
    key, text = await ledger.keys.create(
        "alice", frozenset({Scope.SUBMIT, Scope.READ}), expire_time=START + timedelta(days=90), note="a note"
    )
    row = await ledger.database.read(lambda connection: connection.execute(sa.select(keys)).one())
    assert text.split("_")[2] not in str(row) and key.secret_digest in str(row)
    second_key, _ = await ledger.keys.create("bob", frozenset(Scope))
    async with Ledger.open(location) as second:
        assert await second.keys.all() == [key, second_key]


async def test_a_revoked_key_stays_revoked_from_the_first_time_on(ledger):
    """A second time changes nothing, and other keys are left alone."""
    key, _ = await ledger.keys.create("alice", frozenset(Scope))
    second_key, _ = await ledger.keys.create("alice", frozenset(Scope))
    first = await ledger.keys.revoke(key.key_id)
    assert first.revoke_time is not None and not first.valid(START)
    assert await ledger.keys.revoke(key.key_id) == first
    assert await ledger.keys.all() == [first, second_key]
    assert await ledger.keys.revoke("none") is None
