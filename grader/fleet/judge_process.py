"""The server's handle on one judge: starts it, sends it jobs, reads its facts, and starts it anew when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import structlog

from grader.errors import JudgeBroken
from sandbox import wire

START_S = 120.0
SILENCE_S = 120.0  # beside a trial's own limit: the reference, the comparison, the null runs
PACKAGE_DIR = Path(__file__).parents[2]

log = structlog.get_logger()


class JudgeProcess:
    """One judge, for one lane. Use `judge` for one job at a time."""

    def __init__(self, device_kind: str) -> None:
        self._kind = device_kind
        self._process: asyncio.subprocess.Process | None = None
        self._environment: wire.Environment | None = None
        self._starting = asyncio.Lock()

    async def environment(self) -> wire.Environment:
        """What the judge says of its device; starts it if it is not running."""
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                await self._start()
            assert self._environment is not None
            return self._environment

    async def judge(self, job: wire.Job) -> AsyncIterator[wire.Fact]:
        """The facts of one job; JudgeBroken where the judge dies or falls silent, and then it is started anew for the next."""
        await self.environment()
        process = self._process
        assert process is not None and process.stdin is not None
        finished = False
        try:
            process.stdin.write(wire.encode(job))
            await process.stdin.drain()
            silence_s = SILENCE_S + job.load_s + 3 * job.problem.trial_s
            while not finished:
                fact = await self._read(process, silence_s)
                finished = isinstance(fact, (wire.Finished, wire.Broken))
                yield fact
        except (BrokenPipeError, ConnectionResetError) as error:
            raise JudgeBroken(f"the judge went away: {error}") from None
        finally:
            if not finished:  # cancelled or broken in the middle of a job: what it would still say belongs to nobody
                await self.close()

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()

    async def _start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(PACKAGE_DIR), "PYTHONUNBUFFERED": "1"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "sandbox.judge",
            self._kind,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=wire.LINE_LIMIT_BYTES,
            env=environment,
            start_new_session=True,
        )
        self._process = process
        fact = await self._read(process, START_S)
        if not isinstance(fact, wire.Environment):
            raise JudgeBroken(f"the judge began with {type(fact).__name__}")
        self._environment = fact
        log.info("judge_started", device_kind=self._kind, pid=process.pid, device=fact.device)

    async def _read(self, process: asyncio.subprocess.Process, limit_s: float) -> wire.Fact:
        assert process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                line = await process.stdout.readline()
        except TimeoutError:
            raise JudgeBroken(f"the judge said nothing for {limit_s:.0f} s") from None
        if not line:
            raise JudgeBroken(f"the judge ended with {await process.wait()}")
        try:
            fact: wire.Fact = wire.decode(line)
        except wire.WireError as error:
            raise JudgeBroken(f"the judge said what is no fact: {error}") from None
        return fact
