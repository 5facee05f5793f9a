"""Measures what calls and pages cost as the ledger grows: CPU and SQLite's VM steps at 1,000 submissions and at many more.

    python -m tools.service.growth [--submissions 100000]

The first 1,000 are made by the ledger's own code, the others are copies of them by SQL. The server's own classes answer, in this process.
Steps are those of a first call, and tell what it costs where nothing is cached; CPU is the least of ten calls, where they are short.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from grader.config import Settings
from grader.dispatch.dispatcher import Dispatcher
from grader.extensions import ServerContext
from grader.ledger import Ledger
from grader.ledger.statements import SubmissionFilter
from grader.ledger.tables import events, judgements, submission_tags, submissions
from grader.model import Caller, Failure, NewSubmission, Scope, Score, SourceFile
from grader.observability.observer import Observer
from grader.peers import PeerLimits
from grader.problems.store import Problems
from grader.server import interceptors
from grader.server.interceptors import CallInterceptor, OpenCalls
from grader.server.service import GraderServicer
from grader.v1 import grader_service_pb2 as api
from grader.v1 import rejudge_pb2
from grader.verdict.fold import fold
from grader_extensions.competitions.server_part import server_part
from grader_extensions.competitions.store import Competitions
from grader_extensions.operation.retention import Retention
from grader_extensions.web.pages import routes_of
from sandbox.protocol import wire
from tools.page import Table, arguments_of, facts, table_lines
from tools.service import host

BOARD_SIZE = 5  # entries of a page
FIRST, USERS, CONTESTS = 1_000, 1_000, 50  # submissions that the ledger's own code makes, and of whom
PASS_LIMIT = 200_000  # submissions in a ledger that a whole pass of retention is made over
ROUND_LIMIT = 10  # calls, of which the cheapest counts
ROUNDS = 25  # copies of the first in one transaction
START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)
TICK, STEP_LIMIT, REPEATED_MS = 100, 1_000_000_000, 500  # VM steps between two counts, and of a call that is stopped
CONTEST = """
name = "{}"
title = "A competition"
problems = ["stub"]
visibility = "after_end"
start = 2026-01-01T00:00:00Z
end = 2026-02-01T00:00:00Z
"""
_DRAW = random.Random(1).gauss


def samples() -> wire.Samples:
    """Make times that vary as measured ones do: their digits do not repeat."""
    return wire.Samples(durations_ns=tuple(round(_DRAW(100_000, 700)) for _ in range(120)))


PASSED = {"workload_id": "n64", "phase": wire.TrialPhase.VERIFY, "outcome": wire.TrialOutcome.PASSED}
TIMES = {"workload_id": "n64", "clock": wire.Clock.DEVICE_EVENTS, "bound_ns": 9, "floor_ns": 9}
FACTS: list[wire.Fact] = [
    wire.Environment(device="stub", device_kind="emulated", clock=wire.Clock.DEVICE_EVENTS),
    wire.Build(outcome=wire.BuildOutcome.BUILT, log="ptxas info: Used 32 registers\n" * 8, artifact_digest="e" * 64),
    wire.Load(outcome=wire.LoadOutcome.LOADED),
    wire.Plan(trials=(("n64", wire.TrialPhase.VERIFY, 10),)),
    *(wire.Trial(**PASSED, index=index) for index in range(10)),  # type: ignore[arg-type]
    *(wire.Measurement(**TIMES, certified=samples(), baselines={"eager": samples()}) for _ in range(3)),  # type: ignore[arg-type]
    wire.Finished(job_id="job"),
]
Figures = dict[str, tuple[float, float]]  # CPU in ms and thousands of VM steps, by call


class _Steps:
    """Counts the VM steps of all connections, and stops a statement that takes too many."""

    count = 0

    def tick(self) -> bool:
        self.count += TICK
        return self.count > STEP_LIMIT


async def fill(ledger: Ledger, clock: list[datetime], problems: Problems) -> None:
    """Make the first ones: half of them in competitions, each tenth after an attempt that failed."""
    for index in range(FIRST):
        clock[0] = START + timedelta(seconds=index + 1)
        contest = f"c{index // 2 % CONTESTS:02}" if index % 2 else ""
        submission = NewSubmission(
            **{"problem_id": host.PROBLEM, "language": "cuda", "user": f"u{index * 7 % USERS:04}", "competition_id": contest},
            sources=(SourceFile(path="kernel.cu", content=host.SOURCE.format(index) * 10),),
            mode=wire.Mode.RANKED if contest else wire.Mode.TEST,
            tags=() if index % 20 else ("sweep",),
        )
        await ledger.submit(submission, problems.get(host.PROBLEM))
        for spoiled in (True, False) if index % 10 == 0 else (False,):
            (lease,) = await ledger.lease_some("w", 1, ttl_s=3000)
            await ledger.append(lease, FACTS[:-1])
            if spoiled:
                await ledger.release(lease, Failure(reason="SANDBOX_BROKEN", message="no box"))
                continue
            value = 1 + index * 7919 % 1000 / 500
            await ledger.settle(lease, replace(fold(FACTS, None), score=Score(value=value, low=value, high=value)), FACTS[-1:])


def multiply(path: Path, count: int) -> float:
    """Copy the first ones until there are so many; return the bytes of each."""
    shifted = f"strftime('%Y-%m-%d %H:%M:%f', t.{{}}, '+' || (r.round * {FIRST}) || ' seconds') || '000'"
    changed = {"submission_id": "lower(hex(randomblob(8)))", "user_name": f"printf('u%04d', (t.number * 7 + r.round * 13) % {USERS})"}
    changed |= dict.fromkeys(("body_digest", "content_digest"), "lower(hex(randomblob(32)))")
    changed |= {name: f"t.{name} + r.round * {FIRST}" for name in ("number", "source_number")}
    changed |= {name: shifted.format(name) for name in ("create_time", "start_time", "end_time", "event_time")}
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000; CREATE TEMP TABLE rounds (round INTEGER PRIMARY KEY)")
    for first in range(1, count // FIRST, ROUNDS):
        connection.execute("DELETE FROM rounds")
        rounds = [(number,) for number in range(first, min(first + ROUNDS, count // FIRST))]
        connection.executemany("INSERT INTO rounds VALUES (?)", rounds)
        connection.execute("BEGIN")
        for table in (submissions, submission_tags, events, judgements):
            names = [column.name for column in table.c]
            copied = ", ".join(changed.get(name, f"t.{name}") for name in names)
            rows = f"SELECT {copied} FROM rounds r JOIN {table.name} t WHERE t.number <= {FIRST} ORDER BY r.round, t.number"
            connection.execute(f"INSERT INTO {table.name} ({', '.join(names)}) {rows}")
        connection.execute("COMMIT")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.stat().st_size / count


async def calls(service: GraderServicer, pages: web.Application) -> AsyncIterator[tuple[str, Callable[[], Awaitable[Any]]]]:
    """Yield each call by what it asks."""

    async def page(path: str) -> None:
        request = make_mocked_request("GET", path, headers={"Host": "127.0.0.1"}, app=pages)
        request._match_info = match = await pages.router.resolve(request)
        assert (await match.handler(request)).status == 200

    async def answer(method: str, user: str, fields: dict[str, Any]) -> Any:
        interceptors.enter_call(Caller(user=user, scopes=frozenset({Scope.SUBMIT, Scope.READ})) if user else Caller())
        reply = getattr(service, method)(getattr(api, f"{method}Request")(**fields), None)
        return [message async for message in reply] if method.startswith("Watch") else await reply

    def rpc(method: str, caller: str = "", /, **fields: Any) -> Callable[[], Awaitable[Any]]:
        return partial(answer, method, caller, fields)

    (newest, second), number = await service.ledger.page(size=2)
    (entry,), _ = await service.ledger.page(size=1, submission_filter=SubmissionFilter(competition_id="c07"))
    entry_id = entry.submission_id
    name, contest, prefix, rare = f"submissions/{newest.submission_id}", "competitions/c07", newest.submission_id[:9], {"verdicts": [2]}
    yield "Submit", rpc("Submit", submission=host.submission("new"))
    yield "Submit, cached", rpc("Submit", "u0007", submission=host.submission("new"), allow_cached_result=True)
    yield "BatchSubmit of 16", rpc("BatchSubmit", requests=[{"submission": host.submission(f"of a batch, {index}")} for index in range(16)])

    async def cancel() -> None:
        await rpc("CancelSubmission", name=(await rpc("Submit", submission=host.submission("cancelled"))()).name)()

    async def grade() -> None:
        (lease,) = await service.ledger.lease_some("w", 1, ttl_s=30)
        await service.ledger.heartbeat(lease, ttl_s=30)
        await service.ledger.append(lease, FACTS[:-1])
        await service.ledger.settle(lease, fold(FACTS, None), FACTS[-1:])

    yield "Submit and CancelSubmission", cancel
    yield "lease, heartbeat, append, settle", grade
    yield "expire", service.ledger.expire
    yield "queue, for positions", service.ledger.queue
    for method, caller, fields in (
        ("GetSubmission", "", {"name": name, "view": 2}),
        ("WatchSubmission", "", {"name": name}),
        ("WatchSubmissions", "", {"names": [name], "until_idle": True}),
        ("ListArtifacts", "", {"parent": name}),
        ("GetCaller", "u0007", {"with_quotas": True}),
        ("GetCompetition", "", {"name": contest}),
        ("ListCompetitions", "", {}),
        ("GetProblem", "", {"name": "problems/stub"}),
        ("ListProblems", "", {}),
    ):
        yield f"{method}{' as a user' * bool(caller)}", rpc(method, caller, **fields)
    # No larger than what the smaller ledger has of them, so that both answer with as much.
    of_user, of_contest = {"page_size": FIRST // USERS}, {"page_size": FIRST // 2 // CONTESTS}
    lists: list[dict[str, Any]] = [{}, {"page_size": 1000}, {"user": "u0123", **of_user}, {"competition": contest, **of_contest}]
    lists += [{"states": [3]}, {"states": [3, 4]}]
    lists += [{"tag": "sweep"}, {"problem": "problems/stub"}, rare, {"verdicts": [1, 6]}, {"id_prefix": prefix}, {"id_prefix": "zz"}]
    lists += [{"problem": "problems/stub", **rare}, {"problem": "problems/stub", "states": [5]}, {"competition": contest, **rare}]
    lists += [{"user": "u0123", "competition": contest}, {"user": "u0123", **rare}, {"user": "u0123", "states": [1]}]
    for request in lists:
        yield f"List {request or 'all'}".replace(prefix, "PREFIX"), rpc("ListSubmissions", **request)
    of_the_user: list[dict[str, Any]] = [of_user, rare, {"states": [1]}, {"tag": "sweep", **of_user}]
    for request in (*of_the_user, {"competition": contest, **of_contest}, {"user": "u0123", **of_user}):
        yield f"List as a user, {request or 'all'}", rpc("ListSubmissions", "u0007", **request)
    board = rpc("GetLeaderboard", competition=contest, problem="problems/stub", page_size=BOARD_SIZE)

    organised = {"name": f"submissions/{entry_id}", "reason": "a bench"}
    withdraw, restore = (rpc(method, **organised) for method in ("WithdrawSubmission", "RestoreSubmission"))

    async def change() -> None:
        for organise in (withdraw, restore):
            await organise()
            await board()

    yield "GetLeaderboard, first", board
    yield "GetLeaderboard twice, with a withdrawal and its end", change
    yield "GetLeaderboard", board
    yield "GetLeaderboard of all problems", rpc("GetLeaderboard", competition="competitions/c08", page_size=BOARD_SIZE)
    yield "WithdrawSubmission", withdraw
    yield "RestoreSubmission", restore
    banned = {"competition": contest, "user": "u0123", "reason": "a bench"}
    for method, fields in (("BanUser", banned), ("ListBans", {}), ("LiftBan", banned), ("ListCompetitionActions", {})):
        yield method, rpc(method, **{"competition": contest, **fields})
    paths = ["/", "/competitions", f"/{contest}", "/problems", "/problems/stub", "/submit", f"/{name}", f"/{name}/sources"]
    queries = ("", "?problem=stub", "?verdict=WRONG_ANSWER", "?problem=stub&verdict=WRONG_ANSWER", "?before=500")
    paths += [f"/submissions{query}" for query in queries]
    paths += [f"/compare?a={newest.submission_id}&b={second.submission_id}"]
    for path in paths:
        shown = path.replace(newest.submission_id, "ID").replace(second.submission_id, "ID2")
        yield f"page {shown}", partial(page, path)
    yield "queue for /metrics", service.ledger.depths
    yield "CreateRejudge", rpc("CreateRejudge", rejudge=rejudge_pb2.Rejudge(cause="a bench", competition=contest))
    (rejudge,) = (await rpc("ListRejudges", page_size=1)()).rejudges
    yield "GetRejudge while it runs", rpc("GetRejudge", name=rejudge.name)
    yield "ListRejudges", rpc("ListRejudges")
    yield "DiscardRejudge", rpc("DiscardRejudge", name=rejudge.name)
    over = service.policy.ended(END)
    retention = Retention(service.ledger, service.policy, sources_days=1, events_days=1)
    yield "retention of events, a batch", partial(retention.remove_events, END, over)
    yield "retention of sources, a batch", partial(retention.remove_sources, END, over)
    # A pass over a million takes half an hour, of which a third are pauses; of each submission it costs what it costs in a batch.
    for pass_name in ("first", "again") if (number or 0) < PASS_LIMIT else ():
        yield f"retention, {pass_name}", retention.remove_due


def files(directory: Path) -> tuple[Problems, Competitions, Settings]:
    """Write a problem and competitions, and say where the ledger is."""
    problems = Problems.load((host.write_problem(directory / "problems"),), directory / "imported")
    for index in range(CONTESTS):
        (place := directory / "competitions" / f"c{index:02}").mkdir(parents=True, exist_ok=True)
        (place / "competition.toml").write_text(CONTEST.format(place.name), "utf-8")
    settings = Settings(state_dir=directory / "state", auth="none", web="127.0.0.1:0")
    return problems, Competitions.load((directory / "competitions",), problems), settings


async def make(count: int, directory: Path) -> float:
    """Fill a ledger, and return the bytes of a submission."""
    (problems, _, settings), clock = files(directory), [START]
    async with Ledger.open(settings.ledger, now=lambda: clock[0]) as ledger:
        await fill(ledger, clock, problems)
    return multiply(settings.ledger_path, count)


async def measure(directory: Path, steps: _Steps) -> Figures:
    """Make each call, and return the figures."""
    (problems, contests, settings), figures = files(directory), Figures()
    async with Ledger.open(settings.ledger, now=lambda: END) as ledger:
        worker = Dispatcher(ledger, lambda lease: None, capacity=lambda: 0)  # type: ignore[arg-type, return-value]
        service = GraderServicer(ledger, problems, worker=worker, device_kinds=lambda: ("emulated",), settings=settings, policy=contests)
        interceptor = CallInterceptor(None, OpenCalls(PeerLimits(total=1, per_address=1)), Observer())
        context, pages = ServerContext(settings=settings, service=service, gate=None, interceptor=interceptor), web.Application()
        service.add(server_part(context).calls)
        pages.add_routes(routes_of(context, None))
        async for name, call in calls(service, pages):
            used_ms, steps_k = list[float](), list[float]()
            while len(used_ms) < ROUND_LIMIT and sum(used_ms) < REPEATED_MS and not (used_ms and name.startswith("retention")):
                steps.count, before_s = 0, time.process_time()
                with suppress(sa.exc.OperationalError):  # stopped
                    await call()
                used_ms.append((time.process_time() - before_s) * 1000)
                steps_k.append(steps.count / 1000)
                steps.count = 0
            figures[name] = min(used_ms), steps_k[0]
    return figures


def main() -> int:
    """Measure both, and print them next to each other."""
    options = arguments_of("tools.service.growth", __doc__, None, {"submissions": (100_000, "in the larger ledger")})
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    steps, results = _Steps(), dict[str, tuple[float, Figures]]()
    sa.event.listen(sa.pool.Pool, "connect", lambda connection, _: connection.set_progress_handler(steps.tick, TICK))
    for count in (FIRST, options.submissions // FIRST * FIRST):
        with tempfile.TemporaryDirectory(prefix="grader-growth-") as directory:
            bytes_each = asyncio.run(make(count, Path(directory)))
            results[f"{count:,}"] = bytes_each, asyncio.run(measure(Path(directory), steps))
    (_, few), (_, many) = results.values()
    table = Table(headings=("call", *(f"{unit}, {size}" for unit in ("CPU ms", "k steps") for size in results), "CPU ratio"))
    for name, (used_ms, steps_k) in few.items():
        stopped = ">" if many[name][1] * 1000 > STEP_LIMIT else ""
        later_ms, later_k, ratio = (f"{stopped}{value:.1f}" for value in (*many[name], many[name][0] / used_ms))
        table.add(name, f"{used_ms:.1f}", later_ms, f"{steps_k:.1f}", later_k, ratio)
    rows = [*facts("python -m tools.service.growth", sys.argv[1:]).items()]
    rows += [(f"bytes a submission, {size}", f"{bytes_each:,.0f}") for size, (bytes_each, _) in results.items()]
    sys.stdout.write("\n".join([*table_lines(("figure", "value"), rows), "", *table.lines()]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
