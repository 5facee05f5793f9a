"""Hears what other servers write: one connection, opened again whenever it is lost.  Nothing depends on it but how soon: all poll too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import psycopg
import structlog

from grader.ledger.news import CHANNEL, News, NewsKind, heard

log = structlog.get_logger()

RETRY_S = 1.0
MEASURE_S = 60.0  # how often the clocks are compared, which also finds a connection that died quietly
ANSWER_S = 10.0


class Listener:
    """Calls hear with the news of others, and measured with how much the database's clock is ahead of ours."""

    def __init__(self, conninfo: str, origin: str, hear: Callable[[News], None], measured: Callable[[timedelta], None]) -> None:
        self._conninfo, self._origin = conninfo, origin
        self._hear, self._measured = hear, measured
        self.listening = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled."""
        while True:
            try:
                await self._listen()
            except (psycopg.Error, TimeoutError) as error:
                log.warning("listening_failed", detail=first_line(error))
            self.listening.clear()
            await asyncio.sleep(RETRY_S)

    async def _listen(self) -> None:
        async with await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True) as connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            self.listening.set()
            self._hear(News(kind=NewsKind.MISSED))  # from now on nothing is missed; before, nobody knows
            while True:
                await self._measure(connection)
                async for sentence in connection.notifies(timeout=MEASURE_S):
                    if (news := heard(sentence.payload, self._origin)) is not None:
                        self._hear(news)

    async def _measure(self, connection: psycopg.AsyncConnection[tuple[datetime]]) -> None:
        before = datetime.now(UTC)
        async with asyncio.timeout(ANSWER_S):
            row = await (await connection.execute("SELECT clock_timestamp()")).fetchone()
        after = datetime.now(UTC)
        if row is not None:
            self._measured(row[0] - (before + (after - before) / 2))


def first_line(error: BaseException) -> str:
    """What a driver says, without its hints."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
