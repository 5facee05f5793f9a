"""Webhooks, which report finished submissions to sites, and the outbox of their deliveries.  `grader/webhooks/sender.py` sends them.

A delivery is written in one transaction with what it tells of, so that none is lost. It comes twice where a server dies while it sends.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from grader.errors import DeliveryNotFound, HookNotFound
from grader.ledger import statements
from grader.ledger.database import Database
from grader.ledger.tables import UtcTime, deliveries, hooks, submissions

KEEP_TRYING = timedelta(days=1)
LEASE_S = 60.0  # how long what was claimed is nobody else's; sending takes less
STATUS_CHARS = 200  # of what is kept of an answer
SECRET_PREFIX = "whsec_"
_CHUNK = 500


class HookEvent(StrEnum):
    """What a delivery tells of."""

    FINISHED = "submission.finished"  # it reached a final state
    JUDGED_AGAIN = "judgement.changed"  # a rejudge was applied to it


class DeliveryState(StrEnum):
    """What became of a delivery."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


_ENDED = (DeliveryState.DELIVERED, DeliveryState.GIVEN_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """Whom to tell. user, competition_id: "" is of all; the counts are of its deliveries."""

    hook_id: str
    url: str
    user: str
    competition_id: str
    create_time: datetime
    end_time: datetime | None = None
    counts: tuple[tuple[DeliveryState, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One event on its way to one hook."""

    delivery_id: str
    hook_id: str
    submission_id: str
    event: HookEvent
    state: DeliveryState
    attempt: int
    next_time: datetime
    give_up_time: datetime
    create_time: datetime
    last_status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A delivery that this process alone may send now."""

    delivery: Delivery
    url: str
    secret: str


def enqueue(connection: sa.Connection, now: datetime, numbers: Sequence[int], event: HookEvent) -> None:
    """Write a delivery of each of these submissions for every hook that is of it; runs of rejudges are nobody's business."""
    if connection.execute(statements.ANY_HOOK).first() is None:
        return
    for start in range(0, len(numbers), _CHUNK):
        wanted = (
            sa.select(submissions.c.number, hooks.c.hook_id)
            .join(hooks, sa.and_(_of("user_name"), _of("competition_id"), hooks.c.end_time.is_(None)))
            .where(submissions.c.number.in_(numbers[start : start + _CHUNK]), submissions.c.rejudge_id.is_(None))
            .order_by(submissions.c.number, hooks.c.hook_id)
        )
        made = [_new(now, row.number, row.hook_id, event) for row in connection.execute(wanted)]
        if made:
            connection.execute(sa.insert(deliveries), made)


def _of(column: str) -> sa.ColumnElement[bool]:
    return sa.or_(hooks.c[column] == "", hooks.c[column] == submissions.c[column])


def _new(now: datetime, number: int, hook_id: str, event: HookEvent) -> dict[str, Any]:
    return {
        "delivery_id": secrets.token_hex(8),
        "hook_id": hook_id,
        "number": number,
        "event": event,
        "state": DeliveryState.WAITING,
        "attempt": 0,
        "next_time": now,
        "give_up_time": now + KEEP_TRYING,
        "last_status": "",
        "create_time": now,
    }


class WebhookOutbox:
    """Hooks and their deliveries, a transaction a method. The ledger has it as `ledger.hooks`."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database, self._now = database, now

    async def create(self, url: str, *, user: str = "", competition_id: str = "") -> tuple[Hook, str]:
        """A new hook, and the secret that what is sent to it is signed with. The caller has checked the URL."""
        hook = Hook(hook_id=secrets.token_hex(8), url=url, user=user, competition_id=competition_id, create_time=self._now())
        secret = SECRET_PREFIX + secrets.token_hex(32)
        values = {"hook_id": hook.hook_id, "user_name": user, "competition_id": competition_id, "url": url, "secret": secret}
        await self._database.write(lambda connection: connection.execute(sa.insert(hooks).values(create_time=hook.create_time, **values)))
        return hook, secret

    async def all(self) -> list[Hook]:
        """Every hook, oldest first, those that were removed too."""
        return await self._database.read(_hooks)

    async def remove(self, hook_id: str) -> None:
        """Tell it nothing more, not even what waits; HookNotFound."""
        await self._database.write(lambda connection: _remove(connection, self._now(), hook_id))

    async def deliveries(self, hook_id: str = "", *, states: Sequence[DeliveryState] = (), limit: int = 100) -> list[Delivery]:
        """Deliveries, newest first: of one hook, or of all."""
        query = _joined().order_by(deliveries.c.create_time.desc(), deliveries.c.delivery_id).limit(limit)
        if hook_id:
            query = query.where(deliveries.c.hook_id == hook_id)
        if states:
            query = query.where(deliveries.c.state.in_(states))
        return await self._database.read(lambda connection: [_delivery(row) for row in connection.execute(query)])

    async def claim(self, *, hook_limit: int = 32, each: int = 4, busy: Collection[str] = ()) -> list[Claimed]:
        """Take what is due, of at most hook_limit hooks that are not busy, of each so many; nobody else gets it for LEASE_S."""
        if not await self._database.read(lambda connection: connection.execute(_due(self._now(), busy).limit(1)).first()):
            return []  # asked every second: what waits for nothing takes no turn of those who write
        return await self._database.write_rows(lambda connection: _claim(connection, self._now(), hook_limit, each, busy))

    async def delivered(self, sent: Delivery, status: str) -> None:
        """It arrived. Nothing is written where another has taken it up since, here and in `failed`."""
        await self._settle(sent, state=DeliveryState.DELIVERED, last_status=status[:STATUS_CHARS])

    async def failed(self, sent: Delivery, status: str, *, retry_s: float) -> bool:
        """It did not arrive: try again in retry_s, unless that is too late; whether it is given up."""
        next_time = self._now() + timedelta(seconds=retry_s)
        given_up = next_time > sent.give_up_time
        state = DeliveryState.GIVEN_UP if given_up else DeliveryState.WAITING
        await self._settle(sent, state=state, next_time=next_time, last_status=status[:STATUS_CHARS])
        return given_up

    async def retry(self, *, delivery_id: str = "", hook_id: str = "") -> int:
        """Send again, for another day: one delivery whatever became of it, or all that were given up of a hook; how many."""
        return await self._database.write(lambda connection: _retry(connection, self._now(), delivery_id, hook_id))

    async def waiting_count(self) -> int:
        """How many are to be sent, now or later."""
        query = sa.select(sa.func.count()).select_from(deliveries).where(deliveries.c.state == DeliveryState.WAITING)
        return int(await self._database.read(lambda connection: connection.execute(query).scalar_one()))

    async def remove_ended(self, before: datetime, *, limit: int = _CHUNK) -> int:
        """Forget some that were delivered or given up before then; how many. One that is retried in this moment stays."""
        # When a delivery was last claimed or put off: an hour at most lies between that and its end, and there is an index of it.
        due = sa.and_(deliveries.c.state.in_(_ENDED), deliveries.c.next_time < before)
        found = sa.select(deliveries.c.delivery_id).where(due).limit(limit)
        remove = sa.delete(deliveries).where(deliveries.c.delivery_id.in_(found), due)
        return await self._database.write_rows(lambda connection: connection.execute(remove).rowcount)

    async def _settle(self, sent: Delivery, **values: Any) -> None:
        fence = sa.and_(
            deliveries.c.delivery_id == sent.delivery_id,
            deliveries.c.attempt == sent.attempt,
            deliveries.c.state == DeliveryState.WAITING,
        )
        await self._database.write_rows(lambda connection: connection.execute(sa.update(deliveries).where(fence).values(**values)))


def _joined() -> sa.Select[Any]:
    return sa.select(deliveries, submissions.c.submission_id).join(submissions, submissions.c.number == deliveries.c.number)


def _hooks(connection: sa.Connection) -> list[Hook]:
    counted = sa.select(deliveries.c.hook_id, deliveries.c.state, sa.func.count().label("count")).group_by(
        deliveries.c.hook_id, deliveries.c.state
    )
    counts: dict[str, dict[str, int]] = {}
    for row in connection.execute(counted):
        counts.setdefault(row.hook_id, {})[row.state] = row._mapping["count"]
    rows: Iterable[sa.Row[Any]] = connection.execute(sa.select(hooks).order_by(hooks.c.create_time, hooks.c.hook_id))
    return [_hook(row, counts.get(row.hook_id, {})) for row in rows]


def _hook(row: sa.Row[Any], counts: dict[str, int]) -> Hook:
    return Hook(
        hook_id=row.hook_id,
        url=row.url,
        user=row.user_name,
        competition_id=row.competition_id,
        create_time=row.create_time,
        end_time=row.end_time,
        counts=tuple((state, counts.get(state, 0)) for state in DeliveryState),
    )


def _delivery(row: sa.Row[Any]) -> Delivery:
    return Delivery(
        delivery_id=row.delivery_id,
        hook_id=row.hook_id,
        submission_id=row.submission_id,
        event=HookEvent(row.event),
        state=DeliveryState(row.state),
        attempt=row.attempt,
        next_time=row.next_time,
        give_up_time=row.give_up_time,
        create_time=row.create_time,
        last_status=row.last_status,
    )


def _remove(connection: sa.Connection, now: datetime, hook_id: str) -> None:
    ended = sa.update(hooks).where(hooks.c.hook_id == hook_id, hooks.c.end_time.is_(None)).values(end_time=now)
    if connection.execute(ended.returning(hooks.c.hook_id)).one_or_none() is None:
        raise HookNotFound(hook_id)
    waiting = sa.and_(deliveries.c.hook_id == hook_id, deliveries.c.state == DeliveryState.WAITING)
    values = {"state": DeliveryState.GIVEN_UP, "last_status": "the hook was removed"}
    connection.execute(sa.update(deliveries).where(waiting).values(values))


def _due(now: datetime, busy: Collection[str]) -> sa.Select[Any]:
    return sa.select(deliveries.c.hook_id).where(
        deliveries.c.state == DeliveryState.WAITING, deliveries.c.next_time <= now, deliveries.c.hook_id.not_in(busy)
    )


def _claim(connection: sa.Connection, now: datetime, hook_limit: int, each: int, busy: Collection[str]) -> list[Claimed]:
    hooks_due = _due(now, busy).group_by(deliveries.c.hook_id).order_by(sa.func.min(deliveries.c.next_time), deliveries.c.hook_id)
    claimed: list[Claimed] = []
    for hook_id in connection.execute(hooks_due.limit(hook_limit)).scalars().all():
        oldest = (
            sa.select(deliveries.c.delivery_id)
            .where(deliveries.c.state == DeliveryState.WAITING, deliveries.c.next_time <= now, deliveries.c.hook_id == hook_id)
            .order_by(deliveries.c.next_time, deliveries.c.create_time)
            .limit(each)
            .with_for_update(skip_locked=True)
        )
        taken = connection.execute(oldest).scalars().all()
        values = {"attempt": deliveries.c.attempt + 1, "next_time": now + timedelta(seconds=LEASE_S)}
        connection.execute(sa.update(deliveries).where(deliveries.c.delivery_id.in_(taken)).values(values))
        hook = connection.execute(sa.select(hooks.c.url, hooks.c.secret).where(hooks.c.hook_id == hook_id)).one()
        rows = connection.execute(_joined().where(deliveries.c.delivery_id.in_(taken)).order_by(deliveries.c.create_time)).all()
        claimed += [Claimed(delivery=_delivery(row), url=hook.url, secret=hook.secret) for row in rows]
    return claimed


def _retry(connection: sa.Connection, now: datetime, delivery_id: str, hook_id: str) -> int:
    if delivery_id:
        which = deliveries.c.delivery_id == delivery_id
    else:
        which = sa.and_(deliveries.c.hook_id == hook_id, deliveries.c.state == DeliveryState.GIVEN_UP)
        if connection.execute(sa.select(hooks.c.hook_id).where(hooks.c.hook_id == hook_id)).first() is None:
            raise HookNotFound(hook_id)
    live = deliveries.c.hook_id.in_(sa.select(hooks.c.hook_id).where(hooks.c.end_time.is_(None)))
    # One that waits may be under way right now: it is due when that is over at the latest.
    waiting, later = deliveries.c.state == DeliveryState.WAITING, sa.literal(now + timedelta(seconds=LEASE_S), UtcTime)
    next_time = sa.case(
        (sa.and_(waiting, deliveries.c.next_time < later), deliveries.c.next_time), (waiting, later), else_=sa.literal(now, UtcTime)
    )
    values = {"state": DeliveryState.WAITING, "next_time": next_time, "give_up_time": now + KEEP_TRYING}
    again = sa.update(deliveries).where(which, live).values(values).returning(deliveries.c.delivery_id)
    count = len(connection.execute(again).all())
    if delivery_id and not count:
        raise DeliveryNotFound(delivery_id)
    return count
