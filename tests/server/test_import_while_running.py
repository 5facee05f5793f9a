"""A running server takes up what `problems import` puts into its state directory, without a restart."""

import asyncio
import json
import os
import sys

import pytest

from grader import errors
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
    """Import a native problem of that name, with another title each time."""
    count = iter(range(100))

    async def run(name, *options):
        directory = fakes.write_problem(place / "from", name)
        toml = directory / "problem.toml"
        toml.write_text(toml.read_text().replace("name =", f'statement = "number {next(count)}"\nname =', 1))
        code, out, error = await command("problems", "import", directory, "--no-check", "--state-dir", settings.state_dir, *options)
        assert code == 0, out + error

    return run


def listed(client_answer):
    return [one.name.removeprefix("problems/") for one in client_answer.problems]


async def test_an_import_is_listed_and_can_be_submitted_to(start, imports, kernel, finished, settings):
    """By API and command line; the one that is replaced is new for the next submission, and a submission made before keeps its own."""
    async with start() as (_, client):
        assert listed(await client.list_problems()) == ["other", "sum"]
        with pytest.raises(errors.ProblemNotFound):
            await client.get_problem("problems/fresh")
        await imports("fresh")
        assert listed(await client.list_problems()) == ["fresh", "other", "sum"]
        code, out, _ = await command("problems", "list", "--json", "--server", settings.listen)
        assert code == 0 and "problems/fresh" in [one["name"] for one in json.loads(out)["problems"]]
        message = kernel("accept")
        message.problem = "problems/fresh"
        done = await finished(client, await client.submit(message))
        assert (done.state, done.report.verdict) == (submission_pb2.SUBMISSION_STATE_SUCCEEDED, report_pb2.VERDICT_ACCEPTED)
        before = (await client.get_problem("problems/fresh")).statement
        await imports("fresh")
        assert (await client.get_problem("problems/fresh")).statement != before
        assert (await client.get_submission(done.name)).report.verdict == report_pb2.VERDICT_ACCEPTED
        await imports("fresh", "--prefix", "v2")
        assert "v2_fresh" in listed(await client.list_problems())
