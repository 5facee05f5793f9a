"""A running server takes up the problems that are put into its state directory, without a restart."""

from dataclasses import replace

import pytest

from grader import errors
from grader.formats import native
from grader.problems.store import keep
from grader.v1 import report_pb2, submission_pb2
from tests import fakes
from tests.server.processes import fake_server

pytestmark = pytest.mark.slow  # each starts a server


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
    return [problem.name.removeprefix("problems/") for problem in client_answer.problems]


async def test_an_import_is_listed_and_can_be_submitted_to(start, imports, kernel, finished, settings):
    """The one that is replaced is new for the next submission, and a submission made before keeps its own."""
    async with start() as (_, client):
        assert listed(await client.list_problems()) == ["other", "sum"]
        with pytest.raises(errors.ProblemNotFound):
            await client.get_problem("problems/fresh")
        imports("fresh")
        assert listed(await client.list_problems()) == ["fresh", "other", "sum"]
        message = kernel("accept")
        message.problem = "problems/fresh"
        submission = await finished(client, await client.submit(message))
        assert (submission.state, submission.report.verdict) == (submission_pb2.SUBMISSION_STATE_SUCCEEDED, report_pb2.VERDICT_ACCEPTED)
        before = (await client.get_problem("problems/fresh")).statement
        imports("fresh")
        assert (await client.get_problem("problems/fresh")).statement != before
        assert (await client.get_submission(submission.name)).report.verdict == report_pb2.VERDICT_ACCEPTED
        imports("v2_fresh")
        assert "v2_fresh" in listed(await client.list_problems())
