"""Keys: who gets in, for what, and when no more."""

import asyncio
from collections import Counter
from datetime import UTC, datetime

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from grader import errors
from grader.model import Scope
from grader.rules import keys
from grader.server import auth
from grader.server.auth import Authenticator
from tests.server.keyed import METHODS, SERVICE, STREAMED, bearer, call, keyed_server
from tests.waiting import until

UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
EVERY = frozenset(Scope)


@pytest.fixture
async def keyed(settings):
    async with keyed_server(settings) as server:
        yield server


def codes(answers):
    return {name: error and error.code() for name, error in answers.items()}


def test_every_method_of_the_service_has_its_scope():
    """A new method is refused until somebody says what it needs; this says so before users do."""
    assert set(auth.METHODS) == set(METHODS)
    assert f"/{SERVICE.full_name}/" == auth.PREFIX
    assert {name for name, method in METHODS.items() if method.server_streaming} == STREAMED


async def wrong_metadata(keyed):
    """Everything that must not get in, by what is wrong with it."""
    good, other_key = await keyed.key(), await keyed.key()
    revoked = await keyed.key()
    await keyed.revoke(revoked)
    key_id, secret = good.split("_")[1:]
    return {
        "none": [],
        "not bearer": [("authorization", good)],
        "basic": [("authorization", f"Basic {good}")],
        "malformed": [bearer("secret")],
        "upper case": [bearer(good.upper())],
        "newline": [("authorization", f"Bearer {good} x")],
        "two keys": [bearer(good), bearer(good)],
        "unknown": [bearer(keys.new("x", EVERY, datetime.now(UTC))[1])],
        "secret of another": [bearer(f"grader_{key_id}_{other_key.split('_')[2]}")],
        "digest as secret": [bearer(f"grader_{key_id}_{keys.digest(secret)}")],
        "expired": [bearer(await keyed.key(lasting_s=-1))],
        "revoked": [bearer(revoked)],
    }


async def test_without_a_valid_key_every_method_is_unauthenticated(keyed):
    """Missing, malformed, unknown, wrong, expired, revoked: on each method, whatever else the request says."""
    for case, metadata in (await wrong_metadata(keyed)).items():
        assert set(codes(await keyed.answers(*metadata)).values()) == {UNAUTHENTICATED}, case


async def test_the_same_calls_get_through_where_no_keys_are_asked_for(settings):
    """The control: it was the key, and nothing else about these calls."""
    async with keyed_server(settings, auth="auto") as open_server:
        for metadata in (await wrong_metadata(open_server)).values():
            assert not {UNAUTHENTICATED, DENIED} & set(codes(await open_server.answers(*metadata)).values())


@pytest.mark.parametrize("scopes", [(Scope.SUBMIT,), (Scope.READ,), (Scope.ADMIN,), (Scope.SUBMIT, Scope.READ), tuple(Scope)])
async def test_a_key_opens_what_its_scopes_say_and_nothing_else(keyed, scopes):
    """PERMISSION_DENIED names the scope that is missing."""
    answers = await keyed.answers(bearer(await keyed.key(scopes=scopes)))
    denied = {name for name, code in codes(answers).items() if code is DENIED}
    assert denied == {name for name, scope in auth.METHODS.items() if scope is not None and scope not in scopes}
    assert all(f"the scope '{auth.METHODS[name]}'" in answers[name].details() for name in denied)
    assert UNAUTHENTICATED not in codes(answers).values()


async def test_an_unknown_key_and_a_wrong_secret_are_told_the_same(keyed):
    """Whoever guesses does not learn which ids there are."""
    metadata = await wrong_metadata(keyed)
    details = {(await keyed.answers(*metadata[case]))["GetCaller"].details() for case in ("unknown", "secret of another")}
    assert len(details) == 1


@pytest.mark.parametrize("method", ["Submit", "WatchSubmission"])
async def test_a_stranger_is_refused_before_its_request_is_taken(keyed, method):
    """Or many of them would fill the memory. The control has a key, and its request, which never comes, is waited for."""

    async def never():
        await asyncio.Event().wait()
        yield b""

    async def code_of(limit_s: float, *metadata: tuple[str, str]) -> grpc.StatusCode:
        async with grpc.aio.insecure_channel(keyed.address) as channel:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                async for _ in channel.stream_stream(f"/{SERVICE.full_name}/{method}")(never(), metadata=metadata, timeout=limit_s):
                    pass
        return refused.value.code()

    assert await code_of(60) is UNAUTHENTICATED
    assert await code_of(60, bearer(await keyed.key(scopes=[Scope.ADMIN]))) is DENIED
    assert await code_of(0.7, bearer(await keyed.key())) is grpc.StatusCode.DEADLINE_EXCEEDED


async def services(address, *metadata):
    """Return the services that reflection lists for a call with this metadata."""

    async def requests():
        yield reflection_pb2.ServerReflectionRequest(list_services="")

    async with grpc.aio.insecure_channel(address) as channel:
        answers = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(requests(), metadata=metadata, timeout=60)
        return {service.name async for answer in answers for service in answer.list_services_response.service}


