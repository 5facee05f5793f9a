"""A running server takes up the problems that are put into its state directory, without a restart."""

import asyncio
import json
import os
import sys
from dataclasses import replace

import pytest

from grader import errors
from grader.formats import native
from grader.problems.store import keep
from grader.v1 import report_pb2, submission_pb2
from tests import fakes
from tests.server.processes import ROOT, fake_server

pytestmark = pytest.mark.slow  # each starts a server and commands


async def command(*words):
    """A command of its own, as a user types it; its exit code and what it printed."""
    words = [sys.executable, "-m", "grader.cli.main", *map(str, words)]
    process = await asyncio.create_subprocess_exec(
        *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ
    )
    out, error = await process.communicate()
    return process.returncode, out.decode(), error.decode()


@pytest.fixture
def start(settings, place):
    return lambda: fake_server(settings, settings.state_dir, place / "counted", place / "log", listen=settings.listen)


@pytest.fixture
def imports(settings, place):
    """Keep a native problem of that name, with another statement each time."""
    count = iter(range(100))

    def run(name):
        problem = native.load(fakes.write_problem(place / "from", name))
        keep(replace(problem, statement=f"number {next(count)}"), settings.imported_path)

    return run


def listed(client_answer):
    return [one.name.removeprefix("problems/") for one in client_answer.problems]


async def test_an_import_is_listed_and_can_be_submitted_to(start, imports, kernel, finished, settings):
    """By API and command line; the one that is replaced is new for the next submission, and a submission made before keeps its own."""
    async with start() as (_, client):
        assert listed(await client.list_problems()) == ["other", "sum"]
        with pytest.raises(errors.ProblemNotFound):
            await client.get_problem("problems/fresh")
        imports("fresh")
        assert listed(await client.list_problems()) == ["fresh", "other", "sum"]
        code, out, _ = await command("problems", "list", "--json", "--server", settings.listen)
        assert code == 0 and "problems/fresh" in [one["name"] for one in json.loads(out)["problems"]]
        message = kernel("accept")
        message.problem = "problems/fresh"
        done = await finished(client, await client.submit(message))
        assert (done.state, done.report.verdict) == (submission_pb2.SUBMISSION_STATE_SUCCEEDED, report_pb2.VERDICT_ACCEPTED)
        before = (await client.get_problem("problems/fresh")).statement
        imports("fresh")
        assert (await client.get_problem("problems/fresh")).statement != before
        assert (await client.get_submission(done.name)).report.verdict == report_pb2.VERDICT_ACCEPTED
        imports("v2_fresh")
        assert "v2_fresh" in listed(await client.list_problems())
