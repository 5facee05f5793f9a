"""People who make a key for themselves: who may, how many, under which names, and what a code does not open."""

import asyncio
from datetime import UTC, datetime, timedelta

import grpc
import pytest

from grader import errors
from grader.api.client import GraderClient
from grader.ledger import Ledger
from grader.model import Scope
from grader.problems.competition_store import Competitions
from grader.problems.store import Problems
from grader.rules.identities import user_names
from grader.server.auth import METHODS
from grader.server.registering import ADDRESS_LIMIT, Registering
from grader.server.running import serving
from grader.v1 import grader_service_pb2 as api
from tests import fakes
from tests.clock import Clock
from tests.server.competition_files import NOW, toml
from tests.server.keyed import bearer, call
from tests.server.signed_in import reader

CODE, OTHER = "a1b2c3d4e5f6a7b8c9d0", "another-code-of-it-x"
UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


def with_code(name="one", code=CODE, more="", **times):
    return toml(name, more=f'registration_code = "{code}"\n{more}', **times)


class Opened:
    """A server that asks for keys, with pages and a competition whose file tests change."""

    def __init__(self, running, settings, file):
        self.running, self.settings, self.file = running, settings, file

    async def register(self, user, code=CODE):
        async with GraderClient(self.running.address, key=code) as client:
            return await client.register(user)

    async def key(self, user, scopes=tuple(Scope)):
        async with Ledger.open(self.settings.ledger) as ledger:
            return (await ledger.keys.create(user, frozenset(scopes)))[1]


@pytest.fixture
async def opened(settings, place):
    file = place / "competitions" / "competition.toml"
    file.parent.mkdir()
    file.write_text(with_code(more="registration_limit = 3\n"))
    there = settings.model_copy(update={"competitions": (file.parent,), "web": "127.0.0.1:0", "auth": "keys"})
    async with serving(there, fakes.wiring()) as running:
        yield Opened(running, there, file)


async def test_who_has_the_code_gets_a_key_that_submits_and_reads(opened, kernel):
    """Until 30 days after the end, and no more than that: not what administrators may."""
    made = await opened.register("ann")
    assert (made.user, made.competition) == ("ann", "competitions/one")
    assert made.expire_time.ToDatetime(UTC) == NOW + timedelta(hours=1, days=30)
    async with GraderClient(opened.running.address, key=made.key) as ann:
        caller = await ann.get_caller()
        assert caller.user == "ann" and sorted(caller.scopes) == ["read", "submit"]
        submitted = await ann.submit(kernel("accept", competition_id="one"))
        assert (await ann.get_submission(submitted.name)).user == "ann"
        with pytest.raises(errors.PermissionDenied):
            await ann.list_bans("competitions/one")


async def test_a_code_opens_nothing_but_registration(opened):
    """Every other method is as without a key; and what is no code does not register."""
    async with grpc.aio.insecure_channel(opened.running.address) as channel:
        for name in METHODS:
            error = await call(
                channel, name, (bearer(CODE),), api.RegisterRequest(user="x").SerializeToString() if name == "Register" else b""
            )
            assert (error and error.code()) == (None if name == "Register" else UNAUTHENTICATED), name
        for metadata in (
            (),
            (bearer(OTHER),),
            (bearer(""),),
            (("authorization", CODE),),
            (bearer(CODE), bearer(CODE)),
            (bearer(CODE.upper()),),
        ):
            error = await call(channel, "Register", metadata, api.RegisterRequest(user="y").SerializeToString())
            assert error is not None and error.code() is UNAUTHENTICATED and CODE not in str(error.details())


async def test_a_key_is_no_registration_code(opened):
    """An administrator makes keys by a command of the server."""
    with pytest.raises(errors.RegistrationRefused, match="no registration code was sent; send one in place of a key"):
        await opened.register("ann", await opened.key("root"))


async def test_without_a_code_in_the_file_nobody_registers(opened):
    """Off by default; and the empty code is none."""
    root = await opened.key("root")
    opened.file.write_text(toml("one"))
    async with GraderClient(opened.running.address, key=root) as client:
        (change,) = (await client.reload_competitions()).changes
        assert CODE not in str(change) and [key.key for key in change.keys] == ["registration_code", "registration_limit"]
        assert not (await client.get_competition("competitions/one")).registration_open
    with pytest.raises(errors.Unauthenticated, match="this registration code is not known here"):
        await opened.register("ann")


async def test_another_code_ends_the_old_one_and_keys_stay(opened):
    made, root = await opened.register("ann"), await opened.key("root")
    opened.file.write_text(with_code(code=OTHER))
    async with GraderClient(opened.running.address, key=root) as client:
        await client.reload_competitions()
    with pytest.raises(errors.Unauthenticated):
        await opened.register("bob")
    assert (await opened.register("bob", OTHER)).user == "bob"
    async with GraderClient(opened.running.address, key=made.key) as ann:
        assert (await ann.get_caller()).user == "ann"


