"""The report as a file in a real browser: that it can be read anywhere, asks for nothing, and that nothing of a stranger runs in it."""

import pytest

from grader_extensions.web.report.report_file import report_file
from grader_extensions.web.tests.browser import DESKTOP, EVIL, reader
from grader_extensions.web.tests.test_html_report import graded

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.parametrize("protected", [True, False])
async def test_nothing_that_strangers_write_runs_in_a_report(browser, tmp_path, protected):
    """Without the policy, so that escaping has to do it alone: the title stays. The control: without escaping it changes."""
    path = tmp_path / "report.html"
    path.write_text(report_file(graded(EVIL), autoescape=protected))
    async with reader(browser, DESKTOP, bypass_csp=True) as page:
        await page.goto(path.as_uri())
        await page.evaluate("for (const one of document.querySelectorAll('*')) one.dispatchEvent(new Event('mouseover'))")
        assert (await page.title() == "ran") is not protected
        if protected:
            assert not await page.evaluate("document.querySelectorAll('script, img, iframe, [onmouseover], [onload]').length")


async def test_the_policy_of_the_file_stops_what_escaping_let_through(browser, tmp_path):
    """The second line of defence, alone: the title is what the markup made of it, and no script has changed it."""
    path = tmp_path / "report.html"
    path.write_text(report_file(graded(EVIL), autoescape=False))
    async with reader(browser, DESKTOP) as page:
        await page.goto(path.as_uri())
        assert await page.title() != "ran" and page.complaints
