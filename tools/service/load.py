"""How long Submit takes under load, with open watches, and what the server's memory does.

    python -m tools.service.load [--seconds 600] [--rate 200] [--watches 1000] [--database URL] [--json]

One stub server on this host, asked by this process over loopback: submissions come at fixed times, whatever became of those before
(an open loop: a slow answer is counted as slow, and does not make the next one late). Exit code 1 where a figure is over its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.api.client import GraderClient
from grader.errors import GraderError
from grader.v1 import submission_pb2
from tools.service import host
from tools.service.stub_server import HOLD

P99_LIMIT_MS = 50.0
WATCHES_A_CHANNEL = 100  # streams that one connection may have; gRPC's own limit
LOOK_S = 5.0
SETTLED_SHARE = 1 / 3  # of the time, after which memory must not grow
GROWTH_LIMIT = 0.05
CHANNELS = 4
HELD = 50  # submissions that run all the time and are watched; no server has more under way than its lanes and builders take


@dataclass(kw_only=True)
class Figures:
    """What was seen."""

    seconds: float = 0.0
    asked_per_s: float = 0.0
    accepted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    graded: int = 0
    submit_p50_ms: float = 0.0
    submit_p99_ms: float = 0.0
    submit_most_ms: float = 0.0
    watches_open: int = 0
    watches_broken: int = 0
    watch_news_p50_ms: float = 0.0
    watch_news_p99_ms: float = 0.0
    server_cores: float = 0.0
    memory_settled_mib: float = 0.0
    memory_end_mib: float = 0.0
    memory_growth: float = 0.0

    def faults(self) -> list[str]:
        """Which figures are over their limits."""
        found = []
        if self.submit_p99_ms > P99_LIMIT_MS:
            found.append(f"Submit p99 {self.submit_p99_ms:.1f} ms is over {P99_LIMIT_MS:.0f} ms")
        if self.refused:
            found.append(f"refused: {self.refused}")
        if self.watches_broken:
            found.append(f"{self.watches_broken} watches broke")
        if self.memory_growth > GROWTH_LIMIT:
            found.append(f"memory grew by {self.memory_growth:.1%}")
        if self.graded < self.accepted:
            found.append(f"{self.accepted - self.graded} were not graded in the end")
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and say by the exit code whether all limits held."""
    given = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="grader-load-") as directory:
        figures = asyncio.run(_run(given, Path(directory)))
    return host.show("load", figures, figures.faults(), as_json=given.json)


async def _run(given: argparse.Namespace, directory: Path) -> Figures:
    words = ["--queue-limit", "1000000", "--log-level", "warning"]
    words += ["--database", given.database] if given.database else []
    server = host.Server("instant", 1.0, directory / "state", host.write_problem(directory), words)
    server.start()
    figures = Figures(asked_per_s=given.rate, seconds=given.seconds)
    try:
        async with GraderClient(server.address) as client:
            await host.until_answering(server, client)
            await _press(given, server, figures)
    finally:
        server.stop()
    return figures


