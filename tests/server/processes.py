"""Servers as processes, which are killed in the end."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path

from grader import errors
from grader.api.client import GraderClient

ROOT = Path(__file__).parents[2]
START_S = 300


@asynccontextmanager
async def fake_server(settings, state_dir, counted, log_path, *options, listen, environment=None, stdin=None):
    """The process and a client of it, once it answers."""
    command = [sys.executable, "-m", "tests.server.fake_server", str(counted), "--listen", listen]
    command += ["--state-dir", str(state_dir), "--problems", str(settings.problems[0]), "--log-format", "json", *options]
    with log_path.open("a") as log:
        everything = os.environ | (environment or {})
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=stdin, stdout=log, stderr=log, env=everything)
    try:
        async with GraderClient(listen) as client:
            await answering(client)
            yield process, client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def answering(client):
    """Wait until its server does."""
    async with asyncio.timeout(START_S):
        while True:
            try:
                return await client.list_problems()
            except errors.ServerUnreachable:
                continue
            except errors.Unauthenticated:
                return None


async def until_built(client, submission):
    """Wait until it runs, and is built."""
    async for event in client.watch(submission.name):
        if event.HasField("build"):
            return
