"""Calls without a key: health within limits, and nothing else. Each limit has a control without it."""

import asyncio
import contextlib

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from grader.peers import PeerCount, PeerLimits, address_of_peer
from grader.server.interceptors import NAME_LIMIT_BYTES, READERS, KnownHealth, OpenCalls
from tests.server.keyed import keyed_server

SERVING = health_pb2.HealthCheckResponse.SERVING
WIDE = PeerLimits(total=1000, per_address=1000)


class Only(grpc.aio.ServerInterceptor):
    """Health through these limits; None: as gRPC serves it."""

    def __init__(self, open_calls):
        self.open_calls = open_calls

    async def intercept_service(self, continuation, details):
        handler = await continuation(details)
        return handler if self.open_calls is None else self.open_calls.limited(handler)


@contextlib.asynccontextmanager
async def health_server(open_calls, servicer):
    """A server of health alone, and a channel to it."""
    server = grpc.aio.server(interceptors=[Only(open_calls)], options=[("grpc.max_receive_message_length", 8 << 20)])
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(0)


class Names(KnownHealth):
    """Remembers the longest name that reached it."""

    def __init__(self):
        super().__init__()
        self.longest = 0

    async def Check(self, request, context):
        self.longest = max(self.longest, len(request.service))
        return await super().Check(request, context)


class NamesWithoutEnd(Names):
    """As gRPC has it: a service that is not known may come, and is waited for."""

    async def Watch(self, request, context):
        self.longest = max(self.longest, len(request.service))
        await super(KnownHealth, self).Watch(request, context)


def watch(channel, service=""):
    return health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=service), timeout=60)


async def check(channel, service=""):
    return await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=60)


async def code_of(call):
    """How a call ends."""
    try:
        async for _ in call:
            pass
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_health_is_answered_and_watched_through_the_limits():
    """The honest case: a check, and a watch that sees a change."""
    servicer = Names()
    async with health_server(OpenCalls(WIDE), servicer) as channel:
        assert (await check(channel)).status == SERVING
        watching = watch(channel)
        assert (await watching.read()).status == SERVING
        await servicer.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watching.cancel()


@pytest.mark.parametrize("length", [NAME_LIMIT_BYTES + 1, 4 << 20])
async def test_a_long_name_reaches_nobody_and_its_memory_is_given_back(length):
    """Neither by Check nor by Watch."""
    released, servicer = [], Names()
    async with health_server(OpenCalls(WIDE, release=lambda: released.append(1)), servicer) as channel:
        assert await code_of(watch(channel, "x" * length)) is grpc.StatusCode.INVALID_ARGUMENT
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await check(channel, "x" * length)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT and f"{NAME_LIMIT_BYTES} bytes" in caught.value.details()
        assert released and servicer.longest == 0


@pytest.mark.parametrize("name", ["x" * NAME_LIMIT_BYTES, "none"])
async def test_a_watch_of_no_service_ends(name):
    """NOT_FOUND, also with the longest name that is looked up, and nothing is kept of it."""
    servicer = Names()
    async with health_server(OpenCalls(WIDE), servicer) as channel:
        assert await code_of(watch(channel, name)) is grpc.StatusCode.NOT_FOUND
    assert servicer.longest == len(name) and not servicer._server_watchers


async def test_without_the_limits_a_long_name_is_kept_as_long_as_its_watch():
    """The control: gRPC's own health takes it, and waits."""
    servicer = NamesWithoutEnd()
    async with health_server(None, servicer) as channel:
        watching = watch(channel, "x" * (4 << 20))
        assert (await watching.read()).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        assert servicer.longest == 4 << 20 and len(servicer._server_watchers) == 1
        watching.cancel()


