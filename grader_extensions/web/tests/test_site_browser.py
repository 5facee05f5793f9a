"""The site in a real browser: by keyboard, and live while a submission is graded."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from grader.model import SourceFile
from grader_extensions.web.tests.browser import EVIL, NARROW, reader
from grader_extensions.web.tests.site import site
from sandbox.protocol import wire
from tests import fakes

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def test_a_board_aligns_digits_and_shows_where_the_keyboard_is(browser, tmp_path):
    """Figures of a column have one width; the scroller is reached by Tab, and has an outline then."""
    async with site(tmp_path, open_server=True) as here:
        for user, score in (("ann", 2.0), ("bob", 1.99), ("cyd", 1.5)):
            await here.enter(user, score)
        async with reader(browser) as page:
            await page.goto(here.url("/competitions/spring?problem=sum"))
            scores = page.locator("table.board tbody td:nth-child(3)")
            assert await scores.all_inner_texts() == ["2.00x", "1.99x", "1.50x"]
            assert await scores.first.evaluate("(one) => getComputedStyle(one).fontVariantNumeric") == "tabular-nums"
            for _ in range(30):
                await page.keyboard.press("Tab")
                if await page.evaluate("document.activeElement.classList.contains('wide')"):
                    break
            style = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle + document.activeElement.className")
            assert style == "solidwide"


async def test_a_line_of_a_source_has_an_address(browser, tmp_path):
    """#L150 is on the screen, and marked."""
    async with site(tmp_path, open_server=True) as here:
        source = "".join(f"int line{number};\n" for number in range(1, 201))
        made = await here.enter("ann", 2.0, sources=(SourceFile(path="kernel.cu", content=source),))
        async with reader(browser) as page:
            await page.goto(here.url(f"/submissions/{made}/sources#L150"))
            line = page.locator("tr:target")
            assert await line.get_attribute("id") == "L150" and "line150" in await line.inner_text()
            box = await line.bounding_box()
            assert 0 <= box["y"] < NARROW["height"]


async def test_the_page_of_a_submission_is_live(browser, tmp_path):
    """What happens is filled in as text, whatever it is; at the end the report is there. A strict policy, and no complaint."""
    async with site(tmp_path, open_server=True) as here:
        made = await here.ledger.submit(fakes.new_submission(), fakes.problem())
        async with reader(browser) as page:
            await page.goto(here.url(f"/submissions/{made.submission_id}"))
            await page.get_by_text("queued").wait_for()
            held = await here.ledger.lease("w", ttl_s=300)
            await page.locator("[data-live=state]").get_by_text("running").wait_for()
            await here.ledger.append(held, [replace(fakes.ENVIRONMENT, device=EVIL[:100]), wire.Progress(stage=wire.Stage.BUILDING)])
            await page.locator("[data-live=stage]").get_by_text("building").wait_for()
            assert "<script>document.title" in await page.locator("[data-live=log]").text_content() and await page.title() != "ran"
            await here.ledger.settle(held, fakes.report())
            await page.get_by_text("ACCEPTED").first.wait_for()
            assert await page.locator("#live, script").count() == 0 and page.complaints == []


async def test_the_page_of_a_submission_works_without_a_script(browser, tmp_path):
    """It loads itself again until there is a report."""
    async with site(tmp_path, open_server=True) as here:
        made = await here.ledger.submit(fakes.new_submission(), fakes.problem())
        async with reader(browser, java_script_enabled=False) as page:
            await page.goto(here.url(f"/submissions/{made.submission_id}"))
            await page.locator("#live noscript a").wait_for()
            await here.ledger.settle(await here.ledger.lease("w", ttl_s=300), fakes.report())
            await page.get_by_text("ACCEPTED").first.wait_for()


async def test_a_hidden_page_holds_no_stream(browser, tmp_path):
    """It is closed when the tab is hidden, and opened behind what was seen when it is shown again."""
    async with site(tmp_path, open_server=True) as here:
        made = await here.ledger.submit(fakes.new_submission(), fakes.problem())
        held = await here.ledger.lease("w", ttl_s=300)
        hide = "(hidden) => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});" \
            " document.dispatchEvent(new Event('visibilitychange')); }"  # fmt: skip
        async with reader(browser) as page:
            asked = []
            page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]) if "/events" in request.url else None)
            await page.goto(here.url(f"/submissions/{made.submission_id}"))
            await page.evaluate(hide, True)
            await here.ledger.append(held, [wire.Progress(stage=wire.Stage.BUILDING)])
            await asyncio.to_thread(lambda: None)
            assert await page.locator("[data-live=log] li").count() == 0
            await page.evaluate(hide, False)
            await page.locator("[data-live=stage]").get_by_text("building").wait_for()
            assert asked == ["events?after=2", "events?after=2"]


async def test_a_countdown_goes_on_where_there_is_a_script(browser, tmp_path):
    """By the reader's clock; the date stays."""
    async with site(tmp_path) as here, reader(browser) as page:
        await page.clock.install(time=datetime(2026, 5, 1, 0, 30, tzinfo=UTC))
        await page.goto(here.url("/"))
        shown = page.locator("[data-until]")
        assert await shown.inner_text() == "in 1 d 23 h"
        await page.clock.run_for(2 * 3600 * 1000)
        assert await shown.inner_text() == "in 1 d 21 h" and "2026-05-03 00:00 UTC" in await page.inner_text("main")
