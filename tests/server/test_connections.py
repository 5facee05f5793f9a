"""Connections of strangers: how many the web port holds and for how long, and what is left for gRPC and boxes."""

import asyncio
import contextlib
import subprocess
import sys

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grader.config import Settings
from grader.errors import SettingsInvalid
from grader.peers import PeerLimits, caller_of
from grader.server.connections import LEAST_RESERVED, RESERVED, connections_within, grpc_options, health_limits, web_limits
from grader.server.web_port import application, web_serving
from tests.server.keyed import keyed_server

HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "
WIDE = PeerLimits(total=1000, per_address=1000)
NO_LIMIT_S = 3600.0  # aiohttp's own


@contextlib.asynccontextmanager
async def port(**options):
    """The web port, with nothing behind it."""

    async def nothing():
        return ()

    app = application(scrape=lambda: asyncio.sleep(0, b""), unready=nothing)
    async with web_serving("127.0.0.1:0", app, **options) as address:
        yield int(address.rsplit(":", 1)[1])


@contextlib.asynccontextmanager
async def connected(number, count=1, sent=b""):
    """Connections on which this was sent."""
    opened = [await asyncio.open_connection("127.0.0.1", number) for _ in range(count)]
    for _, writer in opened:
        writer.write(sent)
    try:
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def closed(reader):
    """Wait until the other side closes."""
    async with asyncio.timeout(300):
        with contextlib.suppress(ConnectionError):
            await reader.read()
    return True


async def status(number, path="/healthz"):
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{number}{path}") as answer:
        return answer.status


