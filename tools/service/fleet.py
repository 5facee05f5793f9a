"""What a fleet of workers is worth: its throughput against one lane, and what a worker costs against grading on the server's host.

    python -m tools.service.fleet [--workers 2] [--lanes 2] [--submissions 120] [--wait-ms 200] [--rounds 30] [--json]
    python -m tools.service.fleet --sweep 8 16 32 64 128 [--workers 2] [--step-s 20] [--wait-ms 50] [--json]

Stub kernels that wait, and compute nothing; the server, the ledger, the stream, the fleet and the pipeline are the real ones. First one
worker with one lane, then --workers with --lanes each, get submissions. Then the same submission goes in turns to a server that grades by
itself, to one with a worker, and to one with a worker and a builder, one at a time; its artifact has 1 MiB. Exit code 1 where throughput
is below 3.7 for 4 lanes in proportion, or where a worker costs more than 20 ms and 3 %.

With --sweep: so many lanes in all, one number after the other, with twice as many users who hand in without a pause, and what limits the
server first. Lanes cost nothing: facts come from the workers' processes, without judges and boxes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from grader.api.client import GraderClient
from tools.page import facts, table_lines
from tools.service import host, saturation
from tools.service.saturation import Step

SHARE = 3.7 / 4  # of the lanes' number
COST_S, COST_SHARE = 0.020, 0.03
AT_ONCE = asyncio.Semaphore(150)  # a connection has at most 200 calls open
USERS_A_CONNECTION = 50
WARM_S = 3.0


@dataclass(kw_only=True)
class Outcome:
    """The figures. Times in seconds."""

    one_lane_per_s: float = 0.0
    fleet_per_s: float = 0.0
    lanes: int = 0
    times_one_lane: float = 0.0
    submit_median_ms: float = 0.0
    submit_p99_ms: float = 0.0
    server_cpu_share: float = 0.0
    local_median_s: float = 0.0
    remote_median_s: float = 0.0
    remote_costs_ms: float = 0.0
    builder_median_s: float = 0.0
    builder_costs_ms: float = 0.0  # against a worker that builds itself
    rounds: int = 0
    local_s: list[float] = field(default_factory=list)
    remote_s: list[float] = field(default_factory=list)
    builder_s: list[float] = field(default_factory=list)

    def faults(self) -> list[str]:
        """What was not reached."""
        found = []
        if self.times_one_lane < SHARE * self.lanes:
            found.append(f"{self.lanes} lanes are worth {self.times_one_lane:.2f} and not {SHARE * self.lanes:.2f}")
        if self.remote_median_s - self.local_median_s > max(COST_S, COST_SHARE * self.local_median_s):
            found.append(f"a worker costs {self.remote_costs_ms:.1f} ms")
        return found


@dataclass(frozen=True, kw_only=True)
class _Served:
    api: GraderClient
    server_pid: int
    worker_pids: tuple[int, ...]
    address: str
    web: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether it is as it should be."""
    given = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="grader-fleet-") as directory:
        if given.sweep:
            return _show_sweep(asyncio.run(_swept(given, Path(directory))), as_json=given.json)
        outcome = asyncio.run(_measured(given, Path(directory)))
    return host.show("fleet", outcome, outcome.faults(), as_json=given.json)


