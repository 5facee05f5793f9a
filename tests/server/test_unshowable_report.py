"""A report that can't be shown breaks its own submission only: lists and streams show the others, and say which it is."""

import contextlib
import dataclasses
import sqlite3

import pytest

from grader.api.messages import report_to_proto
from grader.config import LEDGER_NAME
from grader.ledger.records import UNREADABLE
from grader.rules.disclosure import Redactor
from grader.v1 import report_pb2
from sandbox.protocol import wire
from tests import fakes


class OutOfRange(fakes.FakeGrade):
    """Says of a submission that is to be wrong that it has more elements than the API can say."""

    async def _facts(self, lease):
        async for fact in super()._facts(lease):
            outcome = getattr(fact, "outcome", None)
            yield dataclasses.replace(fact, element_count=2**70) if outcome is wire.TrialOutcome.MISMATCHED else fact


@pytest.fixture
def grade():
    return OutOfRange()


async def test_lists_and_streams_go_on(client, kernel):
    """Over the wire; the control: what it holds can't be converted."""
    trial = dataclasses.replace(fakes.trial(), element_count=2**70)
    with pytest.raises(ValueError, match="out of range"):
        report_to_proto(dataclasses.replace(fakes.report(), trials=(trial,)), Redactor({}))
    broken, right = await client.batch_submit([kernel("wrong", tags=["run"]), kernel("accept", tags=["run"])])
    followed = {update.submission.name: update.submission async for update in client.watch_many(tag="run")}
    listed = {submission.name for submission in (await client.list_submissions()).submissions}
    for name in (broken.name, right.name):
        streamed = [event async for event in client.watch(name)][-1].submission
        for shown in (followed[name], await client.get_submission(name), streamed):
            assert shown.report.verdict == (report_pb2.VERDICT_ACCEPTED if name == right.name else report_pb2.VERDICT_WRONG_ANSWER)
            assert ("cannot be shown" in shown.report.summary) is (name == broken.name)
    assert listed == {broken.name, right.name}


async def test_a_stored_report_that_cannot_be_read_is_shown_by_its_head(client, kernel, settings):
    """Such as one of another version."""
    broken, right = await client.batch_submit([kernel("wrong", tags=["run"]), kernel("accept", tags=["run"])])
    assert len([update async for update in client.watch_many(tag="run")]) >= 2
    with contextlib.closing(sqlite3.connect(settings.state_dir / LEDGER_NAME)) as ledger, ledger:
        ledger.execute("UPDATE judgements SET report = '{}' WHERE verdict = 'WRONG_ANSWER'")
    summaries = {submission.name: submission.report.summary for submission in (await client.list_submissions()).submissions}
    assert summaries[right.name] and set(summaries) == {broken.name, right.name}
    shown = (await client.get_submission(broken.name)).report
    assert shown.verdict == report_pb2.VERDICT_WRONG_ANSWER and UNREADABLE in shown.summary
