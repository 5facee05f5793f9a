"""Users of an identity provider in the ledger, in each database."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from grader.errors import Unauthenticated
from grader.ledger import Ledger
from grader.ledger.tables import bans
from grader_extensions.web.provider_users import SCOPES, Identities
from tests import fakes
from tests.clock import Clock

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
ISSUER, NAMES, NOTE = "https://login.example.org", ("ann-1", "ann-12", "ann-123"), "sign-in with Example"


@pytest.fixture
def clock():
    return Clock(START)


async def test_a_subject_is_the_same_user_each_time(ledger, location):
    """Whatever the names are by then, and on another server; another issuer's subject is another user."""
    first = await Identities(ledger).enter(ISSUER, "1", NAMES, NOTE)
    assert (first.user, first.scopes, first.expire_time) == ("ann-1", SCOPES, None)
    async with Ledger.open(location, lambda: START) as second:
        assert await Identities(second).enter(ISSUER, "1", ("bob",), NOTE) == first
        assert (await Identities(second).enter(f"{ISSUER}/", "1", NAMES, NOTE)).user == "ann-12"
    assert [(key.user, key.note, key.scopes) for key in await ledger.keys.all() if key.key_id == first.key_id] == [("ann-1", NOTE, SCOPES)]


async def test_a_name_that_somebody_has_is_not_given(ledger):
    """Of a key, also one that was revoked, of a submission, or of a ban; without a free name nobody is entered."""
    key, _ = await ledger.keys.create("ann-1", SCOPES)
    await ledger.keys.revoke(key.key_id)
    await ledger.submit(fakes.new_submission(user="ann-12"), fakes.problem())
    ban = {"competition_id": "one", "user_name": "ann-123", "administrator": "root", "reason": "copied", "create_time": START}
    await ledger.database.write(lambda connection: connection.execute(sa.insert(bans).values(ban)))
    with pytest.raises(ValueError, match="taken"):
        await Identities(ledger).enter(ISSUER, "1", NAMES, NOTE)
    assert (await Identities(ledger).enter(ISSUER, "1", (*NAMES, "ann-1234"), NOTE)).user == "ann-1234" and len(
        await ledger.keys.all()
    ) == 2


async def test_two_that_enter_at_once_are_two_users_or_one(ledger, location):
    """Of one subject one, of two subjects two, with two names."""
    async with Ledger.open(location, lambda: START) as second:
        both = (ledger, second)
        same = await asyncio.gather(*(Identities(database).enter(ISSUER, "1", NAMES, NOTE) for database in both * 3))
        different = await asyncio.gather(*(Identities(database).enter(ISSUER, str(n), NAMES, NOTE) for n, database in enumerate(both, 2)))
    assert {caller.user for caller in same} == {"ann-1"} and {caller.user for caller in different} == {"ann-12", "ann-123"}
    assert len(await ledger.keys.all()) == 3


async def test_a_user_has_one_api_key(ledger):
    """The next one revokes the one before, and nothing else."""
    caller, second = [await Identities(ledger).enter(ISSUER, subject, NAMES, NOTE) for subject in "12"]
    theirs = await Identities(ledger).replace_api_key(second.key_id, START + timedelta(days=1))
    keys = [await Identities(ledger).replace_api_key(caller.key_id, START + timedelta(days=1)) for _ in range(2)]
    valid = {key.key_id for key in await ledger.keys.all() if key.valid(START)}
    assert valid == {caller.key_id, second.key_id, keys[1].split("_")[1], theirs.split("_")[1]}
    identity = await Identities(ledger).of_session_key(caller.key_id)
    assert (identity.user, identity.subject, identity.api_key.key_id) == ("ann-1", "1", keys[1].split("_")[1])
    assert await Identities(ledger).of_session_key(identity.api_key.key_id) is None


async def test_revoking_the_session_key_revokes_the_api_key(ledger):
    """And no other is made. The control is revoking the API key alone."""
    caller = await Identities(ledger).enter(ISSUER, "1", NAMES, NOTE)
    text = await Identities(ledger).replace_api_key(caller.key_id, START + timedelta(days=1))
    await ledger.keys.revoke(text.split("_")[1])
    assert {key.key_id for key in await ledger.keys.all() if key.valid(START)} == {caller.key_id}
    await Identities(ledger).replace_api_key(caller.key_id, START + timedelta(days=1))
    await ledger.keys.revoke(caller.key_id)
    assert not [key for key in await ledger.keys.all() if key.valid(START)]
    with pytest.raises(Unauthenticated):
        await Identities(ledger).replace_api_key(caller.key_id, START + timedelta(days=1))
    with pytest.raises(Unauthenticated):
        await Identities(ledger).replace_api_key("none", START)