async def test_a_name_that_was_ever_used_is_taken(opened):
    """By a key, also one that was revoked, by a submission, or by a ban: what is kept under it would be shown to who takes it."""
    async with Ledger.open(opened.settings.ledger) as ledger:
        revoked, _ = await ledger.keys.create("gone", frozenset(Scope))
        await ledger.keys.revoke(revoked.key_id)
        await ledger.submit(fakes.new_submission(user="early"), fakes.problem())
        await ledger.competition_actions.ban("one", "banned", "root", "copied")
    await opened.register("ann")
    for user in ("gone", "early", "banned", "ann"):
        with pytest.raises(errors.RegistrationRefused, match=f"the name '{user}' is taken; choose another"):
            await opened.register(user)
    with pytest.raises(errors.RegistrationRefused, match="the name 'organiser' is reserved"):
        await opened.register("organiser")
    for user in ("", "Ann", "x" * 65, "a b", "a\n"):
        with pytest.raises(errors.InvalidRequest, match="user"):
            await opened.register(user)


async def test_a_name_of_a_user_of_a_provider_is_not_given(opened):
    """Else whoever knows a subject could take all names of that user, who then can't sign in. The control: fewer digits, other letters."""
    for user in user_names("https://login.example.org", "1", {"preferred_username": "ann"}):
        with pytest.raises(errors.RegistrationRefused, match="ends like the name of a user of an identity provider"):
            await opened.register(user)
    for user in ("ann-12345", "ann-123456x", "ann123456"):
        assert (await opened.register(user)).user == user


async def test_two_who_want_one_name_at_once_get_it_once(opened):
    """And a competition takes so many."""
    answers = await asyncio.gather(*(opened.register("ann") for _ in range(5)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in answers) == ["RegisterResponse"] + ["RegistrationRefused"] * 4
    for user in ("bob", "cyd"):
        await opened.register(user)
    with pytest.raises(errors.RegistrationRefused, match="3 have registered for competition 'one', which is its limit"):
        await opened.register("dan")


async def test_the_code_is_shown_to_nobody(opened):
    """A page says how to register, to those who have not; no answer and no page has the code."""
    root = await opened.key("root")
    async with GraderClient(opened.running.address, key=root) as client:
        found = [await client.get_competition("competitions/one"), await client.list_competitions(), await client.reload_competitions()]
        assert found[0].registration_open and CODE not in str(found)
    async with reader(f"http://{opened.running.web_address}") as browser:
        _, text = await browser.get("/competitions/one")
        assert "grader-cli register NAME --code CODE" in text and CODE not in text
        await browser.sign_in(root)
        assert "grader-cli register" not in (await browser.get("/competitions/one"))[1]


async def test_one_address_registers_so_many_a_minute(tmp_path, place):
    """Others go on, and so does it after a minute. A competition that has ended takes nobody."""
    fakes.write_problem(place / "problems", "sum")
    (place / "competition.toml").write_text(with_code(end_h=48))
    competitions = Competitions.load((place / "competition.toml",), Problems.load((place / "problems",)))
    clock = Clock(datetime.now(UTC))
    async with Ledger.open(tmp_path / "l", now=clock) as ledger:
        registering = Registering(ledger, competitions)

        async def register(user, address):
            return await registering.register(api.RegisterRequest(user=user), CODE, address)

        for number in range(ADDRESS_LIMIT):
            clock.pass_s(1)
            await register(f"a{number}", "192.0.2.1")
        with pytest.raises(errors.RegistrationsLimited, match="30 have registered from this address in the last minute") as limited:
            await register("more", "192.0.2.1")
        assert limited.value.retry_s == 31
        await register("more", "192.0.2.2")
        clock.pass_s(31)
        await register("again", "192.0.2.1")
        clock.pass_s(48 * 3600)
        with pytest.raises(errors.RegistrationRefused):
            await register("late", "192.0.2.1")


def test_two_competitions_have_two_codes(place):
    """Else nobody could say which is meant."""
    fakes.write_problem(place / "problems", "sum")
    for name in ("one", "two"):
        (place / name).mkdir()
        (place / name / "competition.toml").write_text(with_code(name))
    with pytest.raises(errors.ProblemInvalid, match=r"registration_code: is that of .* too; write another one") as caught:
        Competitions.load((place,), Problems.load((place / "problems",)))
    assert CODE not in str(caught.value)


@pytest.mark.parametrize("code", ["short", "x" * 65, "with a blank in it"])
def test_a_code_is_long_enough_not_to_be_guessed(place, code):
    """The sentence does not quote it."""
    fakes.write_problem(place / "problems", "sum")
    (place / "competition.toml").write_text(with_code(code=code))
    with pytest.raises(errors.ProblemInvalid, match="write 16 to 64 letters, digits and '-'") as caught:
        Competitions.load((place / "competition.toml",), Problems.load((place / "problems",)))
    assert code not in str(caught.value).partition("registration_code")[2].replace("write 16 to 64", "")
