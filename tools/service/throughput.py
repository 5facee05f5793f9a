"""Measures how many submissions a second are graded: by one server on SQLite, by one on PostgreSQL, and by two.

    python -m tools.service.throughput --database URL [--seconds 10] [--turns 3] [--json]

Stub servers on this host, called by this process over loopback; each of its users submits, watches to the end, and submits again. The
three take turns. Two servers need four cores: two for them, and two for the database and this process.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from grader.api.client import GraderClient
from grader.v1 import submission_pb2
from tools.page import arguments_of
from tools.service import host

WAIT_MS = 5.0  # of a stub kernel
USERS, CHANNELS = 24, 2  # of a server
WARM_S = 3.0
SUCCEEDED = submission_pb2.SUBMISSION_STATE_SUCCEEDED


@dataclass(kw_only=True)
class Figures:
    """Medians over the turns."""

    seconds: float
    cores: int = len(os.sched_getaffinity(0))
    sqlite_per_s: float = 0.0
    postgresql_per_s: float = 0.0
    two_servers_per_s: float = 0.0
    one_against_sqlite: float = 0.0
    two_against_one: float = 0.0
    rates: dict[str, list[float]] = field(default_factory=dict)


async def graded_per_s(directory: Path, server_count: int, database: str, seconds: float) -> float:
    """Start servers, keep them busy, and count what they grade."""
    words = ["--queue-limit", "1000000", "--log-level", "warning", "--auth", "none", *(["--database", database] if database else [])]
    problem = host.write_problem(directory)
    servers = [host.Server("instant", WAIT_MS, directory / f"state{index}", problem, words) for index in range(server_count)]
    graded, busy = 0, True

    async def use(client: GraderClient) -> None:
        nonlocal graded
        while busy:
            submitted = await client.submit(host.submission(uuid4().hex))
            async for event in client.watch(submitted.name):
                graded += event.submission.state == SUCCEEDED

    try:
        for server in servers:
            server.start()
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            for server in servers:
                clients = [await stack.enter_async_context(GraderClient(server.address)) for _ in range(CHANNELS)]
                await server.until_answering(clients[0])
                for index in range(USERS):
                    group.create_task(use(clients[index % CHANNELS]))
            await asyncio.sleep(WARM_S)
            begin_s, before = time.monotonic(), graded
            await asyncio.sleep(seconds)
            rate = (graded - before) / (time.monotonic() - begin_s)
            busy = False
        return rate
    finally:
        for server in servers:
            server.stop()


async def run(seconds: float, turns: int, database: str) -> Figures:
    """Take turns, and return the medians of rates and of ratios within a turn."""
    runs, figures = {"sqlite": (1, ""), "postgresql": (1, database), "two_servers": (2, database)}, Figures(seconds=seconds)
    for turn in range(turns):
        for name, (server_count, url) in runs.items():
            with tempfile.TemporaryDirectory(prefix="grader-throughput-") as directory:
                rate = await graded_per_s(Path(directory), server_count, url, seconds)
            figures.rates.setdefault(name, []).append(round(rate, 1))
            sys.stderr.write(f"turn {turn + 1}: {name} {rate:.1f} a second\n")
    sqlite, postgresql, two_servers = figures.rates.values()
    figures.sqlite_per_s, figures.postgresql_per_s, figures.two_servers_per_s = map(statistics.median, figures.rates.values())
    figures.one_against_sqlite = statistics.median(rate / base for rate, base in zip(postgresql, sqlite, strict=True))
    figures.two_against_one = statistics.median(rate / base for rate, base in zip(two_servers, postgresql, strict=True))
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, and print."""
    settings: dict[str, tuple[Any, ...]] = {
        "database": ("", "URL of an empty database of PostgreSQL"),
        "seconds": (10.0, "how long each is measured"),
        "turns": (3, "how often"),
        "json": (False, "print one JSON object"),
    }
    options = arguments_of("tools.service.throughput", __doc__, arguments, settings)
    if not options.database:
        sys.exit("tools.service.throughput: name an empty database of PostgreSQL by --database")
    return host.show("throughput", asyncio.run(run(options.seconds, options.turns, options.database)), [], as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
