"""How heavy the web pages of a filled site are, and how long they take.

    python -m tools.website.bench [--entries 100] [--requests 30]

A site with a board of --entries is served on this machine, by the same process that asks for its pages, one request after the other. The
bytes are those of the bodies, as they are sent; "with resources" adds the style sheet and the script. The time is from the request to the
last byte, over one kept connection; a board's standings are read again as often as on a server. Times are comparable within one run only.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from grader.observability import log
from grader.web.site import STANDINGS_S
from tools.page import Table, facts, table_lines
from tools.website.filled_site import filled_site
from tools.website.weight import page_weight, signed_in


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100, help="of the board")
    parser.add_argument("--requests", type=int, default=30, help="for each page")
    given = parser.parse_args()
    log.configure(level=logging.WARNING)
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    with tempfile.TemporaryDirectory(prefix="grader-pages-") as place:
        table = asyncio.run(bench(Path(place), given.entries, given.requests))
    known = {**facts(shlex.join(["python", "-m", "tools.website.bench", *sys.argv[1:]])), "cores": os.cpu_count(), "load before": load}
    sys.stdout.write("\n".join([*table_lines(("what", "which"), list(known.items())), "", *table.lines(), ""]))
    return 0


async def bench(place: Path, entry_count: int, request_count: int) -> Table:
    """A row for each page."""
    table = Table(headings=("page", "bytes", "with resources", "median ms", "p90 ms"))
    async with filled_site(place, entry_count=entry_count, standings_s=STANDINGS_S) as here, signed_in(here) as session:
        for name, path in here.paths.items():
            _, found = await page_weight(session, here, path)
            times_ms = [await _request_ms(session, here.url(path)) for _ in range(request_count)]
            p90_ms = statistics.quantiles(times_ms, n=10)[-1] if len(times_ms) > 1 else times_ms[0]
            table.add(name, found[path], sum(found.values()), f"{statistics.median(times_ms):.1f}", f"{p90_ms:.1f}")
    return table


async def _request_ms(session: aiohttp.ClientSession, url: str) -> float:
    begin = time.perf_counter()
    async with session.get(url, allow_redirects=False) as answer:
        await answer.read()
    return (time.perf_counter() - begin) * 1000


if __name__ == "__main__":
    raise SystemExit(main())
