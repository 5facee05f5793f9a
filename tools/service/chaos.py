"""Kills servers, judges, boxes and workers while users submit, and looks for anything that is lost.

    python -m tools.service.chaos [--submissions 2000] [--users 50] [--servers 2] [--workers 0] [--database URL]

Stub servers on this host have the real ledger, dispatcher, fleet and pipeline. Every few seconds a random process gets
SIGKILL: a server (which is started again at once), a judge, a box, or a box that waits for a job (pool). Users repeat a
call with the same request id until it is acknowledged. In the end every acknowledged submission must have exactly one
verdict, unless it failed after three killed attempts; there must be no others; a user's submissions must have been
started in their order; and no process may be left. The exit code is 1 where not. Several servers need a PostgreSQL.

With --workers the servers grade nothing: so many workers join them, and they, their judges and their boxes are killed.
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
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from grader.api.client import GraderClient
from grader.errors import InternalFault, LedgerBusy, QueueFull, ServerUnreachable, ShuttingDown
from grader.ledger.transactions import FAILURE_LIMIT
from grader.v1 import report_pb2, submission_pb2
from tools.page import arguments_of
from tools.service import host, host_faults
from tools.service.stub_server import BOX_COMMAND, JUDGE_MODULE, POOL_COMMAND

PATIENCE_S = 300.0  # for what still runs when all are acknowledged
GONE_S = 15.0  # for orphaned processes to end
CLOCKS_NS = 1_000_000_000  # by which servers may differ: each estimates the database's clock from an answer, late on a busy host
_STATE = submission_pb2.SubmissionState.Value
QUEUED, RUNNING, SUCCEEDED, FAILED = (_STATE(f"SUBMISSION_STATE_{name}") for name in ("QUEUED", "RUNNING", "SUCCEEDED", "FAILED"))
# A part of the command of a process that is killed. A box of the pool waits for a job, or has one.
MARKS = {"judge": JUDGE_MODULE, "box": " ".join(BOX_COMMAND), "pool": " ".join(POOL_COMMAND)}
# Errors of a server that dies: the client repeats the call with the same request id.
RETRIED = (ServerUnreachable, ShuttingDown, LedgerBusy, QueueFull, InternalFault)


@dataclass(kw_only=True)
class Outcome:
    """Figures of a run."""

    seconds: float = 0.0
    acknowledged: int = 0
    retries: int = 0
    killed: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[str] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    without_verdict: list[str] = field(default_factory=list)
    judged_twice: list[str] = field(default_factory=list)
    unacknowledged: int = 0
    out_of_order: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Return a sentence for each fault."""
        faults = [f"{name}: no verdict" for name in self.without_verdict] + [f"{name}: judged twice" for name in self.judged_twice]
        faults += [f"{name}: started before an earlier submission of its user" for name in self.out_of_order]
        faults += [f"a process is left: {command}" for command in self.left_behind]
        return faults + ([f"{self.unacknowledged} submissions without an acknowledgement"] if self.unacknowledged else [])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, and return 1 if there is a fault."""
    options = _parse(arguments)
    count = options.servers or (2 if options.database else 1)
    if count > 1 and not options.database:
        sys.stderr.write("several servers need --database URL of a PostgreSQL; SQLite is for one\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="grader-chaos-") as name:
        directory = Path(name)
        if options.fault:
            directory.chmod(0o711)  # a box's own uid must get below it
            fault_outcome = asyncio.run(host_faults.run(options.fault, directory))
            return host.show("chaos", fault_outcome, fault_outcome.faults(), as_json=options.json)
        outcome = asyncio.run(_Chaos(options, count, directory).run())
        outcome.left_behind = host.left_behind(directory, GONE_S)
    return host.show("chaos", outcome, outcome.faults(), as_json=options.json)


class _Chaos:
    def __init__(self, options: argparse.Namespace, count: int, directory: Path) -> None:
        self._options, self._random = options, random.Random(options.seed)
        problems = host.write_problem(directory)
        words = ["--lanes", "2", "--queue-limit", "100000", "--log-level", "warning", "--auth", "keys"]
        words += ["--database", options.database] if options.database else []
        joins = [f"unix:{directory}/fleet{index}" for index in range(count)]
        kind = "remote" if options.workers else "processes"
        fleets = [["--fleet", "remote", "--fleet-listen", join] if options.workers else [] for join in joins]
        self._servers = [
            host.Server(kind, options.judge_ms, directory / f"state{index}", problems, [*words, *fleet])
            for index, fleet in enumerate(fleets)
        ]
        worker_words = ["--lanes", "2", "--log-level", "warning"]
        self._workers = [
            host.Worker(options.judge_ms, joins[index % count], directory / f"worker{index}", worker_words)
            for index in range(options.workers)
        ]
        self._keys = host.make_keys(options.users, directory / "state0", options.database)
        self._acknowledged: dict[str, list[str]] = {user: [] for user in self._keys}
        self._outcome = Outcome()

    async def run(self) -> Outcome:
        start_s = time.monotonic()
        try:
            for process in (*self._servers, *self._workers):
                process.start()
            for server in self._servers:
                async with GraderClient(server.address, key=next(iter(self._keys.values()))) as client:
                    await server.until_answering(client)
            tasks = [asyncio.create_task(self._kill()), asyncio.create_task(self._print_progress())]
            try:
                await asyncio.gather(*(self._submit(user, key) for user, key in self._keys.items()))
                async with asyncio.timeout(PATIENCE_S):
                    await asyncio.gather(*map(self._until_final, self._keys.values()))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            for user, key in self._keys.items():
                async with GraderClient(self._servers[0].address, key=key) as client:
                    await self._check(client, self._acknowledged[user])
        finally:
            for process in (*self._workers, *self._servers):
                await asyncio.to_thread(process.stop)
        self._outcome.seconds = time.monotonic() - start_s
        return self._outcome

    async def _submit(self, user: str, key: str) -> None:
        async with AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(GraderClient(server.address, key=key, deadline_s=5.0)) for server in self._servers]
            count = self._options.submissions // self._options.users
            for index in range(count):
                await asyncio.sleep(self._random.uniform(0, 2 * self._options.over / count))
                request_id, kernel = str(uuid.uuid4()), host.submission(f"{user} {index}")
                while True:
                    try:
                        submission = await self._random.choice(clients).submit(kernel, request_id=request_id)
                        break
                    except RETRIED:
                        self._outcome.retries += 1
                        await asyncio.sleep(0.2)
                self._acknowledged[user].append(submission.name)
                self._outcome.acknowledged += 1

    async def _until_final(self, key: str) -> None:
        while True:
            try:
                async with GraderClient(self._random.choice(self._servers).address, key=key) as client:
                    if not (await client.list_submissions(page_size=1, states=[QUEUED, RUNNING])).submissions:
                        return
            except RETRIED:
                pass
            await asyncio.sleep(1.0)

    async def _kill(self) -> None:
        kinds = self._options.kill or ("server", *(("judge", "box", "worker") if self._workers else MARKS))
        while self._outcome.killed.total() < self._options.kill_most:
            await asyncio.sleep(self._random.uniform(0.5, 1.5) * self._options.kill_every)
            kind = self._random.choice(kinds)
            if kind in MARKS:
                hosts = self._workers or self._servers
                pids = [pid for parent in hosts for pid, command in host.children(parent.pid).items() if MARKS[kind] in command]
                for pid in self._random.sample(pids, min(1, len(pids))):
                    host.kill(pid)
                    self._outcome.killed[kind] += 1
            else:
                process = self._random.choice(self._servers if kind == "server" else self._workers)
                await asyncio.to_thread(process.kill)
                process.start()
                self._outcome.killed[kind] += 1

    async def _print_progress(self) -> None:
        while True:
            sys.stderr.write(f"{self._outcome.acknowledged} of {self._options.submissions} acknowledged, killed: {self._outcome.killed}\n")
            await asyncio.sleep(10.0)

    async def _check(self, client: GraderClient, names: Sequence[str]) -> None:
        """Compare what the servers have of a user's submissions with what was acknowledged, in this order."""
        start_ns, allowance_ns = 0, CLOCKS_NS if len(self._servers) > 1 else 0
        self._outcome.unacknowledged += len({name async for name in host.listed(client)} - set(names))
        for name in names:
            submission = await client.get_submission(name, full=True)
            events = [event async for event in client.watch(name)]
            states = [event.submission.state for event in events if event.HasField("submission")]
            if submission.state == FAILED and states.count(RUNNING) >= FAILURE_LIMIT:
                self._outcome.given_up[submission.error.message.partition(":")[0]] += 1
                continue
            if submission.state != SUCCEEDED:
                self._outcome.without_verdict.append(f"{name} {submission.error.message}".strip())
                continue
            self._outcome.verdicts[f"{report_pb2.Verdict.Name(submission.report.verdict)} {submission.report.reason}".strip()] += 1
            if states.count(SUCCEEDED) != 1 or len(submission.judgements) != 1:
                self._outcome.judged_twice.append(name)
            first = next(event for event in events if event.submission.state == RUNNING)
            if first.event_time.ToNanoseconds() < start_ns - allowance_ns:
                self._outcome.out_of_order.append(name)
            start_ns = first.event_time.ToNanoseconds()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    return arguments_of(
        "tools.service.chaos",
        __doc__,
        arguments,
        {
            "submissions": (2000, "submissions in all"),
            "users": (50, "users who submit"),
            "servers": (0, "servers; 0: 2 on PostgreSQL, 1 on SQLite"),
            "workers": (0, "workers that join them; 0: servers grade themselves"),
            "judge-ms": (60.0, "time of a stub judge, in ms"),
            "database": ("", "URL of an empty PostgreSQL; without it SQLite"),
            "kill": (None, "kill only these", {"nargs": "+", "choices": ("server", "worker", *MARKS)}),
            "kill-every": (3.0, "seconds between kills, on average"),
            "kill-most": (2**31, "kills at most"),
            "fault": (None, "kill nothing, but let the host of one server fail so", {"choices": tuple(host_faults.FAULTS)}),
            "over": (60.0, "seconds over which users submit"),
            "seed": (None, "seed of what is random", {"type": int}),
            "json": (False, "print one JSON object"),
        },
    )


if __name__ == "__main__":
    sys.exit(main())
