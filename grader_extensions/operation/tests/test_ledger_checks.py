"""A ledger that its own code left is whole, on both databases; `test_backup_check.py` has what is not."""

from dataclasses import replace

from grader_extensions.operation.check import contents, schema
from tests import fakes
from tests.contract.test_ledger_upgrade import empty, opened, upgraded  # noqa: F401  # fixtures
from tests.contract.test_reuse import graded, submit


async def test_an_upgraded_ledger_is_whole(upgraded, opened):  # noqa: F811  # fixtures
    """By the checks that `grader-server check` makes."""
    with opened.begin() as connection:
        checks = [schema(connection), *contents(connection)]
    assert [check for check in checks if not check.ok] == [] and len(checks) > 8


async def test_a_ledger_with_findings_is_whole(ledger):
    """They are added to a report that is already there."""
    await ledger.submit(fakes.new_submission(), fakes.problem())
    lease = await ledger.lease("w", ttl_s=30)
    await ledger.settle(lease, fakes.report())
    await ledger.amend(lease, replace(fakes.report(), summary="more", profile=fakes.PROFILE), [fakes.PROFILE])
    assert [check for check in await ledger.database.read(contents) if not check.ok] == []


async def test_a_ledger_with_a_reused_result_is_whole(ledger):
    """Its judgement is drawn from no attempt of its own."""
    first, again = await graded(ledger), await submit(ledger)
    assert again.report.cached_from == first.submission_id
    assert [check for check in await ledger.database.read(contents) if not check.ok] == []
