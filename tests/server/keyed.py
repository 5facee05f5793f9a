"""A server that asks for keys, and calls of every method of it as they go over the wire."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import grpc

from grader.api.client import GraderClient
from grader.config import Settings
from grader.ledger import Ledger
from grader.model import Scope
from grader.server.running import serving
from grader.v1 import grader_service_pb2
from tests import fakes

SERVICE = grader_service_pb2.DESCRIPTOR.services_by_name["GraderService"]
METHODS = {method.name: method for method in SERVICE.methods}
STREAMED = {"WatchSubmission", "WatchSubmissions", "DownloadArtifact"}
USUAL = (Scope.SUBMIT, Scope.READ)


@dataclass
class Keyed:
    """The server's address, and its ledger as an administrator's command opens it."""

    address: str
    ledger: Ledger

    async def key(self, user: str = "alice", scopes: Iterable[Scope] = USUAL, *, lasting_s: float | None = None) -> str:
        """A new key's text."""
        end = None if lasting_s is None else self.ledger.now() + timedelta(seconds=lasting_s)
        return (await self.ledger.keys.create(user, frozenset(scopes), expire_time=end))[1]

    async def revoke(self, text: str) -> None:
        assert await self.ledger.keys.revoke(text.split("_")[1])

    def client(self, key: str = "") -> GraderClient:
        return GraderClient(self.address, key=key, patience_s=0.0)

    async def answers(self, *metadata: tuple[str, str]) -> dict[str, grpc.aio.AioRpcError | None]:
        """How each method answers an empty request with this metadata: an error, or None."""
        async with grpc.aio.insecure_channel(self.address) as channel:
            return dict(zip(METHODS, await asyncio.gather(*(call(channel, name, metadata) for name in METHODS)), strict=True))


async def call(channel: grpc.aio.Channel, name: str, metadata: tuple[tuple[str, str], ...], request: bytes = b""):
    """Call a method with these bytes."""
    path = f"/{SERVICE.full_name}/{name}"
    try:
        if name in STREAMED:
            async for _ in channel.unary_stream(path)(request, metadata=metadata, timeout=60):
                pass
        else:
            await channel.unary_unary(path)(request, metadata=metadata, timeout=60)
    except grpc.aio.AioRpcError as error:
        return error
    return None


def bearer(text: str) -> tuple[str, str]:
    """The metadata of a key."""
    return "authorization", f"Bearer {text}"


@asynccontextmanager
async def keyed_server(settings: Settings, grade=None, **changes) -> AsyncIterator[Keyed]:
    """Serve, asking for keys unless `auth` says otherwise."""
    there = settings.model_copy(update={"auth": "keys", **changes})
    async with serving(there, fakes.wiring(grade)) as running, Ledger.open(there.ledger_path) as ledger:
        yield Keyed(running.address, ledger)
