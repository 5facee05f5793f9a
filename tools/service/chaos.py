"""Whether anything is lost while servers, judges, boxes, workers and nodes are killed, and how long lost work takes to go on.

    python -m tools.service.chaos [--submissions 2000] [--users 50] [--servers 2] [--workers 0 | --ray 0] [--database URL]
                                  [--judge-ms 60] [--kill-every 3] [--over 60] [--json]

Stub servers on this host with the real ledger, dispatcher, fleet and pipeline; of their processes a random one is killed with SIGKILL
every few seconds: a server (which is started again at once), a judge, a box, or one of the boxes that wait for a job (pool). Users hand in
one submission after the other and repeat a call, with the same request id, until it is acknowledged. In the end every acknowledged
submission has to have one verdict, and only one, unless it was given up, with its reason, after three attempts that were killed; none may
be there that nobody asked for; a user's submissions have to have been taken up in their order; and no process may be left. Exit code 1
where not. Several servers need a PostgreSQL; without one there is one server on SQLite.

With --workers a server grades nothing itself: so many workers join it, and they, their judges and their boxes are killed instead. With
--ray, Ray places the workers on so many nodes, all on this host. Also killed are a whole node (it is replaced), the head (it is away for
some seconds), and a node that is frozen first: its connections stay open, as those of a host that is cut off.

With --fault the host of one server fails instead: see `tools/service/host_faults.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.api.client import GraderClient
from grader.errors import InternalFault, LedgerBusy, QueueFull, ServerUnreachable, ShuttingDown
from grader.ledger.transactions import FAILURE_LIMIT
from grader.v1 import report_pb2, submission_pb2
from tools.service import host, host_faults, losses
from tools.service.losses import Kill, Loss
from tools.service.placed_workers import OwnWorkers, RayWorkers
from tools.service.stub_server import BOX_COMMAND, JUDGE_MODULE, POOL_COMMAND

PATIENCE_S = 300.0  # for what still runs when all are acknowledged
GONE_S = 15.0  # for processes to end that have lost those that they belong to
SUCCEEDED = submission_pb2.SUBMISSION_STATE_SUCCEEDED
RUNNING = submission_pb2.SUBMISSION_STATE_RUNNING
FAILED = submission_pb2.SUBMISSION_STATE_FAILED
# What a process that is killed has in its command. A box of the pool waits for a job, or has got one.
MARKS = {"judge": JUDGE_MODULE, "box": " ".join(BOX_COMMAND), "pool": " ".join(POOL_COMMAND)}
# What a client may meet while servers die; it asks again with the same request id.
AGAIN = (ServerUnreachable, ShuttingDown, LedgerBusy, QueueFull, InternalFault)


@dataclass(kw_only=True)
class Outcome:
    """What became of it all."""

    seconds: float = 0.0
    acknowledged: int = 0
    asked_again: int = 0
    killed: dict[str, int] = field(default_factory=dict)
    attempts_most: int = 0
    taken_up_again: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    given_up: dict[str, int] = field(default_factory=dict)
    without_verdict: list[str] = field(default_factory=list)
    judged_twice: list[str] = field(default_factory=list)
    nobody_asked_for: int = 0
    out_of_order: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)
    continued_after_s: dict[str, dict[str, float]] = field(default_factory=dict)

    def faults(self) -> list[str]:
        """What must not be."""
        found = [f"{name}: no verdict" for name in self.without_verdict] + [f"{name}: judged twice" for name in self.judged_twice]
        found += [f"{name}: taken up before one that was handed in earlier" for name in self.out_of_order]
        found += [f"a process is left: {command}" for command in self.left_behind]
        if self.nobody_asked_for:
            found.append(f"{self.nobody_asked_for} submissions that nobody has an acknowledgement for")
        return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and say by the exit code whether nothing was lost."""
    given = _parser().parse_args(arguments)
    count = given.servers or (2 if given.database else 1)
    if count > 1 and not given.database:
        _say("several servers need --database URL of a PostgreSQL; SQLite is for one")
        return 2
    if given.ray and (count > 1 or given.workers):
        _say("--ray is for one server, and instead of --workers")
        return 2
    with tempfile.TemporaryDirectory(prefix="grader-chaos-") as directory:
        if given.fault:
            Path(directory).chmod(0o711)  # a box's own uid must get below it
            fault_outcome = asyncio.run(host_faults.run(given.fault, Path(directory)))
            return host.show("chaos", fault_outcome, fault_outcome.faults(), as_json=given.json)
        outcome = asyncio.run(_Chaos(given, count, Path(directory)).run())
        outcome.left_behind = host.left_behind(Path(directory), GONE_S)
    return host.show("chaos", outcome, outcome.faults(), as_json=given.json)