async def _press(given: argparse.Namespace, server: host.Server, figures: Figures) -> None:
    watching = [GraderClient(server.address) for _ in range(-(-given.watches // WATCHES_A_CHANNEL))]
    asking = [GraderClient(server.address) for _ in range(CHANNELS)]
    for client in (*watching, *asking):
        await client.__aenter__()
    try:
        _say(f"opening {given.watches} watches")
        opened = [asyncio.Event() for _ in range(given.watches)]
        watches = []
        held = [(await asking[0].submit(host.submission(f"{HOLD} {index}"))).name for index in range(min(HELD, given.watches))]
        for index, event in enumerate(opened):
            watches.append(asyncio.create_task(_watch(watching[index // WATCHES_A_CHANNEL], held[index % HELD], event)))
        async with asyncio.timeout(120):
            await asyncio.gather(*(event.wait() for event in opened))
        figures.watches_open = len(watches)
        gc.collect()
        gc.freeze()  # our own pauses are not the server's
        await _ask(given, server, asking, figures)
        figures.watches_broken = sum(watch.done() for watch in watches)
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
        figures.graded = await _graded(asking[0], figures.accepted)
    finally:
        for client in (*watching, *asking):
            await client.__aexit__(None, None, None)


async def _watch(client: GraderClient, name: str, opened: asyncio.Event) -> None:
    async for event in client.watch(name):
        if event.HasField("build"):
            opened.set()


async def _ask(given: argparse.Namespace, server: host.Server, clients: list[GraderClient], figures: Figures) -> None:
    """Submit at fixed times; measure from the time that it was due."""
    took_ms: list[float] = []
    memory: list[tuple[float, int]] = []
    news_ms: list[float] = []
    loop = asyncio.get_running_loop()
    begun, busy = loop.time(), host.cpu_s(server.pid)

    async def one(index: int, due: float) -> None:
        client = clients[index % CHANNELS]
        try:
            made = await client.submit(host.submission(f"{index} {random.random()}"))
            took_ms.append((loop.time() - due) * 1000)
            figures.accepted += 1
        except GraderError as error:
            reason = type(error).__name__
            figures.refused[reason] = figures.refused.get(reason, 0) + 1
            return
        if index % 50 == 0:
            async for event in client.watch(made.name):
                if event.HasField("submission"):
                    news_ms.append((time.time_ns() - event.event_time.ToNanoseconds()) / 1e6)

    async def look() -> None:
        while True:
            memory.append((loop.time() - begun, host.resident_bytes(server.pid)))
            if not given.json:
                p99 = percentile(took_ms[-2000:], 99)
                _say(f"{loop.time() - begun:5.0f} s: {figures.accepted} accepted, p99 of the last {p99:.1f} ms, {memory[-1][1] >> 20} MiB")
            await asyncio.sleep(LOOK_S)

    looking = asyncio.create_task(look())
    async with asyncio.TaskGroup() as group:
        for index in range(int(given.seconds * given.rate)):
            due = begun + index / given.rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            group.create_task(one(index, due))
        took = loop.time() - begun
    looking.cancel()
    figures.server_cores = (host.cpu_s(server.pid) - busy) / took
    figures.submit_p50_ms, figures.submit_p99_ms = percentile(took_ms, 50), percentile(took_ms, 99)
    figures.submit_most_ms = max(took_ms, default=0.0)
    figures.watch_news_p50_ms, figures.watch_news_p99_ms = percentile(news_ms, 50), percentile(news_ms, 99)
    settled = [size for at, size in memory if at >= given.seconds * SETTLED_SHARE] or [memory[-1][1]]
    figures.memory_settled_mib, figures.memory_end_mib = settled[0] / 2**20, settled[-1] / 2**20
    figures.memory_growth = settled[-1] / settled[0] - 1


async def _graded(client: GraderClient, wanted: int) -> int:
    """How many are done once nothing is queued any more, or after two minutes."""
    pending = [submission_pb2.SUBMISSION_STATE_QUEUED]
    for _ in range(240):
        if not (await client.list_submissions(page_size=1, states=pending)).submissions:
            break
        await asyncio.sleep(0.5)
    count, token = 0, ""
    while True:
        page = await client.list_submissions(page_size=1000, page_token=token, states=[submission_pb2.SUBMISSION_STATE_SUCCEEDED])
        count += len(page.submissions)
        token = page.next_page_token
        if not token or count >= wanted:
            return count


def percentile(values: Sequence[float], percent: int) -> float:
    """The value below which so many percent of them lie; 0 of none."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tools.service.load", description=(__doc__ or "").split("\n\n")[0])
    made.add_argument("--seconds", type=float, default=600.0, metavar="S", help="how long (600)")
    made.add_argument("--rate", type=float, default=200.0, metavar="N", help="submissions a second (200)")
    made.add_argument("--watches", type=int, default=1000, metavar="N", help="watches that stay open meanwhile (1000)")
    made.add_argument("--database", default="", metavar="URL", help="a PostgreSQL to use; without it SQLite in a directory of its own")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


if __name__ == "__main__":
    sys.exit(main())
