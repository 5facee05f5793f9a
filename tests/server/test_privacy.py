"""A user's submission is not there for another."""

import uuid
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import pytest

from grader import access, errors
from grader.ledger import Ledger
from grader.model import Caller, Scope
from grader.v1 import submission_pb2
from tests import fakes
from tests.server.keyed import keyed_server

NOW = datetime(2026, 5, 2, 12, tzinfo=UTC)
ALICE, BOB = (Caller(user=name, scopes=frozenset({Scope.SUBMIT, Scope.READ}), key_id=name) for name in ("alice", "bob"))
ROOT = Caller(user="root", key_id="root")
NOBODY = Caller()  # of a server that asks for no keys
NONE_SUCH = "submissions/0123456789abcdef"


@pytest.fixture
async def people(settings):
    """Clients of alice, bob, and root, who is an administrator."""
    async with keyed_server(settings) as keyed, AsyncExitStack() as stack:
        scopes = {"alice": (Scope.SUBMIT, Scope.READ), "bob": (Scope.SUBMIT, Scope.READ), "root": tuple(Scope)}
        keys = {name: await keyed.key(name, allowed) for name, allowed in scopes.items()}
        yield {name: await stack.enter_async_context(keyed.client(key)) for name, key in keys.items()}


@pytest.fixture
async def ledger(place):
    async with Ledger.open(place / "ledger.sqlite3", lambda: NOW) as opened:
        yield opened


async def watched(client, name):
    return [event async for event in client.watch(name)]


READS = {
    "source and report": lambda client, name: client.get_submission(name, full=True),
    "events": watched,
    "cancellation": lambda client, name: client.cancel(name),
}


@pytest.mark.parametrize("method", READS)
async def test_what_is_anothers_is_answered_as_what_is_not_there(people, kernel, method):
    """The same error in every word, for one that runs and for one that has finished; nothing is changed by asking."""
    for order in ("accept", "hang"):
        submission = await people["alice"].submit(kernel(order))
        if order == "accept":
            await watched(people["alice"], submission.name)
        with pytest.raises(errors.SubmissionNotFound) as refusal:
            await READS[method](people["bob"], submission.name)
        with pytest.raises(errors.SubmissionNotFound) as none:
            await READS[method](people["bob"], NONE_SUCH)
        assert str(refusal.value) == str(none.value).replace(
            NONE_SUCH.removeprefix("submissions/"), submission.name.removeprefix("submissions/")
        )
        current = await people["alice"].get_submission(submission.name)
        assert current.state != submission_pb2.SUBMISSION_STATE_CANCELLED


@pytest.mark.parametrize("who", ["alice", "root"])
async def test_its_owner_and_administrators_read_and_cancel_it(people, kernel, who):
    """The control for all refusals above."""
    submission = await people["alice"].submit(kernel("hang"))
    reply = await people[who].get_submission(submission.name, full=True)
    assert reply.user == "alice" and "hang" in reply.sources[0].content
    await people[who].cancel(submission.name)
    assert (await watched(people[who], submission.name))[-1].submission.state == submission_pb2.SUBMISSION_STATE_CANCELLED


async def test_without_keys_everybody_reads_everything(settings, kernel):
    """The control: on one's own host there is one user."""
    async with keyed_server(settings, auth="none") as open_server, open_server.client() as first, open_server.client() as second:
        submission = await first.submit(kernel())
        assert (await second.get_submission(submission.name)).sources
        assert [entry.name for entry in (await second.list_submissions()).submissions] == [submission.name]


async def names(client, **fields):
    return {submission.name for submission in (await client.list_submissions(**fields)).submissions}


async def test_a_list_shows_ones_own_and_an_administrator_all(people, kernel):
    """Also where another's are asked for by name, or by a page token that is another's."""
    names_of = {name: {(await people[name].submit(kernel())).name for _ in range(2)} for name in ("alice", "bob")}
    assert await names(people["bob"]) == names_of["bob"]
    assert await names(people["bob"], user="bob") == names_of["bob"]
    assert await names(people["bob"], user="alice") == set()
    assert await names(people["root"]) == names_of["alice"] | names_of["bob"]
    assert await names(people["root"], user="alice") == names_of["alice"]
    token = (await people["root"].list_submissions(page_size=1)).next_page_token
    assert await names(people["alice"], page_size=1, page_token=token) <= names_of["alice"]


@pytest.mark.parametrize("user", ["Alice", "a b", "../x", "x" * 65, "a\n", "é"])
async def test_a_user_name_that_nobody_can_have_is_said(client, user):
    """A field violation, not an empty list."""
    with pytest.raises(errors.InvalidRequest, match="user name"):
        await client.list_submissions(user=user)


async def test_two_users_may_have_one_request_id(people, kernel):
    """Nobody gets another's submission by it, and the same user gets the first again."""
    request_id = str(uuid.uuid4())
    submissions = {name: await people[name].submit(kernel(), request_id=request_id) for name in ("alice", "bob")}
    assert submissions["alice"].name != submissions["bob"].name and (submissions["alice"].user, submissions["bob"].user) == ("alice", "bob")
    assert (await people["bob"].submit(kernel(), request_id=request_id)).name == submissions["bob"].name


async def test_nobody_says_whose_a_submission_is(people, kernel):
    """The field `user` of a request is output only: the key says it."""
    forged = kernel()
    forged.user = "bob"
    assert (await people["alice"].submit(forged)).user == "alice"


READABLE = frozenset({"over"})
READABLE_BY_OTHERS = {"over": True, "running": False, "private": False, "gone": False, "": False}


@pytest.mark.parametrize("competition_id", READABLE_BY_OTHERS)
async def test_others_read_what_a_competition_has_opened(ledger, competition_id):
    """An administrator always, and who asks for no keys."""
    submission = await ledger.submit(fakes.new_submission(user="alice", competition_id=competition_id), fakes.problem())
    for caller, sees in ((ALICE, True), (BOB, READABLE_BY_OTHERS[competition_id]), (ROOT, True), (NOBODY, True)):
        listing_filter = access.submission_filter(caller, "", competition_id or "any", READABLE)
        if competition_id:
            assert bool((await ledger.page(size=10, submission_filter=listing_filter))[0]) is sees
        if sees:
            access.check_seen(caller, submission, READABLE)
        else:
            with pytest.raises(errors.SubmissionNotFound):
                access.check_seen(caller, submission, READABLE)


async def test_nobody_cancels_anothers_after_the_end_either(ledger):
    """Reading is all that is opened."""
    submission = await ledger.submit(fakes.new_submission(user="alice", competition_id="over"), fakes.problem())
    access.check_owned(ALICE, submission)
    with pytest.raises(errors.SubmissionNotFound):
        access.check_owned(BOB, submission)


async def test_ones_own_list_is_not_all_that_was_opened(ledger):
    """Other users' submissions are listed where they are asked for: by user or by competition."""
    for user in ("alice", "bob"):
        await ledger.submit(fakes.new_submission(user=user, competition_id="over"), fakes.problem())
    listed = {}
    for query in (("", ""), ("alice", ""), ("", "over"), ("alice", "over"), ("alice", "running")):
        page, _ = await ledger.page(size=10, submission_filter=access.submission_filter(BOB, *query, READABLE))
        listed[query] = {submission.new.user for submission in page}
    assert list(listed.values()) == [{"bob"}, {"alice"}, {"alice", "bob"}, {"alice"}, set()]
