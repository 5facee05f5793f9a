"""Rejudges: the API's methods, and the task that decides each submission by its facts or puts a run into the queue.

Everything is in the ledger: what a server that died left undone is done by the next one, or by another on the same database.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import sqlalchemy as sa
import structlog

from grader import devices
from grader.api.conversion import from_enum, to_message
from grader.api.resource_names import COMPETITIONS, PROBLEMS, REJUDGES, SUBMISSIONS, full_name, parse, resource_id, violation
from grader.errors import FieldViolation, GraderFault, InvalidRequest, NoSuchDevice, ProblemInvalid
from grader.intake import gate
from grader.ledger.changes import News, NewsKind
from grader.model import Problem, Report, SubmissionState
from grader.server import interceptors
from grader.server.request_limits import page_position, page_size, page_token
from grader.server.service import GraderServicer
from grader.v1 import grader_service_pb2 as api
from grader.v1 import rejudge_pb2
from grader_extensions.competitions import rejudges
from grader_extensions.competitions.boards import read_standings
from grader_extensions.competitions.competition_file import problem_for
from grader_extensions.competitions.leaderboard import board
from grader_extensions.competitions.model import Competition
from grader_extensions.competitions.rejudge import Change, Rejudge, RejudgeMethod, RejudgeOrder, RejudgeState, meant, rule
from grader_extensions.competitions.rejudges import Undecided
from grader_extensions.competitions.store import Competitions
from sandbox.protocol import wire

log = structlog.get_logger()

BATCH = 16  # submissions decided in one transaction: so long others wait for the writer
POLL_S = 5.0  # what another server left undone is found so late
PATIENCE_S = 2.0  # for what facts decide, before CreateRejudge answers
CAUSE_CHARS = 1000
RUNS_NAMED = 10  # of those that a rejudge waits for
NAMED_LIMIT = 10_000  # submissions that one request may name; by problem or competition it is any number
TOP_LIMIT = 100_000


class RejudgeCalls:
    """Makes, shows and ends rejudges."""

    def __init__(self, service: GraderServicer, competitions: Competitions) -> None:
        self._ledger, self._problems, self._competitions = service.ledger, service.problems, competitions
        self._read, self._write = service.ledger.database.read, service.ledger.database.write
        self._device_kinds, self._writable = service.device_kinds, service.writable
        self._batch_problems: dict[str, Problem] = {}  # of the batch that is decided, by digest, as the ledger has them
        self._news, self._idle = asyncio.Event(), asyncio.Event()

    async def CreateRejudge(self, request: api.CreateRejudgeRequest) -> rejudge_pb2.Rejudge:
        """Choose submissions and decide by facts what facts decide. A request that came before goes on with what it made."""
        order, user = _order_from_proto(request.rejudge), interceptors.current_caller().user
        if violations := gate.check_request_id(request.request_id):
            raise InvalidRequest(violations)
        before = None
        if request.request_id:
            before = await self._read(lambda connection: rejudges.by_request(connection, user, request.request_id, order))
        if before is None:
            if order.device_kind and not devices.is_offered(order.device_kind, self._device_kinds()):
                raise NoSuchDevice(order.device_kind, self._device_kinds())
            drawn_for = await self._drawn_for(order, rejudge_id := secrets.token_hex(16))
            if order.problem_id:
                self._problems.get(order.problem_id)
            if order.competition_id:
                self._competitions.get(order.competition_id)
            named = await self._top(order) if order.top_count else order.submission_ids or None
            candidates = await self._read(lambda connection: rejudges.candidates(connection, order, named))
            for candidate in candidates if order.submission_ids else ():
                if candidate.state != SubmissionState.SUCCEEDED:
                    text = f"{candidate.submission_id!r} was not graded, so there is nothing to judge again; leave it out"
                elif order.problem_id not in ("", candidate.problem_id) or order.competition_id not in ("", candidate.competition_id):
                    text = f"{candidate.submission_id!r} is not to the problem and competition that are named; leave it, or those, out"
                else:
                    continue
                raise InvalidRequest([FieldViolation(f"submissions[{order.submission_ids.index(candidate.submission_id)}]", text)])
            if not candidates:
                text = "means no submission that was graded; ask for less, or see `grader-cli list`"
                raise InvalidRequest([FieldViolation("rejudge", text)])
            numbers, problems = self._judged_by(candidates, drawn_for)
            arguments = (self._ledger.now(), order, user, request.request_id, numbers, problems)
            before = await self._write(lambda connection: rejudges.create(connection, *arguments, rejudge_id=rejudge_id))
            log.info("rejudge_created", rejudge=before.rejudge_id, submission_count=before.submission_count)
        elif before.failed_count and before.state is RejudgeState.RUNNING:
            count = await self._write(partial(rejudges.try_again, rejudge_id=before.rejudge_id))
            log.info("rejudge_tried_again", rejudge=before.rejudge_id, count=count)
        self._idle.clear()
        self._news.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), PATIENCE_S)
        return await self._shown(before.rejudge_id)

    async def GetRejudge(self, request: api.GetRejudgeRequest) -> rejudge_pb2.Rejudge:
        return await self._shown(parse(REJUDGES, request.name))

    async def ListRejudges(self, request: api.ListRejudgesRequest) -> api.ListRejudgesResponse:
        size = page_size(request.page_size)
        before = page_position(request.page_token, int, "rejudges")
        listed, following = await self._read(partial(rejudges.page, size=size, before=before))
        token = page_token(following, "rejudges")
        return api.ListRejudgesResponse(rejudges=[_rejudge_to_proto(rejudge) for rejudge in listed], next_page_token=token)

    async def ApplyRejudge(self, request: api.ApplyRejudgeRequest) -> rejudge_pb2.Rejudge:
        rejudge_id = parse(REJUDGES, request.name)
        await self._write(lambda connection: rejudges.apply(connection, self._ledger.now(), rejudge_id))
        self._competitions.recent.clear()
        log.info("rejudge_applied", rejudge=rejudge_id)
        return await self._shown(rejudge_id)

    async def DiscardRejudge(self, request: api.DiscardRejudgeRequest) -> rejudge_pb2.Rejudge:
        rejudge_id = parse(REJUDGES, request.name)
        for run_id in await self._write(lambda connection: rejudges.discard(connection, self._ledger.now(), rejudge_id)):
            self._ledger.changes.hear(News(kind=NewsKind.CANCELLING, submission_id=run_id))  # its worker, and who watches it
            self._ledger.changes.say(NewsKind.CANCELLING, [run_id])  # the same on other servers
        log.info("rejudge_discarded", rejudge=rejudge_id)
        return await self._shown(rejudge_id)

    async def run(self) -> None:
        """Decide what there is to decide, until cancelled."""
        while True:
            self._news.clear()
            try:
                while await self._decide_some():
                    pass
                self._idle.set()
            except GraderFault as error:  # a busy ledger; the next round tries again
                log.warning("rejudging_failed", reason=error.reason, detail=error.detail)
            except Exception:  # the server has more to do than this
                log.exception("rejudging_broke")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), POLL_S)

    async def _decide_some(self) -> bool:
        batch = await self._read(partial(rejudges.undecided, limit=BATCH))
        if not batch:
            return False
        before, self._batch_problems = self._batch_problems, {}
        for digest in {digest for candidate in batch for digest in (candidate.old_digest, candidate.new_digest)}:
            self._batch_problems[digest] = before.get(digest) or await self._ledger.problem(digest)
        rulings = await asyncio.to_thread(lambda: [(candidate, self._rule(candidate)) for candidate in batch])
        if await self._write(lambda connection: rejudges.decide(connection, self._ledger.now(), rulings)):
            self._writable().wake()
        return True

    def _rule(self, undecided: Undecided) -> Report | None:
        if undecided.method is RejudgeMethod.RUN:
            return None
        try:
            facts = [wire.decode(line.encode()) for line in undecided.lines]
        except wire.WireError as error:  # of another version; nobody can say any more what it meant
            log.warning("facts_not_read", submission=undecided.submission_id, detail=str(error)[:200])
            return None
        try:
            old, current = (self._batch_problems[digest] for digest in (undecided.old_digest, undecided.new_digest))
            report, why = rule(facts, mode=undecided.mode, entry=undecided.entry, old=old, current=current)
        except Exception:  # whatever it is, it is ours: a run tells as well, and the others go on
            log.exception("rule_broke", submission=undecided.submission_id)
            return None
        log.info("rejudge_ruled", rejudge=undecided.rejudge_id, submission=undecided.submission_id, by_facts=report is not None, why=why)
        return report

    async def _shown(self, rejudge_id: str) -> rejudge_pb2.Rejudge:
        competitions = self._competitions.all()

        def read(connection: sa.Connection) -> rejudge_pb2.Rejudge:
            rejudge = rejudges.get(connection, rejudge_id)
            decided = rejudge.state is not RejudgeState.RUNNING or rejudge.pending_count == rejudge.failed_count
            if decided:
                return _rejudge_to_proto(rejudge, rejudges.changes(connection, rejudge_id, competitions))
            return _rejudge_to_proto(rejudge, runs=rejudges.pending_runs(connection, rejudge_id, RUNS_NAMED))

        return await self._read(read)

    async def _top(self, order: RejudgeOrder) -> list[str]:
        """The best of each problem's boards: of the devices that the runs are to be on, or of all where nobody has been on those.

        InvalidRequest where all of them are empty.
        """
        competition, chosen = self._competitions.get(order.competition_id), dict[str, None]()
        for problem_id in competition.problem_ids:
            if order.problem_id not in ("", problem_id):
                continue
            standings = await read_standings(self._ledger, competition, problem_id)
            clocks = {standing.device: standing.clock for standing in standings}
            fitting = [device for device, clock in clocks.items() if meant(order.device_kind, device, clock)] or list(clocks)
            for device in sorted(fitting):
                entries = board(competition, standings, problem_id=problem_id, device=device).entries
                chosen |= {entry.submission_id: None for entry in entries if entry.rank <= order.top_count}
        if not chosen:
            about = f"competition {order.competition_id!r}" + (f", problem {order.problem_id!r}," if order.problem_id else "")
            text = f"finds nothing to run again: the board of {about} is empty, for nothing was accepted and scored in ranked mode yet"
            hint = f"`grader-cli list --competition {order.competition_id}` says what became of what was handed in"
            raise InvalidRequest([FieldViolation("top_count", f"{text}; {hint}")])
        return list(chosen)

    async def _drawn_for(self, order: RejudgeOrder, rejudge_id: str) -> str:
        """The rejudge whose secret sizes are meant: this one, an earlier one, or "", which is the file's sizes."""
        if not order.sizes_of:
            return rejudge_id if order.fresh_sizes else ""
        earlier_order = (await self._read(partial(rejudges.get, rejudge_id=order.sizes_of))).order
        if earlier_order.competition_id != order.competition_id or not earlier_order.fresh_sizes:
            text = f"{order.sizes_of!r} drew no sizes for this competition; name a final of it, or leave it out"
            raise InvalidRequest([FieldViolation("sizes_of", text)])
        return order.sizes_of

    def _judged_by(self, chosen: Sequence[sa.Row[Any]], drawn_for: str) -> tuple[dict[str, list[int]], list[Problem]]:
        """Numbers by the digest of the problem that this server has now, and those problems; drawn_for: of which rejudge the sizes are."""
        by_problem: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for candidate in chosen:
            by_problem[candidate.problem_id, candidate.competition_id].append(candidate.number)
        numbers, problems = defaultdict[str, list[int]](list), []
        for (problem_id, competition_id), of_it in by_problem.items():
            problem = self._problems.get(problem_id)
            if competition_id:
                problem = problem_for(self._competition(competition_id, drawn_for), problem)
            problems.append(problem)
            numbers[problems[-1].digest] += of_it
        return numbers, problems

    def _competition(self, competition_id: str, drawn_for: str) -> Competition:
        if not drawn_for:
            return self._competitions.get(competition_id)
        try:
            return self._competitions.redrawn(competition_id, drawn_for)
        except ProblemInvalid as error:
            text = f"can't be drawn: {error}; fix the file, restart the server and ask again, or leave it out"
            raise InvalidRequest([FieldViolation("fresh_sizes", text)]) from None