class _Chaos:
    def __init__(self, given: argparse.Namespace, count: int, directory: Path) -> None:
        self._given, self._random = given, random.Random(given.seed)
        problems = host.write_problem(directory)
        words = ["--lanes", "2", "--queue-limit", "100000", "--log-level", "warning", "--auth", "keys"]
        words += ["--database", given.database] if given.database else []
        joins = [f"unix:{directory}/fleet{index}" for index in range(count)]
        joined = bool(given.workers or given.ray)
        remote = [["--fleet", "remote", "--fleet-listen", join] if joined else [] for join in joins]
        kind, wait_ms = "remote" if joined else "processes", given.judge_ms
        self._servers = [
            host.Server(kind, wait_ms, directory / f"state{index}", problems, [*words, *remote[index]]) for index in range(count)
        ]
        own = [
            host.Worker(wait_ms, joins[index % count], directory / f"worker{index}", ["--lanes", "2", "--log-level", "warning"])
            for index in range(given.workers)
        ]
        self._workers = RayWorkers(given.ray, wait_ms, joins[0], directory) if given.ray else OwnWorkers(own) if own else None
        self._keys = host.make_keys(given.users, directory / "state0", given.database)
        self._acknowledged: dict[str, list[str]] = {user: [] for user in self._keys}
        self._outcome = Outcome()
        self._killed: Counter[str] = Counter()
        self._kills: list[Kill] = []
        self._losses: list[Loss] = []

    async def run(self) -> Outcome:
        """All of it."""
        begun = time.monotonic()
        try:
            for server in self._servers:
                server.start()
            if self._workers is not None:
                await self._workers.start()
            for server in self._servers:
                async with GraderClient(server.address, key=next(iter(self._keys.values()))) as client:
                    await host.until_answering(server, client)
            killing = asyncio.create_task(self._kill())
            telling = asyncio.create_task(self._tell())
            try:
                await asyncio.gather(*(self._user(user, key) for user, key in self._keys.items()))
                _say("all are acknowledged")
                async with asyncio.timeout(PATIENCE_S):
                    await asyncio.gather(*(self._until_final(user, key) for user, key in self._keys.items()))
            finally:
                for task in (killing, telling):
                    task.cancel()
                await asyncio.gather(killing, telling, return_exceptions=True)
            await self._look_through()
        finally:
            if self._workers is not None:
                await self._workers.stop()
            for server in self._servers:
                server.stop()
        self._outcome.continued_after_s = losses.figures(self._losses)
        self._outcome.seconds = time.monotonic() - begun
        self._outcome.killed = dict(self._killed)
        return self._outcome

    async def _user(self, user: str, key: str) -> None:
        """Hand in one after the other, at whichever server answers."""
        clients = [GraderClient(server.address, key=key, deadline_s=5.0) for server in self._servers]
        for client in clients:
            await client.__aenter__()
        try:
            count = self._given.submissions // self._given.users
            for index in range(count):
                await asyncio.sleep(self._random.uniform(0, 2 * self._given.over / count))
                request_id, wanted = str(uuid.uuid4()), host.submission(f"{user} {index}")
                while True:
                    try:
                        made = await self._random.choice(clients).submit(wanted, request_id=request_id)
                        break
                    except AGAIN:
                        self._outcome.asked_again += 1
                        await asyncio.sleep(0.2)
                self._acknowledged[user].append(made.name)
                self._outcome.acknowledged += 1
        finally:
            for client in clients:
                await client.__aexit__(None, None, None)

    async def _until_final(self, user: str, key: str) -> None:
        """Wait until nothing of this user's is queued or running."""
        going_on = [submission_pb2.SUBMISSION_STATE_QUEUED, RUNNING]
        while True:
            try:
                async with GraderClient(self._random.choice(self._servers).address, key=key) as client:
                    if not (await client.list_submissions(page_size=1, states=going_on)).submissions:
                        return
            except AGAIN:
                pass
            await asyncio.sleep(1.0)

    async def _kill(self) -> None:
        """Every few seconds something dies."""
        kinds = self._given.kill or ("server", *(MARKS if self._workers is None else ("judge", "box", *self._workers.KINDS)))
        while sum(self._killed.values()) < self._given.kill_most:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * self._given.kill_every)
            kind = self._random.choice(kinds)
            self._killed[kind] += await self._kill_one(kind)

    async def _kill_one(self, kind: str) -> bool:
        """Whether there was one to be killed."""
        if kind == "server":
            server = self._random.choice(self._servers)
            await asyncio.to_thread(server.kill)
            server.start()
            return True
        if kind in MARKS:
            mark = MARKS[kind]
            parents = [server.pid for server in self._servers] if self._workers is None else self._workers.pids()
            found = [pid for parent in parents for pid, command in host.children(parent) if mark in command]
            for pid in self._random.sample(found, min(1, len(found))):
                host.kill(pid)
            return bool(found)
        assert self._workers is not None
        time_ns = time.time_ns()
        if (taken := await self._workers.kill(kind, self._random)) is not None:
            self._kills.append(Kill(kind=kind, time_ns=time_ns, workers=frozenset(taken)))
        return taken is not None

    async def _tell(self) -> None:
        while True:
            _say(f"{self._outcome.acknowledged} of {self._given.submissions} acknowledged, killed: {dict(self._killed)}")
            await asyncio.sleep(10.0)

    async def _look_through(self) -> None:
        """What the servers say of each, through the API."""
        verdicts: Counter[str] = Counter()
        for user, key in self._keys.items():
            async with GraderClient(self._servers[0].address, key=key) as client:
                mine, last_start = self._acknowledged[user], None
                listed = await _all_names(client)
                self._outcome.nobody_asked_for += len(set(listed) - set(mine))
                for name in mine:
                    one = await client.get_submission(name, full=True)
                    if one.state == FAILED and len(losses.attempt_times([event async for event in client.watch(name)])) >= FAILURE_LIMIT:
                        reason = one.error.message.partition(":")[0]
                        self._outcome.given_up[reason] = self._outcome.given_up.get(reason, 0) + 1
                        continue
                    if one.state != SUCCEEDED:
                        self._outcome.without_verdict.append(f"{name} {one.error.message}".strip())
                        continue
                    verdicts[f"{report_pb2.Verdict.Name(one.report.verdict)} {one.report.reason}".strip()] += 1
                    events = [event async for event in client.watch(name)]
                    finals, first_start = _history(events)
                    self._losses += losses.losses(losses.attempt_times(events), self._kills)
                    if finals != 1 or len(one.judgements) != 1:
                        self._outcome.judged_twice.append(name)
                    if last_start is not None and first_start < last_start:
                        self._outcome.out_of_order.append(name)
                    last_start = first_start
                    self._outcome.attempts_most = max(self._outcome.attempts_most, one.attempt_count)
                    self._outcome.taken_up_again += one.attempt_count > 1
        self._outcome.verdicts = dict(verdicts)


