"""Measures Submit under load with open watches, and the server's memory.

    python -m tools.service.load [--seconds 600] [--rate 200] [--watches 1000] [--database URL] [--json]

One stub server on this host, called by this process over loopback. Submissions come at fixed times, whatever became of
earlier ones: a slow answer counts as slow, and does not delay the next call. The exit code is 1 if a figure is over its limit.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grader.api.client import GraderClient
from grader.errors import GraderError
from grader.v1 import submission_pb2
from tools.page import arguments_of
from tools.service import host
from tools.service.stub_server import HOLD

P99_LIMIT_MS = 50.0
WATCHES_PER_CHANNEL = 100  # gRPC's own limit of streams
SAMPLE_S = 5.0
SETTLED_SHARE = 1 / 3  # of the time, after which memory must not grow
GROWTH_LIMIT = 0.05
CHANNELS = 4
HELD = 50  # submissions that run all the time and are watched
WATCHED_SHARE = 50  # of so many submissions one is watched to its end
SUCCEEDED = submission_pb2.SUBMISSION_STATE_SUCCEEDED


@dataclass(kw_only=True)
class Figures:
    """Figures of a run."""

    seconds: float
    rate: float
    accepted: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    graded: int = 0
    submit_p50_ms: float = 0.0
    submit_p99_ms: float = 0.0
    submit_max_ms: float = 0.0
    watches_open: int = 0
    watches_broken: int = 0
    watch_delay_p50_ms: float = 0.0
    watch_delay_p99_ms: float = 0.0
    server_cores: float = 0.0
    server_cpu_ms: float = 0.0  # a submission, as the next
    client_cpu_ms: float = 0.0  # of this process, which takes its share of the same cores
    other_cores: float = 0.0  # that all else on this host took meanwhile
    memory_settled_mib: float = 0.0
    memory_end_mib: float = 0.0
    memory_growth: float = 0.0

    def faults(self) -> list[str]:
        """Return a sentence for each figure over its limit."""
        limits = {
            f"Submit p99 {self.submit_p99_ms:.1f} ms is over {P99_LIMIT_MS:.0f} ms": self.submit_p99_ms > P99_LIMIT_MS,
            f"refused: {self.refused}": bool(self.refused),
            f"{self.watches_broken} watches broke": self.watches_broken > 0,
            f"memory grew by {self.memory_growth:.1%}": self.memory_growth > GROWTH_LIMIT,
            f"{self.accepted - self.graded} were not graded in the end": self.graded < self.accepted,
        }
        return [text for text, over in limits.items() if over]


async def run(options: argparse.Namespace, directory: Path) -> Figures:
    """Start a server, load it, and count what it graded."""
    words = ["--queue-limit", "1000000", "--log-level", "warning"]
    words += ["--database", options.database] if options.database else []
    server = host.Server("instant", 1.0, directory / "state", host.write_problem(directory), words)
    server.start()
    figures = Figures(rate=options.rate, seconds=options.seconds)
    channel_count = CHANNELS + -(-options.watches // WATCHES_PER_CHANNEL)
    try:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(GraderClient(server.address)) for _ in range(channel_count)]
            await server.until_answering(clients[0])
            held_names = [(await clients[0].submit(host.submission(f"{HOLD} {index}"))).name for index in range(min(HELD, options.watches))]
            opened = [asyncio.Event() for _ in range(options.watches)]
            watches = [
                asyncio.create_task(_watch(clients[CHANNELS + index // WATCHES_PER_CHANNEL], held_names[index % HELD], event))
                for index, event in enumerate(opened)
            ]
            async with asyncio.timeout(120):
                await asyncio.gather(*(event.wait() for event in opened))
            figures.watches_open = len(watches)
            gc.collect()
            gc.freeze()  # our own pauses are not the server's
            await _submit_all(server.pid, clients[:CHANNELS], figures)
            figures.watches_broken = sum(watch.done() for watch in watches)
            for watch in watches:
                watch.cancel()
            await asyncio.gather(*watches, return_exceptions=True)
            figures.graded = await _graded_count(clients[0], figures.accepted)
    finally:
        server.stop()
    return figures


async def _watch(client: GraderClient, name: str, opened: asyncio.Event) -> None:
    async for event in client.watch(name):
        if event.HasField("build"):
            opened.set()


async def _submit_all(pid: int, clients: Sequence[GraderClient], figures: Figures) -> None:
    """Submit at fixed times, and measure from the time at which each call was due."""
    latencies_ms, delays_ms, memory = list[float](), list[float](), list[tuple[float, int]]()
    loop = asyncio.get_running_loop()
    start_s, start_cpu_s, start_own_s, start_host_s = loop.time(), _cpu_s(pid), time.process_time(), _host_cpu_s()

    async def submit(index: int, due_s: float) -> None:
        client = clients[index % CHANNELS]
        try:
            submission = await client.submit(host.submission(f"{index} {random.random()}"))
        except GraderError as error:
            figures.refused[type(error).__name__] += 1
            return
        latencies_ms.append((loop.time() - due_s) * 1000)
        figures.accepted += 1
        if index % WATCHED_SHARE == 0:
            async for event in client.watch(submission.name):
                if event.HasField("submission"):
                    delays_ms.append((time.time_ns() - event.event_time.ToNanoseconds()) / 1e6)

    async def sample() -> None:
        while True:
            resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            memory.append((loop.time() - start_s, resident))
            sys.stderr.write(f"{loop.time() - start_s:5.0f} s: {figures.accepted} accepted, ")
            sys.stderr.write(f"p99 of the last {percentile(latencies_ms[-2000:], 99):.1f} ms, {resident >> 20} MiB\n")
            await asyncio.sleep(SAMPLE_S)

    sampling = asyncio.create_task(sample())
    async with asyncio.TaskGroup() as group:
        for index in range(int(figures.seconds * figures.rate)):
            due_s = start_s + index / figures.rate
            await asyncio.sleep(max(0.0, due_s - loop.time()))
            group.create_task(submit(index, due_s))
        seconds = loop.time() - start_s
    sampling.cancel()
    server_cpu_s, own_cpu_s = _cpu_s(pid) - start_cpu_s, time.process_time() - start_own_s
    figures.client_cpu_ms = own_cpu_s * 1000 / max(figures.accepted, 1)
    figures.other_cores = (_host_cpu_s() - start_host_s - server_cpu_s - own_cpu_s) / (loop.time() - start_s)  # to the last watch's end
    figures.server_cores, figures.server_cpu_ms = server_cpu_s / seconds, server_cpu_s * 1000 / max(figures.accepted, 1)
    figures.submit_p50_ms, figures.submit_p99_ms = percentile(latencies_ms, 50), percentile(latencies_ms, 99)
    figures.submit_max_ms = max(latencies_ms, default=0.0)
    figures.watch_delay_p50_ms, figures.watch_delay_p99_ms = percentile(delays_ms, 50), percentile(delays_ms, 99)
    settled = [size for at_s, size in memory if at_s >= figures.seconds * SETTLED_SHARE] or [memory[-1][1]]
    figures.memory_settled_mib, figures.memory_end_mib = settled[0] / 2**20, settled[-1] / 2**20
    figures.memory_growth = settled[-1] / settled[0] - 1


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _host_cpu_s() -> float:
    """Of all that runs on this host, and of other guests of its machine (steal)."""
    user, nice, system, _, _, *interrupts_and_steal = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
    return (user + nice + system + sum(interrupts_and_steal)) / os.sysconf("SC_CLK_TCK")


async def _graded_count(client: GraderClient, accepted: int) -> int:
    """Return how many are graded once all are, or after two minutes."""
    deadline_s = time.monotonic() + 120
    while True:
        count = len([name async for name in host.listed(client, states=[SUCCEEDED])])
        if count >= accepted or time.monotonic() > deadline_s:
            return count
        await asyncio.sleep(1.0)


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the value below which so many percent of them lie; 0 of none."""
    if len(values) < 2:
        return values[0] if values else 0.0
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return 1 if a figure is over its limit."""
    settings: dict[str, tuple[Any, ...]] = {
        "seconds": (600.0, "how long"),
        "rate": (200.0, "submissions a second"),
        "watches": (1000, "watches that stay open meanwhile"),
        "database": ("", "URL of a PostgreSQL; without it SQLite in a directory of its own"),
        "json": (False, "print one JSON object"),
    }
    options = arguments_of("tools.service.load", __doc__, arguments, settings)
    with tempfile.TemporaryDirectory(prefix="grader-load-") as directory:
        figures = asyncio.run(run(options, Path(directory)))
    return host.show("load", figures, figures.faults(), as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