def _order_from_proto(message: rejudge_pb2.Rejudge) -> RejudgeOrder:
    """Return what is asked for; InvalidRequest with all that is wrong."""
    violations: list[FieldViolation] = []

    def last(name: str, collection: str, field: str, *, needed: bool = False) -> str:
        if (name or needed) and (wrong := violation(collection, name, field)) is not None:
            violations.append(wrong)
        return resource_id(collection, name)

    method = RejudgeMethod.FACTS_OR_RUN
    if message.method:
        try:
            method = from_enum(RejudgeMethod, rejudge_pb2.RejudgeMethod.DESCRIPTOR, message.method)
        except ValueError:
            names = ", ".join(f"REJUDGE_METHOD_{choice.name}" for choice in RejudgeMethod)
            violations.append(FieldViolation("method", f"{int(message.method)} is not known here; take one of: {names}"))
    order = RejudgeOrder(
        cause=message.cause.strip(),
        problem_id=last(message.problem, PROBLEMS, "problem"),
        competition_id=last(message.competition, COMPETITIONS, "competition"),
        submission_ids=tuple(
            dict.fromkeys(last(name, SUBMISSIONS, f"submissions[{index}]", needed=True) for index, name in enumerate(message.submissions))
        ),
        method=method,
        top_count=message.top_count,
        device_kind=message.device_kind,
        fresh_sizes=message.fresh_sizes,
        sizes_of=last(message.sizes_of, REJUDGES, "sizes_of"),
    )
    violations += _violations(order)
    if violations:
        raise InvalidRequest(violations)
    return order