async def test_half_a_header_is_not_waited_for():
    """Nor is nothing at all; nor half a header behind an answered request; and what comes slowly does not put it off."""
    async with port(header_s=0.2) as number:
        for sent in (HALF, b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" + HALF):
            async with connected(number, sent=sent) as (reader,):
                assert await closed(reader)
        async with asyncio.timeout(300):
            _, writer = await asyncio.open_connection("127.0.0.1", number)
            with contextlib.suppress(ConnectionError):
                writer.write(HALF)
                while not writer.is_closing():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            writer.transport.abort()
        assert await status(number) == 200


async def test_without_the_limit_half_a_header_is_waited_for():
    """The control: while others are answered, many times over, it is still open."""
    async with port(header_s=NO_LIMIT_S) as number, connected(number, sent=HALF) as (reader,):
        for _ in range(20):
            assert await status(number) == 200
            await asyncio.sleep(0.02)
        assert not reader.at_eof()


@pytest.mark.parametrize("limits", [PeerLimits(total=3, per_address=1000), PeerLimits(total=1000, per_address=3)])
async def test_a_connection_too_many_is_closed_and_one_that_ends_makes_room(limits):
    """In all, and from one address. The control: within the limits, as many connections are held and a request is answered."""
    async with port(limits=WIDE) as number, connected(number, 4, HALF):
        assert await status(number) == 200
    async with port(limits=limits) as number:
        async with connected(number, 3, HALF) as readers, connected(number, sent=HALF) as (excess,):
            assert await closed(excess) and not any(reader.at_eof() for reader in readers)
        async with asyncio.timeout(300):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    assert await status(number) == 200
                    return


async def test_connections_of_a_trusted_proxy_are_not_of_one_address():
    """They count in all. The control trusts none."""
    for proxies, total, held_count in ((("127.0.0.1",), 9, 4), (("127.0.0.1",), 2, 2), ((), 9, 1)):
        limits = PeerLimits(total=total, per_address=1, proxies=proxies)
        async with port(limits=limits) as number, connected(number, held_count, HALF) as readers:
            if held_count < total and proxies:
                assert await status(number) == 200
            else:
                async with connected(number, sent=HALF) as (excess,):
                    assert await closed(excess)
            assert not any(reader.at_eof() for reader in readers)


async def test_a_caller_behind_a_trusted_proxy_has_so_many_of_its_connections():
    """Whose bodies never come; with one too many it is closed, and another caller is answered. The control trusts no proxy."""

    def sent(caller, rest="", method="GET"):
        return f"{method} /healthz HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.9, {caller}\r\n{rest}\r\n".encode()

    never, ann, bob = ("Content-Length: 9\r\n", "POST"), "192.0.2.1", "192.0.2.2"
    limits = PeerLimits(total=9, per_address=2, proxies=("127.0.0.1",))
    async with port(limits=limits) as number, connected(number, sent=sent(ann)) as (open_reader,):
        assert (await open_reader.readline()).split()[1] == b"200"
        async with connected(number, sent=sent(ann) + sent(bob)) as (shared,):
            assert b"200" in await shared.readuntil(b"ok\n") and b"200" in await shared.readuntil(b"ok\n")
            async with connected(number, sent=sent(ann, *never)) as (pending,), connected(number, sent=sent(ann)) as (excess,):
                assert b"405" in await pending.readline() and await excess.read() == b""
                async with connected(number, sent=sent(bob)) as (bob_reader,):
                    assert b"200" in await bob_reader.readline()
    async with port(limits=PeerLimits(total=9, per_address=9)) as number, connected(number, 4, sent(ann, *never)) as readers:
        assert [b"405" in await reader.readline() for reader in readers] == [True] * 4


async def test_many_requests_on_one_connection_are_answered():
    """The honest case: the limit counts connections, and a header that comes in time is no half one."""
    async with port(limits=PeerLimits(total=1, per_address=1), header_s=5.0) as number, aiohttp.ClientSession() as session:
        for _ in range(5):
            async with session.get(f"http://127.0.0.1:{number}/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok\n")


@pytest.mark.parametrize(("limit", "answered"), [(2, [True, True, False]), (4096, [True, True, True])])
async def test_the_api_has_so_many_connections(settings, limit, answered):
    """A connection too many is closed. The control: with the usual limit it is not."""
    async with keyed_server(settings, connection_limit=limit, listen="127.0.0.1:0") as server, contextlib.AsyncExitStack() as stack:
        answers = []
        for _ in range(3):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = await stack.enter_async_context(grpc.aio.insecure_channel(server.address, options=options))
            try:
                await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
                answers.append(True)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.UNAVAILABLE
                answers.append(False)
    assert answers == answered


def test_descriptors_are_left_for_boxes_and_the_ledger():
    """Connections get as many as asked for, or in proportion fewer."""
    assert connections_within(65_536, 4096, 512) == (4096, 512)
    for descriptors in (64, 128, 256, 1024, 2048, 4096):
        api, web = connections_within(descriptors, 4096, 512)
        assert api > web > 0 and descriptors - api - web >= min(RESERVED, max(LEAST_RESERVED, descriptors // 2))
    with pytest.raises(SettingsInvalid, match="50 files, which leaves none for callers; raise that limit: ulimit -n"):
        connections_within(50, 4096, 512)


def test_a_server_process_raises_its_limit_of_descriptors():
    """To what the system allows. The control: before, it is what the shell gave."""
    limits = "print(*resource.getrlimit(resource.RLIMIT_NOFILE))"  # lowered by the program: a fork next to gRPC's threads may abort
    program = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (256, 600))\n{limits}\n"
    program += f"from grader.server.connections import raise_descriptor_limit\nraise_descriptor_limit(700)\n{limits}"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["256", "600", "600", "600"]


def test_the_settings_reach_grpc_and_the_web_port():
    """Each has one of its own."""
    settings = Settings(connection_limit=11, web_connection_limit=12, web_address_limit=13, health_call_limit=14, health_address_limit=15)
    assert dict(grpc_options(settings))["grpc.max_allowed_incoming_connections"] == 11
    assert settings.trusted_proxy == () and not settings.asks_keys
    assert web_limits(settings) == PeerLimits(total=12, per_address=13)
    assert health_limits(settings) == PeerLimits(total=14, per_address=15)


@pytest.mark.parametrize(("options", "asks_keys"), [({}, True), ({"auth": "none"}, False), ({"trusted_proxy": ()}, False)])
def test_a_server_behind_a_proxy_requires_keys(options, asks_keys):
    """Others reach its own host through it; the controls are without a proxy, and without keys on purpose."""
    settings = Settings(**{"trusted_proxy": ("127.0.0.1", "0:0::1"), **options})
    assert settings.asks_keys is asks_keys and settings.loopback is not bool(settings.trusted_proxy)
    assert web_limits(settings).proxies == settings.trusted_proxy and set(settings.trusted_proxy) <= {"127.0.0.1", "::1"}


@pytest.mark.parametrize(("options", "loopback"), [
    ({"public_url": "https://grader.example.org"}, False), ({"public_url": "https://grader.example.org:8443/"}, False),
    ({"api_address": "grader.example.org:443"}, False), ({"public_url": "https://127.0.0.1.example.org"}, False),
    ({"public_url": "http://127.0.0.1:8080"}, True), ({"public_url": "http://localhost/"}, True), ({"api_address": "[::1]:50551"}, True),
    ({}, True),
])  # fmt: skip
def test_a_server_with_an_address_for_others_requires_keys(options, loopback):
    """Also where the proxy was not named with --trusted-proxy: what comes through it comes from this host."""
    settings = Settings(**options)
    assert settings.loopback is loopback and settings.asks_keys is not loopback


@pytest.mark.parametrize(
    ("peer", "forwarded", "caller"),
    [
        ("192.0.2.1", ["198.51.100.7"], "198.51.100.7"), ("::1", ["198.51.100.7"], "198.51.100.7"),
        ("192.0.2.1", ["203.0.113.9, 198.51.100.7", "192.0.2.1"], "198.51.100.7"),  # what comes before was the caller's own
        ("192.0.2.1", [], "192.0.2.1"), ("192.0.2.1", ["::1"], "::1"), ("192.0.2.1", [""], ""),
        ("198.51.100.7", ["203.0.113.9"], "198.51.100.7"), ("unix", ["203.0.113.9"], "unix"),
    ],
)  # fmt: skip
def test_only_a_trusted_proxy_says_who_calls(peer, forwarded, caller):
    """And of what it says the last that is no proxy's; the control trusts none."""
    assert caller_of(peer, forwarded, ("192.0.2.1", "::1")) == caller and caller_of(peer, forwarded, ()) == peer
