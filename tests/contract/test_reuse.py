"""A submission that is answered with the result of an identical one, whatever database is under it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from grader.ledger import Ledger, transactions
from grader.ledger.statements import SubmissionFilter
from grader.ledger.transactions import FINDINGS_S, REUSED_FOR
from grader.model import SubmissionState
from grader.rules.quotas import AdmissionPolicy
from sandbox.protocol import wire
from tests import fakes
from tests.board_rows import START, filled, rows
from tests.vm_steps import vm_steps


async def submit(ledger, problem=None, *, allow_cached=True, **fields):
    draft = fakes.new_submission(**{"mode": wire.Mode.TEST, **fields})
    return await ledger.submit(draft, problem or fakes.problem(), allow_cached=allow_cached)


async def graded(ledger, **fields):
    """Grade a submission to its end."""
    submission = await submit(ledger, allow_cached=False, **fields)
    lease = await ledger.lease("w1", ttl_s=30)
    await ledger.append(lease, [fakes.trial()])
    await ledger.settle(lease, fakes.report())
    return submission


async def test_it_ends_at_once_with_that_result_and_says_whose_it_is(ledger, clock):
    """With an event, a judgement and labels of its own; no worker gets it, and nobody waits."""
    first = await graded(ledger)
    clock.now += timedelta(minutes=5)
    submission = await submit(ledger, tags=("a",))
    assert submission.submission_id != first.submission_id and submission.state is SubmissionState.SUCCEEDED
    assert submission.report == replace(fakes.report(), cached_from=first.submission_id, timeline=())
    assert await ledger.get(submission.submission_id) == submission
    assert submission.end_time == submission.create_time == clock.now and submission.attempt_count == 0
    assert [event.state for event in await ledger.events(submission.submission_id)] == [SubmissionState.QUEUED, SubmissionState.SUCCEEDED]
    assert [judgement.verdict for judgement in await ledger.judgements(submission.submission_id)] == [fakes.report().verdict]
    assert await ledger.lease("w1", ttl_s=30) is None and await fakes.queued_count(ledger) == 0
    assert len((await ledger.queue()).recent) == 1, "of how long a grading takes it says nothing"
    assert (await ledger.page(size=9, submission_filter=SubmissionFilter(tag="a")))[0][0].submission_id == submission.submission_id


async def test_without_leave_it_is_graded(ledger):
    """The control; so is one that came while the other was not graded yet."""
    waiting = await submit(ledger)
    assert waiting.state is (await submit(ledger)).state is SubmissionState.QUEUED
    await ledger.cancel(waiting.submission_id)
    await graded(ledger)
    assert (await submit(ledger, allow_cached=False)).state is SubmissionState.QUEUED
    assert (await submit(ledger)).state is SubmissionState.SUCCEEDED


@pytest.mark.parametrize("began", [True, False])
async def test_a_report_that_may_get_findings_is_not_copied(ledger, clock, began):
    """Not between the verdict and them, nor before they can come no more. The control: no tool began after the verdict."""
    first = await submit(ledger)
    lease = await ledger.lease("w1", ttl_s=30)
    report = replace(fakes.report(), profile=None)
    await ledger.append(lease, [wire.Progress(stage=wire.Stage.PROFILING)] if began else [fakes.trial()])
    await ledger.settle(lease, report)
    second = await submit(ledger)
    assert (second.state is SubmissionState.QUEUED) is began
    clock.now += timedelta(seconds=FINDINGS_S + 1)
    assert (await submit(ledger)).report.profile is None
    await ledger.amend(lease, replace(report, profile=fakes.PROFILE), [fakes.PROFILE])
    clock.now -= timedelta(seconds=FINDINGS_S)
    if began:
        assert (await submit(ledger)).report == replace(report, profile=fakes.PROFILE, cached_from=first.submission_id, timeline=())


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "bob"},
        {"order": "wrong"},
        {"entry": "other"},
        {"device_kind": "cuda"},
        {"mode": wire.Mode.BENCHMARK},
        {"precision": 0.02},
        {"measure_s": 3.0},
        {"problem": fakes.problem(digest="f" * 64)},  # another version, of the same name
    ],
    ids="-".join,
)
async def test_what_differs_is_graded(ledger, fields):
    """In anything that a result depends on; another user's result would say what that user has submitted."""
    await graded(ledger, user="ann")
    assert (await submit(ledger, **{"user": "ann", **fields})).state is SubmissionState.QUEUED
    assert (await submit(ledger, user="ann", tags=("x",), annotations={"n": "1"})).state is SubmissionState.SUCCEEDED


async def test_a_result_is_reused_for_a_day(ledger, clock):
    """From when it was graded: that it was reused meanwhile makes it no younger."""
    first = await graded(ledger)
    clock.now += REUSED_FOR - timedelta(minutes=1)
    again = await submit(ledger)
    assert again.report is not None and again.report.cached_from == first.submission_id
    clock.now += timedelta(minutes=2)
    assert (await submit(ledger)).state is SubmissionState.QUEUED


async def test_to_look_for_a_result_takes_no_more_steps_in_a_large_ledger(tmp_path):
    """Where there is none: what was graded otherwise is not looked through."""
    steps, draft = [], fakes.new_submission(mode=wire.Mode.TEST)
    for count in (100, 2000):
        async with Ledger.open(tmp_path / f"{count}") as ledger:
            await filled(ledger, rows(count))
            arguments = (START, "new", draft, fakes.problem(), "", 9, AdmissionPolicy(), True)
            steps.append(await vm_steps(ledger, lambda connection, arguments=arguments: transactions.submit(connection, *arguments)))
    assert steps[1] <= 2 * steps[0]
