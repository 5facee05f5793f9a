"""Rows for boards, written straight into a ledger: their ids and times are the same in every database."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from grader.ledger import Ledger, records
from grader.ledger.tables import FOUND, judgements, problems, submissions
from sandbox.protocol import wire
from tests import fakes

START = datetime(2026, 3, 1, tzinfo=UTC)


def rows(count: int, *, report: str = "{}", start: datetime = START) -> list[dict[str, Any]]:
    """Submissions of 200 users, many of whom cannot be told apart; some at the same time."""
    rng = random.Random(11)
    entries = []
    for number in range(count):
        value = rng.choice((1.0, 1.5, 2.0)) + rng.uniform(0, 0.02)
        entries.append(
            {
                "submission_id": f"{rng.getrandbits(64):016x}",
                "body_digest": "",
                "problem_id": rng.choice(("sum", "other")),
                "problem_digest": "d",
                "language": "cuda",
                "entry": "",
                "device_kind": "cuda",
                "mode": wire.Mode.RANKED,
                "sources": "[]",
                "state": "succeeded",
                "create_time": start + timedelta(microseconds=rng.randrange(10**6)),
                "attempt": 1,
                "fault_count": 0,
                "cancel_requested": False,
                "event_count": 1,
                "verdict": "ACCEPTED",
                "reason": "",
                "summary": "",
                "report": report,
                "user_name": f"user-{number % 200}",
                "competition_id": "spring",
                "priority": 2,
                "device": rng.choice(("NVIDIA H200", "NVIDIA H100")),
                "clock": "device_events",
                "score": value,
                "score_low": value * 0.99,
                "score_high": value * 1.01,
                "flags": rng.choice(("", "THROTTLED")),
                "judgement_count": 1,
            }
        )
    return entries


async def filled(ledger: Ledger, entries: list[dict[str, Any]]) -> None:
    """Write rows as they are: their ids are the same in every database."""

    def fill(connection: sa.Connection) -> None:
        document = records.to_text(fakes.problem("sum"))
        connection.execute(sa.insert(problems).values(digest="d", problem_id="sum", document=document, create_time=START))
        connection.execute(sa.insert(submissions), [{name: value for name, value in row.items() if name != "report"} for row in entries])
        own_columns = ("number", "attempt", "problem_digest", "create_time", *FOUND)
        columns = [*(submissions.c[name] for name in own_columns), submissions.c.number, sa.literal(1), sa.literal(entries[0]["report"])]
        query = sa.select(*columns).where(submissions.c.verdict.is_not(None))
        connection.execute(sa.insert(judgements).from_select([*own_columns, "source_number", "sequence", "report"], query))

    await ledger.database.write(fill)