async def _measured(given: argparse.Namespace, directory: Path) -> Outcome:
    problems = host.write_problem(directory)
    found = Outcome(lanes=given.workers * given.lanes, rounds=given.rounds)
    async with _fleet(given.wait_ms, directory / "one", problems, workers=1, lanes=1) as client:
        found.one_lane_per_s = await _throughput(client.api, max(4, given.submissions // found.lanes))
    async with _fleet(given.wait_ms, directory / "many", problems, workers=given.workers, lanes=given.lanes) as client:
        submits_s: list[float] = []
        begun_s, begun_cpu_s = time.monotonic(), host.cpu_s(client.server_pid)
        found.fleet_per_s = await _throughput(client.api, given.submissions, submits_s)
        found.server_cpu_share = (host.cpu_s(client.server_pid) - begun_cpu_s) / (time.monotonic() - begun_s)
        found.submit_median_ms = 1000 * statistics.median(submits_s)
        found.submit_p99_ms = 1000 * statistics.quantiles(submits_s, n=100)[98]
    found.times_one_lane = found.fleet_per_s / found.one_lane_per_s
    async with (
        _fleet(given.wait_ms, directory / "local", problems, workers=0, lanes=1) as local,
        _fleet(given.wait_ms, directory / "remote", problems, workers=1, lanes=1) as remote,
        _fleet(given.wait_ms, directory / "built", problems, workers=1, lanes=1, builders=1) as built,
    ):
        for index in range(-2, given.rounds):  # the first two are not warm
            for client, times in ((local, found.local_s), (remote, found.remote_s), (built, found.builder_s)):
                took_s = await _graded(client.api, f"round {index}")
                if index >= 0:
                    times.append(took_s)
    found.local_median_s, found.remote_median_s = statistics.median(found.local_s), statistics.median(found.remote_s)
    found.builder_median_s = statistics.median(found.builder_s)
    found.builder_costs_ms = 1000 * (found.builder_median_s - found.remote_median_s)
    found.remote_costs_ms = 1000 * (found.remote_median_s - found.local_median_s)
    return found


async def _swept(given: argparse.Namespace, directory: Path) -> list[Step]:
    """One step after the other, each with a server of its own."""
    steps = []
    for lanes in given.sweep:
        each = max(1, lanes // given.workers)
        fleet = _fleet(
            given.wait_ms, directory / f"{lanes}", host.write_problem(directory), workers=given.workers, lanes=each, kind="instant"
        )
        async with fleet as served:
            steps.append(await _step(served, given, lanes=each * given.workers))
    return steps


async def _step(served: _Served, given: argparse.Namespace, *, lanes: int) -> Step:
    """Users who hand in one submission after the other, for so long."""
    submits_s: list[float] = []
    graded = 0

    async def user(client: GraderClient, number: int) -> None:
        nonlocal graded
        while True:
            begun_s = time.monotonic()
            submitted = await client.submit(host.submission(f"{number} {begun_s}"))
            submits_s.append(time.monotonic() - begun_s)
            async for _ in client.watch(submitted.name):
                pass
            graded += 1

    async with AsyncExitStack() as stack:
        count = 2 * lanes
        clients = [await stack.enter_async_context(GraderClient(served.address)) for _ in range(-(-count // USERS_A_CONNECTION))]
        users = [asyncio.create_task(user(clients[number % len(clients)], number)) for number in range(count)]
        await asyncio.sleep(WARM_S)
        submits_s.clear()
        before, begun_s, graded = await saturation.seen(served.server_pid, served.worker_pids, served.web), time.monotonic(), 0
        await asyncio.wait(users, timeout=given.step_s, return_when=asyncio.FIRST_EXCEPTION)
        seconds, done = time.monotonic() - begun_s, graded
        after = await saturation.seen(served.server_pid, served.worker_pids, served.web)
        for one in users:
            one.cancel()
        failed = [one for one in await asyncio.gather(*users, return_exceptions=True) if isinstance(one, Exception)]
        if failed:
            raise failed[0]
    return saturation.step(before, after, seconds, submits_s, lanes=lanes, graded=done, wait_s=given.wait_ms / 1000)


def _show_sweep(steps: Sequence[Step], *, as_json: bool) -> int:
    limit = saturation.first_limit(steps)
    if as_json:
        sys.stdout.write(json.dumps({"first_limit": limit, "steps": [asdict(one) for one in steps]}) + "\n")
        return 0
    head = facts(f"python -m tools.service.fleet {shlex.join(sys.argv[1:])}") | {"first limit": limit}
    rows = [[f"{value:.2f}" if isinstance(value, float) else value for value in asdict(one).values()] for one in steps]
    figures = table_lines([name.replace("_", " ") for name in asdict(steps[0])], rows)
    sys.stdout.write("\n".join([*table_lines(("what", "which"), head.items()), "", *figures]) + "\n")
    return 0


@asynccontextmanager
async def _fleet(
    wait_ms: float, directory: Path, problems: Path, *, workers: int, lanes: int, kind: str = "processes", builders: int = 0
) -> AsyncIterator[_Served]:
    """A server with so many workers of this kind, and so many that only build; with none it grades by itself."""
    directory.mkdir()
    join, web = f"unix:{directory}/fleet", f"127.0.0.1:{host.free_port()}"
    words = ["--fleet", "remote", "--fleet-listen", join] if workers else ["--lanes", str(lanes)]
    words += ["--web", web, "--log-level", "warning"] if kind == "instant" else ["--log-level", "warning"]
    server = host.Server("remote" if workers else "processes", wait_ms, directory / "server", problems, words)
    options = ["--lanes", str(lanes), "--log-level", "warning"]
    joined = [host.Worker(wait_ms, join, directory / f"worker{index}", options, kind) for index in range(workers)]
    building = [host.Worker(wait_ms, join, directory / f"builder{index}", ["--builds-only", *options], kind) for index in range(builders)]
    processes = [server, *building, *joined]
    for process in processes:
        process.start()
    try:
        async with GraderClient(server.address) as client:
            await host.until_answering(server, client)
            await asyncio.gather(*(_graded(client, f"warm {index}") for index in range(4 * max(1, workers) * lanes)))
            pids = tuple(worker.pid for worker in joined)
            yield _Served(api=client, server_pid=server.pid, worker_pids=pids, address=server.address, web=web)
    finally:
        for process in reversed(processes):
            process.stop()


async def _throughput(client: GraderClient, count: int, submits_s: list[float] | None = None) -> float:
    """Submissions in a second, of so many that are all there from the start."""
    begun_s = time.monotonic()
    await asyncio.gather(*(_graded(client, f"{index}", submits_s) for index in range(count)))
    return count / (time.monotonic() - begun_s)


async def _graded(client: GraderClient, note: str, submits_s: list[float] | None = None) -> float:
    """How long one took, from the call to its end. submits_s: gets how long Submit took."""
    async with AT_ONCE:
        begun_s = time.monotonic()
        submitted = await client.submit(host.submission(note))
        if submits_s is not None:
            submits_s.append(time.monotonic() - begun_s)
        async for _ in client.watch(submitted.name):
            pass
        return time.monotonic() - begun_s


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tools.service.fleet", description=(__doc__ or "").split("\n\n")[0])
    made.add_argument("--workers", type=int, default=2, metavar="N", help="workers of the fleet (2)")
    made.add_argument("--lanes", type=int, default=2, metavar="N", help="lanes of each (2)")
    made.add_argument("--submissions", type=int, default=120, metavar="N", help="that the fleet gets (120)")
    made.add_argument("--wait-ms", type=float, default=200.0, metavar="MS", help="that a stub kernel waits (200)")
    made.add_argument(
        "--sweep", type=int, nargs="+", default=[], metavar="N", help="find the server's first limit with so many lanes in all"
    )
    made.add_argument("--step-s", type=float, default=20.0, metavar="S", help="how long each number of lanes is measured (20)")
    made.add_argument("--rounds", type=int, default=30, metavar="N", help="submissions to each of the two servers, in turns (30)")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


if __name__ == "__main__":
    sys.exit(main())