async def test_reflection_asks_for_a_key(keyed):
    """Every valid one will do."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await services(keyed.address)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert SERVICE.full_name in await services(keyed.address, bearer(await keyed.key(scopes=(Scope.SUBMIT,))))


async def test_reflection_is_open_where_no_keys_are_asked_for(client):
    """As everything is: the control."""
    assert SERVICE.full_name in await services(client.address)


async def test_a_caller_is_told_who_it_is(keyed):
    """User, scopes, key and its end; without keys an empty user with all scopes."""
    text = await keyed.key("alice", (Scope.READ,), lasting_s=3600)
    async with keyed.client(text) as client:
        caller = await client.get_caller()
    assert (caller.user, list(caller.scopes), caller.key_id) == ("alice", ["read"], text.split("_")[1])
    assert 0 < caller.expire_time.ToDatetime(UTC).timestamp() - datetime.now(UTC).timestamp() <= 3600


async def test_without_keys_everybody_is_nobody_with_all_scopes(client):
    """As on one's own host."""
    caller = await client.get_caller()
    assert (caller.user, set(caller.scopes), caller.key_id) == ("", {"submit", "read", "admin"}, "")


async def test_a_key_works_as_soon_as_it_is_made(keyed):
    """Though others were read just before, for `grader-cli login` follows at once."""
    for _ in range(3):
        async with keyed.client(await keyed.key()) as client:
            assert (await client.get_caller()).user == "alice"


@pytest.mark.slow
async def test_a_revoked_key_is_refused_within_seconds(keyed, monkeypatch):
    """Though it was used before: the first call after REFRESH_S, by a clock that the test moves."""
    usual, passed_s = auth._now_s, [0.0]
    monkeypatch.setattr(auth, "_now_s", lambda: usual() + passed_s[0])
    text = await keyed.key()
    async with keyed.client(text) as client:
        await client.get_caller()
        await keyed.revoke(text)
        passed_s[0] = auth.REFRESH_S
        with pytest.raises(errors.Unauthenticated, match="revoked"):
            await client.get_caller()
    assert auth.REFRESH_S <= 5


@pytest.mark.slow
async def test_a_watch_ends_when_its_key_is_revoked(keyed, kernel):
    """Within seconds, though nothing happens to the submission; the watch of another key goes on."""
    text, other_text = await keyed.key(), await keyed.key()
    async with keyed.client(text) as client, keyed.client(other_text) as stays:
        name = (await client.submit(kernel("hang"))).name
        counts = Counter()

        async def follow(who, key):
            async for _ in who.watch(name):
                counts[key] += 1

        ending, going = asyncio.create_task(follow(client, text)), asyncio.create_task(follow(stays, other_text))
        await until(lambda: min(counts[text], counts[other_text]) >= 3)
        await keyed.revoke(text)
        with pytest.raises(errors.Unauthenticated, match="revoked"):
            await asyncio.wait_for(ending, 300)
        assert not going.done()
        await stays.cancel(name)
        await asyncio.wait_for(going, 300)


async def test_a_request_that_cannot_be_read_is_not_looked_at_without_a_key(keyed):
    """Strangers learn nothing of how requests are read."""
    async with grpc.aio.insecure_channel(keyed.address) as channel:
        refused = await call(channel, "Submit", (), b"\xff\xff")
        read = await call(channel, "Submit", (bearer(await keyed.key()),), b"\xff\xff")
    assert (refused.code(), read.code()) == (UNAUTHENTICATED, grpc.StatusCode.INVALID_ARGUMENT)


class CountedKeys:
    """Keys in memory, that count how often they are read."""

    def __init__(self, *stored):
        self.stored, self.read_count = list(stored), 0

    def now(self):
        return datetime.now(UTC)

    async def all(self):
        self.read_count += 1
        await asyncio.sleep(0)
        return list(self.stored)


def stored_key(scopes=EVERY):
    return keys.new("alice", scopes, datetime.now(UTC))


async def test_known_keys_cost_no_read_of_the_database_a_call(monkeypatch):
    """A single read does for all calls of the next seconds."""
    now_s = [100.0]
    monkeypatch.setattr(auth, "_now_s", lambda: now_s[0])
    key, text = stored_key()
    counted = CountedKeys(key)
    gate = Authenticator(counted)
    for count in (1, 2):
        for _ in range(500):
            await gate.admit(auth.PREFIX + "Submit", [bearer(text)])
        assert counted.read_count == count
        now_s[0] += auth.REFRESH_S + 0.1


async def test_guessing_keys_reads_the_database_now_and_then_only():
    """A hundred unknown keys at once are one read, or two where they come while one is under way."""
    key, _ = stored_key()
    counted = CountedKeys(key)
    gate = Authenticator(counted)
    guesses = [gate.admit(auth.PREFIX + "Submit", [bearer(stored_key()[1])]) for _ in range(100)]
    results = await asyncio.gather(*guesses, return_exceptions=True)
    assert all(isinstance(result, errors.Unauthenticated) for result in results)
    assert counted.read_count <= 2


@pytest.mark.parametrize("method", [auth.PREFIX + "NewMethod", "/grader.v1.OtherService/Submit", "Submit", ""])
async def test_a_method_that_is_not_in_the_table_is_refused(method):
    """Even to a key with every scope: whoever adds a method has to say what it needs."""
    key, text = stored_key()
    gate = Authenticator(CountedKeys(key))
    await gate.admit(auth.PREFIX + "Submit", [bearer(text)])
    with pytest.raises(errors.PermissionDenied):
        await gate.admit(method, [bearer(text)])


async def test_a_ledger_that_cannot_be_read_lets_nobody_in():
    """Closed, not open."""
    key, text = stored_key()

    class Broken(CountedKeys):
        async def all(self):
            raise errors.LedgerBusy("locked")

    with pytest.raises(errors.LedgerBusy):
        await Authenticator(Broken(key)).admit(auth.PREFIX + "GetCaller", [bearer(text)])
