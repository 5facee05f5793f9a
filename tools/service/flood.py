"""Floods a server with clients that have no key, and measures its memory and the calls of a user who has one.

A quarter of the clients each opens: Health.Watch with the name of a service that is up to megabytes long; plain TCP connections that send
nothing; halves of an HTTP header to the web port; and requests of reflection with a name as long. A client that is refused comes again.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from grader.api.client import GraderClient
from grader.server.resources import raise_descriptor_limit
from tools.service import host

NAME_BYTES = 7_500_000  # under the largest message that the server takes
GROWTH_LIMIT_MIB, MEDIAN_LIMIT_MS = 50.0, 100.0
CHANNEL_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
PAUSE_S = 0.5  # before one that was refused comes again
KINDS = ("watch", "idle", "half_header", "reflect")
CALL_EVERY_S = 0.05
SETTLE_S = 5.0

Client = Callable[[str], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Figures:
    """What was measured. Memory is resident, of the server's process alone."""

    clients: int = 0
    seconds: float = 0.0
    memory_before_mib: float = 0.0
    memory_most_mib: float = 0.0
    memory_after_mib: float = 0.0
    idle_median_ms: float = 0.0
    idle_p99_ms: float = 0.0
    flooded_median_ms: float = 0.0
    flooded_p99_ms: float = 0.0
    calls: int = 0
    calls_failed: int = 0
    refused: dict[str, int] = field(default_factory=dict)

    def faults(self) -> list[str]:
        """Which figures are over their limits."""
        found = []
        grown = self.memory_most_mib - self.memory_before_mib
        if grown >= GROWTH_LIMIT_MIB:
            found.append(f"memory grew by {grown:.1f} MiB; the limit is {GROWTH_LIMIT_MIB:.0f} MiB")
        if self.flooded_median_ms >= MEDIAN_LIMIT_MS:
            found.append(f"the median call took {self.flooded_median_ms:.1f} ms; the limit is {MEDIAN_LIMIT_MS:.0f} ms")
        if self.calls_failed:
            found.append(f"{self.calls_failed} of {self.calls} calls failed")
        return found