async def test_only_so_many_are_open_from_an_address_and_they_make_room():
    """The third is refused at once; when one ends, another is let in. The control: with wider limits it is let in."""
    for limits, third in ((PeerLimits(total=9, per_address=2), grpc.StatusCode.RESOURCE_EXHAUSTED), (WIDE, None)):
        async with health_server(OpenCalls(limits), Names()) as channel:
            opened = [watch(channel) for _ in range(2)]
            assert [(await response.read()).status for response in opened] == [SERVING] * 2
            if third is None:
                assert (await check(channel)).status == SERVING
                continue
            assert await code_of(watch(channel)) is third
            opened[0].cancel()
            async with asyncio.timeout(300):
                while True:
                    with contextlib.suppress(grpc.aio.AioRpcError):
                        assert (await check(channel)).status == SERVING
                        break
            opened[1].cancel()


async def test_who_sends_nothing_is_not_waited_for():
    """The call ends, and its place is free."""
    async with health_server(OpenCalls(PeerLimits(total=1, per_address=1), read_s=0.05), Names()) as channel:
        call = channel.stream_stream("/grpc.health.v1.Health/Watch")(timeout=60)
        assert await code_of(call) is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "0.05 s" in await call.details()
        assert (await check(channel)).status == SERVING


class Call:
    """A call that sends a request when it is let."""

    def __init__(self, peer, reading):
        self._peer, self._reading, self.go = peer, reading, asyncio.Event()

    def peer(self):
        return self._peer

    async def read(self):
        self._reading.append(self._peer)
        await self.go.wait()
        return health_pb2.HealthCheckRequest()

    async def write(self, message):
        pass


async def test_few_requests_are_read_at_once_and_one_of_each_address():
    """So that what is held in memory is bounded, and one address delays itself only."""
    reading = []
    handler = grpc.unary_unary_rpc_method_handler(lambda request, context: asyncio.sleep(0), lambda data: data)
    limited = OpenCalls(WIDE, read_s=60).limited(handler).stream_stream
    calls = [Call(f"ipv4:192.0.2.{number % 8}:{number}", reading) for number in range(16)]
    tasks = [asyncio.create_task(limited(None, call)) for call in calls]
    for _ in range(20):
        await asyncio.sleep(0)
    hosts = {peer.rsplit(":", 1)[0] for peer in reading}
    assert len(reading) == len(hosts) == READERS
    for call in calls:
        call.go.set()
    await asyncio.gather(*tasks)
    assert len(reading) == len(calls)


async def test_the_server_has_these_limits(settings):
    """Of a server as it is started: a long name is refused, and so is one call too many. None asks for a key: load balancers have none."""
    async with keyed_server(settings, health_address_limit=1) as server, grpc.aio.insecure_channel(server.address) as channel:
        assert await code_of(watch(channel, "x" * 1000)) is grpc.StatusCode.INVALID_ARGUMENT
        watching = watch(channel)
        assert (await watching.read()).status == SERVING
        assert await code_of(watch(channel)) is grpc.StatusCode.RESOURCE_EXHAUSTED
        watching.cancel()


def test_peers_are_counted_in_all_and_by_address():
    """A peer that left makes room, and what was refused is not counted."""
    count = PeerCount(PeerLimits(total=3, per_address=2))
    assert [count.enter("a") for _ in range(3)] == [True, True, False]
    assert [count.enter("b"), count.enter("b"), count.enter("c")] == [True, False, False] and count.total == 3
    count.leave("a")
    assert count.enter("c") and not count.enter("a")
    for address in ("a", "b", "c"):
        count.leave(address)
    assert count.total == 0 and not count._open


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:5000", "192.0.2.1"), ("ipv6:%5B2001:db8::1%5D:5000", "2001:db8::/64"),
        ("ipv6:[2001:db8::2]:5000", "2001:db8::/64"), ("ipv6:%5B::ffff:192.0.2.1%5D:5000", "192.0.2.1"),
        ("ipv6:%5Bfe80::1%25eth0%5D:5000", "fe80::/64"),
        ("unix:", "unix"), ("unix:/run/s", "unix"), ("", ""), ("ipv4:somewhere:1", "somewhere"),
    ],
)  # fmt: skip
def test_the_address_of_a_peer(peer, address):
    """Without the port; of IPv6 the network that one host has; what is no address counts as itself."""
    assert address_of_peer(peer) == address