async def _all_names(client: GraderClient) -> list[str]:
    names: list[str] = []
    token = ""
    while True:
        page = await client.list_submissions(page_size=1000, page_token=token)
        names += [one.name for one in page.submissions]
        token = page.next_page_token
        if not token:
            return names


def _history(events: Sequence[submission_pb2.SubmissionEvent]) -> tuple[int, int]:
    """How many final events there are, and when the first attempt began, in nanoseconds."""
    finals, first_start = 0, 0
    for event in events:
        if event.HasField("submission"):
            finals += event.submission.state == SUCCEEDED
            if event.submission.state == RUNNING and event.attempt == 1:
                first_start = event.event_time.ToNanoseconds()
    return finals, first_start


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tools.service.chaos", description=(__doc__ or "").split("\n\n")[0])
    made.add_argument("--submissions", type=int, default=2000, metavar="N", help="how many in all (2000)")
    made.add_argument("--users", type=int, default=50, metavar="N", help="by how many users (50)")
    made.add_argument("--servers", type=int, default=0, metavar="N", help="how many servers (2 on PostgreSQL, 1 on SQLite)")
    made.add_argument("--workers", type=int, default=0, metavar="N", help="how many workers join them; 0: servers grade themselves (0)")
    made.add_argument(
        "--ray", type=int, default=0, metavar="N", help="nodes of a Ray cluster that places the workers; instead of --workers"
    )
    made.add_argument("--judge-ms", type=float, default=60.0, metavar="MS", help="that a stub judge takes (60)")
    made.add_argument("--database", default="", metavar="URL", help="a PostgreSQL that is empty; without it SQLite")
    made.add_argument("--kill", nargs="+", choices=("server", *MARKS), metavar="KIND", help="kill these only: server, judge, box, pool")
    made.add_argument("--kill-every", type=float, default=3.0, metavar="S", help="seconds between kills, on average (3)")
    made.add_argument(
        "--kill-most", type=int, default=2**31, metavar="N", help="leave them alone after so many (as many as there is time for)"
    )
    made.add_argument(
        "--fault",
        choices=tuple(host_faults.FAULTS),
        help="kill nothing, but let the host of one server fail so, and print how long it takes to recover",
    )
    made.add_argument("--over", type=float, default=60.0, metavar="S", help="seconds over which they are handed in (60)")
    made.add_argument("--seed", type=int, default=None, metavar="N", help="of what is random")
    made.add_argument("--json", action="store_true", help="print one JSON object")
    return made


if __name__ == "__main__":
    sys.exit(main())