class Flood:
    """The clients without a key."""

    def __init__(self, address: str, web_port: int, name_bytes: int, kinds: Sequence[str]) -> None:
        self._address, self._web_port = address, web_port
        # Not all are of the most: this side would be busy with nothing but copying them.
        self._names = ["x" * (name_bytes // part) for part in (1, 30, 300)]
        self._kinds = [self._of(kind) for kind in kinds]
        self.refused: Counter[str] = Counter()

    def _of(self, kind: str) -> Client:
        return {"watch": self._watch, "idle": self._idle, "half_header": self._half_header, "reflect": self._reflect}[kind]

    async def forever(self, index: int) -> None:
        """Come again whenever refused."""
        await asyncio.sleep(index * 0.002)
        while True:
            kind = self._kinds[index % len(self._kinds)]
            try:
                await kind(self._names[index // len(self._kinds) % len(self._names)])
                self.refused[f"{kind.__name__.strip('_')}: closed"] += 1
            except grpc.aio.AioRpcError as error:
                self.refused[f"{kind.__name__.strip('_')}: {error.code().name}"] += 1
            except OSError as error:
                self.refused[f"{kind.__name__.strip('_')}: {type(error).__name__}"] += 1
            await asyncio.sleep(PAUSE_S)

    async def _watch(self, name: str) -> None:
        async with grpc.aio.insecure_channel(self._address, options=CHANNEL_OPTIONS) as channel:
            async for _ in health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=name)):
                pass

    async def _reflect(self, name: str) -> None:
        request = reflection_pb2.ServerReflectionRequest(file_containing_symbol=name)
        async with grpc.aio.insecure_channel(self._address, options=CHANNEL_OPTIONS) as channel:
            call: Any = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
            await call.write(request)
            while await call.read() is not grpc.aio.EOF:  # type: ignore[attr-defined]  # not in the stubs
                pass
            if (code := await call.code()) is not grpc.StatusCode.OK:
                raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata())

    async def _idle(self, _: str) -> None:
        host_name, port = self._address.rsplit(":", 1)
        await _held(host_name, int(port), b"")

    async def _half_header(self, _: str) -> None:
        await _held("127.0.0.1", self._web_port, b"GET / HTTP/1.1\r\nHost: x\r\nX-A: ")


async def _held(name: str, port: int, sent: bytes) -> None:
    """Connect, send, and wait until the other side closes."""
    reader, writer = await asyncio.open_connection(name, port)
    try:
        writer.write(sent)
        while await reader.read(4096):
            pass
    finally:
        writer.transport.abort()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and tell by the exit code whether the limits held."""
    given = _parser().parse_args(arguments)
    raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="grader-flood-") as directory:
        figures = _run(given, Path(directory))
    return host.show("flood", figures, figures.faults(), as_json=given.json)


def _run(given: argparse.Namespace, directory: Path) -> Figures:
    state, web_port = directory / "state", host.free_port()
    state.mkdir()
    (key,) = host.make_keys(1, state, "").values()
    words = ["--auth", "keys", "--web", str(web_port), "--log-level", "error", *given.options]
    server = host.Server("instant", 1.0, state, host.write_problem(directory), words)
    server.start()
    figures = Figures(clients=given.clients, seconds=given.seconds)
    try:
        asyncio.run(_measure(given, server, web_port, key, figures))
    finally:
        server.stop()
    return figures


async def _measure(given: argparse.Namespace, server: host.Server, web_port: int, key: str, figures: Figures) -> None:
    async with GraderClient(server.address, key=key, patience_s=0.0) as client:
        await host.until_answering(server, client)
        await _calls(client, 1.0, figures)  # so that everything was used once
        figures.memory_before_mib = host.resident_bytes(server.pid) / 2**20
        figures.idle_median_ms, figures.idle_p99_ms = _middle_and_end(await _calls(client, given.idle_seconds, figures))
        # In a process of its own: what it does must not delay the calls that are measured.
        command = [sys.executable, "-m", "tools.service.flood", "--attack", server.address, str(web_port), "--clients", str(given.clients)]
        command += ["--name-bytes", str(given.name_bytes), "--kinds", *given.kinds]
        attack = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
        looking = asyncio.create_task(_look(server.pid, figures))
        took = await _calls(client, given.seconds, figures)
        figures.flooded_median_ms, figures.flooded_p99_ms = _middle_and_end(took)
        printed, _ = await attack.communicate(b"")
        figures.refused = json.loads(printed)
        await asyncio.sleep(SETTLE_S)
        looking.cancel()
        figures.memory_after_mib = host.resident_bytes(server.pid) / 2**20


async def _attack(address: str, web_port: int, clients: int, name_bytes: int, kinds: Sequence[str]) -> None:
    """Flood until standard input ends; print what was refused."""
    flood, loop = Flood(address, web_port, name_bytes, kinds), asyncio.get_running_loop()
    tasks = [asyncio.create_task(flood.forever(index)) for index in range(clients)]
    await loop.run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    broken = Counter(repr(one) for one in ended if not isinstance(one, asyncio.CancelledError))
    sys.stdout.write(json.dumps(dict(sorted((flood.refused + broken).items()))))


async def _look(pid: int, figures: Figures) -> None:
    while True:
        figures.memory_most_mib = max(figures.memory_most_mib, host.resident_bytes(pid) / 2**20)
        await asyncio.sleep(0.1)


async def _calls(client: GraderClient, seconds: float, figures: Figures) -> list[float]:
    """A call now and then; how long each took, in ms. One that fails counts as endless."""
    took, loop = [], asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        begun, failed = loop.time(), True
        with contextlib.suppress(Exception):
            await client.list_problems()
            failed = False
        figures.calls, figures.calls_failed = figures.calls + 1, figures.calls_failed + failed
        took.append(float("inf") if failed else (loop.time() - begun) * 1000)
        await asyncio.sleep(CALL_EVERY_S)
    return took


def _middle_and_end(took: list[float]) -> tuple[float, float]:
    ordered = sorted(took)
    return statistics.median(ordered), ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tools.service.flood", description=(__doc__ or "").split("\n\n")[0])
    made.add_argument("--seconds", type=float, default=60.0, metavar="S", help="how long (60)")
    made.add_argument("--idle-seconds", type=float, default=5.0, metavar="S", help="how long calls are measured before (5)")
    made.add_argument("--clients", type=int, default=1000, metavar="N", help="how many are open at once (1000)")
    made.add_argument("--name-bytes", type=int, default=NAME_BYTES, metavar="N", help=f"the length of the longest names ({NAME_BYTES})")
    made.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, metavar="KIND", help=f"of clients, of {', '.join(KINDS)} (all)")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.add_argument("--attack", nargs=2, metavar=("ADDRESS", "PORT"), help="only flood this server and its web port, until input ends")
    made.add_argument("options", nargs="*", metavar="OPTION", help="of grader-server, after --")
    return made


if __name__ == "__main__":
    given = _parser().parse_args()
    if given.attack:
        raise_descriptor_limit()
        asyncio.run(_attack(given.attack[0], int(given.attack[1]), given.clients, given.name_bytes, given.kinds))
        sys.exit(0)
    sys.exit(main())