def _violations(order: RejudgeOrder) -> Iterator[FieldViolation]:
    if not order.cause:
        yield FieldViolation("cause", "is empty; say in a sentence why, for the history of what is judged again")
    elif len(order.cause) > CAUSE_CHARS or "\0" in order.cause:
        yield FieldViolation("cause", f"is not text of at most {CAUSE_CHARS} characters; shorten it")
    if not (order.problem_id or order.competition_id or order.submission_ids):
        yield FieldViolation("problem", "says nothing, as competition and submissions do; name at least one of the three")
    if len(order.submission_ids) > NAMED_LIMIT:
        yield FieldViolation("submissions", f"are more than {NAMED_LIMIT}; name fewer, or a problem or competition")
    if not 0 <= order.top_count <= TOP_LIMIT:
        yield FieldViolation("top_count", f"{order.top_count} is not a rank; take one from 1 to {TOP_LIMIT}, or leave it out for all")
    elif order.top_count and (not order.competition_id or order.submission_ids):
        yield FieldViolation("top_count", "is counted on the boards of a competition; name one, and no submissions")
    for field, value in (("fresh_sizes", order.fresh_sizes), ("sizes_of", order.sizes_of)):
        if value and not order.competition_id:
            yield FieldViolation(field, "is of the secret workloads of a competition; name one")
    if order.fresh_sizes and order.sizes_of:
        yield FieldViolation("sizes_of", "has sizes that are drawn already; leave it, or fresh_sizes, out")
    if order.device_kind and not devices.well_formed(order.device_kind):
        yield FieldViolation("device_kind", f"{order.device_kind[:64]!r} is not a device; write {devices.FORMS}, or leave it out")


def _rejudge_to_proto(rejudge: Rejudge, changes: Sequence[Change] = (), runs: Sequence[str] = ()) -> rejudge_pb2.Rejudge:
    message = to_message(
        rejudge_pb2.Rejudge,
        rejudge,
        rejudge.order,
        changes=[to_message(rejudge_pb2.RejudgeChange, change) for change in rejudges.shown(changes)],
        change_count=len(changes),
        pending_runs=[full_name(SUBMISSIONS, run_id) for run_id in runs],
    )
    if rejudge.state is not RejudgeState.APPLIED:
        for change in message.changes:
            if change.after.rejudge == message.name:
                change.after.ClearField("create_time")  # it does not count yet
    return message
