"""Rows for boards, written straight into a ledger: their ids and times are the same in every database."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from grader.ledger import Ledger, records
from grader.ledger.tables import problems, submissions
from sandbox.protocol import wire
from tests import fakes

START = datetime(2026, 3, 1, tzinfo=UTC)
SLOW_GPU, FAST_GPU = "GPU-542f491b-0000-4000-8000-00001a2b3c4d", "GPU-1a6a01c9-0000-4000-8000-000099ff00aa"


def rows(count: int, *, report: str = "{}", start: datetime = START) -> list[dict[str, Any]]:
    """Submissions of 200 users, many of whom cannot be told apart; some at the same time."""
    rng = random.Random(11)
    made = []
    for number in range(count):
        value = rng.choice((1.0, 1.5, 2.0)) + rng.uniform(0, 0.02)
        made.append(
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
    return made


def rows_on_gpus(slowdowns: Mapping[str, float], *, count: int = 8, start: datetime = START, **fields: Any) -> list[dict[str, Any]]:
    """Submissions to one problem, so many on each GPU, with times of eager that differ by some 0.3 %.

    slowdowns: by UUID, such as 1.1 for 10 % slower. Workloads: a public one of 200 us, a secret one of 400 us, and one of 11 us, which is
    twice as long on the first GPU.
    """
    rng = random.Random(5)
    made = rows(count * len(slowdowns), start=start)
    for number, row in enumerate(made):
        device_uuid, slowdown = list(slowdowns.items())[number % len(slowdowns)]
        level = slowdown * math.exp(rng.gauss(0, 0.003))
        launch = 11_000 * (2 if number % len(slowdowns) == 0 else 1)
        times = {"n64": 200_000 * level, "secret97": 400_000 * level, "short": launch}
        environment = replace(fakes.ENVIRONMENT, device="NVIDIA H100", clock=wire.Clock.DEVICE_EVENTS, device_uuid=device_uuid)
        report = replace(fakes.report(), environment=environment, measurements=tuple(_timed(*one) for one in times.items()))
        row |= {"problem_id": "sum", "device": "NVIDIA H100", "report": records.to_text(report)} | fields
    return made


def _timed(workload_id: str, eager_ns: float) -> wire.Measurement:
    samples = wire.Samples(durations_ns=(int(eager_ns), int(eager_ns), int(20 * eager_ns)))
    return replace(fakes.measurement(workload_id, hidden=workload_id.startswith("secret")), baselines={"eager": samples})


async def filled(ledger: Ledger, made: list[dict[str, Any]]) -> None:
    """Write rows as they are: their ids are the same in every database."""

    def fill(connection: sa.Connection) -> None:
        document = records.to_text(fakes.problem("sum"))
        connection.execute(sa.insert(problems).values(digest="d", problem_id="sum", document=document, create_time=START))
        connection.execute(sa.insert(submissions), made)

    await ledger._database.write(fill)
