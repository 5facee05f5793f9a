"""`grader-server admin queue`, next to a running server."""

import asyncio
import json

import pytest

from grader.ledger import Ledger
from grader.model import SubmissionState
from grader.server import operation
from grader.server.admin import main
from grader.server.running import serving
from grader_extensions.operation.admin_queue import QUEUE_HEADINGS
from tests import fakes
from tests.waiting import until


@pytest.fixture
def command(settings, capsys):
    """Run the command on the state directory; its code, and what it says."""

    def run(action, *words):
        code = main(["queue", action, "--state-dir", str(settings.state_dir), *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return run


async def ended(ledger, submission_id):
    return (await ledger.get(submission_id)).state.final


async def test_a_paused_queue_takes_submissions_and_begins_none(settings, command, monkeypatch):
    """Also where it was paused before the server started. The control: it goes on when it is told to, and grades what waits."""
    monkeypatch.setattr(operation, "LOOK_S", 0.02)
    assert await asyncio.to_thread(command, "pause") == (
        0,
        "paused: what runs ends, and what comes waits. Go on with: grader-server admin queue resume\n",
    )
    async with serving(settings, fakes.wiring()), Ledger.open(settings.ledger) as ledger:
        submission = await ledger.submit(fakes.new_submission(user="ann"), fakes.problem())
        await asyncio.sleep(1.5)  # longer than the dispatcher waits for news
        assert (await ledger.get(submission.submission_id)).state is SubmissionState.QUEUED
        code, output = await asyncio.to_thread(command, "list", "--json")
        shown = json.loads(output)
        assert code == 0 and shown["paused"] and [entry["user"] for entry in shown["submissions"]] == ["ann"]
        assert (await asyncio.to_thread(command, "list"))[1].startswith("paused: `grader-server admin queue resume` lets it go on\nnext")
        assert await asyncio.to_thread(command, "resume") == (0, "the queue goes on\n")
        await until(lambda: ended(ledger, submission.submission_id))


async def test_the_queue_is_listed_in_its_order(settings, command):
    """The running submission is first, with its worker; then what waits. `first` changes that."""
    async with Ledger.open(settings.ledger) as ledger:
        submissions = [await ledger.submit(fakes.new_submission(user=user), fakes.problem()) for user in ("ann", "bob", "carl")]
        await ledger.lease("w1", ttl_s=60)
        code, output = await asyncio.to_thread(command, "first", f"submissions/{submissions[2].submission_id}")
        assert code == 0 and "is taken up next" in output
        lines = (await asyncio.to_thread(command, "list"))[1].splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["runs", submissions[0].submission_id, "ann"],
        ["1", submissions[2].submission_id, "carl"],
        ["2", submissions[1].submission_id, "bob"],
    ]
    assert lines[0].split() == list(QUEUE_HEADINGS) and lines[1].endswith("w1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("resume",), "the queue of this server is not paused"),
        (("first", "none"), "there is no submission 'none'"),
        (("first", "DONE"), "is CANCELLED; only one that waits can be taken up next"),
    ],
)
async def test_what_can_not_be_done_is_said(settings, command, words, message):
    """With exit code 2; an empty queue is none of it."""
    async with Ledger.open(settings.ledger) as ledger:
        assert await asyncio.to_thread(command, "list") == (0, "nothing waits, and nothing runs\n")
        submission = await ledger.submit(fakes.new_submission(), fakes.problem())
        await ledger.cancel(submission.submission_id)
        arguments = [word.replace("DONE", submission.submission_id) for word in words]
        code, answer = await asyncio.to_thread(command, *arguments)
    assert code == 2 and message in answer
