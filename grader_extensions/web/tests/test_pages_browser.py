"""Pages in a real browser, without a display: that they can be read, and that nothing of a stranger runs in them."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from grader.model import SourceFile
from grader_extensions.web.report.report_file import environment, report_file
from grader_extensions.web.tests.browser import DESKTOP, EVIL, NARROW, reader
from grader_extensions.web.tests.site import END, site
from grader_extensions.web.tests.test_html_report import graded
from sandbox.protocol import wire
from tests import fakes

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
STRANGE = 'script:not([src="/static/site.js"]), img, iframe, [onmouseover], [onload]'
PAGES = {"home": "/", "list": "/competitions", "problems": "/problems", "problem": "/problems/sum"}
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
MISMATCHED = wire.TrialOutcome.MISMATCHED


async def board(here):
    """Three users, of whom two are tied."""
    for user, score in (("ann", 2.0), ("bob", 1.99), ("cyd", 1.5)):
        await here.enter(user, score)


async def hostile(here):
    """A submission of which every text is a stranger's; a user's name is checked when a key is made, and pages must do without that."""
    build = replace(fakes.report().build, log=EVIL)
    return await here.enter(
        EVIL[:64], 3.0, build=build, output=EVIL, summary=EVIL, libraries=(EVIL,), reason=EVIL, flags=(EVIL,), device=EVIL[:100],
        sources=(SourceFile(path="k.cu", content=EVIL),), trials=(replace(fakes.trial(EVIL), message=EVIL, outcome=MISMATCHED),),
    )  # fmt: skip


async def test_links_lead_from_the_list_to_a_board_to_a_report(browser, tmp_path):
    """Its times are drawn; no complaint, and nothing is asked of others. test_axe_browser.py looks at every page in each size."""
    async with site(tmp_path, open_server=True) as here, reader(browser, DESKTOP) as page:
        await board(here)
        await page.goto(here.url("/"))
        await page.get_by_role("link", name="Spring sprint").click()
        await page.get_by_role("navigation", name="Boards").get_by_role("link", name="A sum").first.click()
        rows = [row.split("\t") for row in await page.locator("table.board tbody tr").all_inner_texts()]
        assert [row[:2] for row in rows] == [["1 tie", "ann"], ["1 tie", "bob"], ["3", "cyd"]]
        await page.locator("table.board td a").first.click()
        assert await page.locator("figure.plot > svg path.dots").count() == 3
        box = await page.locator("figure.plot > svg").bounding_box()
        assert box["width"] > 200 and box["height"] > 100
        assert page.complaints == [] and all(url.startswith((here.url(), "data:")) for url in page.urls)


async def test_pages_need_no_javascript_and_follow_the_readers_colours(browser, tmp_path):
    """The same text without it; another background where the reader prefers dark; tables are named regions that a keyboard reaches."""
    async with site(tmp_path) as here:
        await board(here)
        async with reader(browser, DESKTOP, java_script_enabled=False, color_scheme="dark") as page:
            await page.goto(here.url("/competitions/spring?problem=sum"))
            assert await page.get_by_role("rowheader", name="ann").count() == 1
            assert await page.get_by_role("columnheader", name="Rank").count() == 1
            await page.keyboard.press("Tab")
            skip = page.get_by_role("link", name="Skip to the content")
            assert (await skip.bounding_box())["x"] >= 0
            assert not await page.get_by_label("Colours").is_visible()
        colours = []
        for scheme in ("light", "dark"):
            async with reader(browser, DESKTOP, color_scheme=scheme) as page:
                await page.goto(here.url("/"))
                colours.append(await page.evaluate(BACKGROUND))
        assert len(set(colours)) == 2


async def test_a_reader_chooses_the_colours(browser, tmp_path):
    """For every page, until the choice is the system's again; without a cookie, and before the page is drawn."""
    async with site(tmp_path) as here, reader(browser, DESKTOP, color_scheme="light") as page:
        await page.goto(here.url("/"))
        light = await page.evaluate(BACKGROUND)
        await page.get_by_label("Colours").select_option("dark")
        dark = await page.evaluate(BACKGROUND)
        assert dark != light
        await page.goto(here.url("/problems"))
        assert await page.evaluate(BACKGROUND) == dark and await page.get_by_label("Colours").input_value() == "dark"
        await page.get_by_label("Colours").select_option("system")
        assert await page.evaluate(BACKGROUND) == light
        assert await page.context.cookies() == [] and page.complaints == []


async def test_a_board_with_flags_fits_a_desktop(browser, tmp_path):
    """The longest flag is whole, below the name."""
    async with site(tmp_path) as here, reader(browser, {"width": 1280, "height": 900}) as page:
        await here.enter("ann", 2.0, flags=("REPORTED_TIME_NOT_CONFIRMED",))
        await page.goto(here.url("/competitions/spring?problem=sum"))
        assert await page.get_by_role("rowheader", name="ann").get_by_text("REPORTED_TIME_NOT_CONFIRMED").count() == 1
        assert await page.locator(".wide").evaluate("(one) => one.scrollWidth - one.clientWidth") == 0


@pytest.mark.parametrize("protected", [True, False])
async def test_nothing_that_strangers_write_runs(browser, tmp_path, protected):
    """Names, titles, logs, output and sources full of markup: no title changes. The control: without escaping it does."""
    templates = None if protected else environment(autoescape=False)
    title = EVIL[:190]
    async with site(tmp_path, open_server=True, title=json.dumps(title), problem_title=title, templates=templates) as here:
        submission_id = await hostile(here)
        here.clock.now = END
        ran = []
        async with reader(browser, DESKTOP, bypass_csp=True) as page:  # escaping has to do it alone
            for path in (
                *PAGES.values(),
                "/competitions/spring?problem=sum",
                "/competitions/spring",
                f"/submissions/{submission_id}",
                f"/submissions/{submission_id}/sources",
            ):
                await page.goto(here.url(path))
                await page.evaluate("for (const one of document.querySelectorAll('*')) one.dispatchEvent(new Event('mouseover'))")
                ran.append(await page.title() == "ran")
                if protected:
                    assert not await page.evaluate(f"document.querySelectorAll({STRANGE!r}).length"), path
                    assert "\u202e" not in await page.inner_text("body") and "7003003" not in await page.title(), path
        assert ran == [not protected] * 7 + [False]  # the highlighter of sources escapes by itself


async def test_the_policy_stops_what_escaping_let_through(browser, tmp_path):
    """The second line of defence, alone: without escaping, but with the headers, nothing runs either."""
    async with site(tmp_path, open_server=True, templates=environment(autoescape=False)) as here:
        submission_id = await hostile(here)
        async with reader(browser, DESKTOP) as page:
            await page.goto(here.url(f"/submissions/{submission_id}"))
            assert await page.title() != "ran" and page.complaints


async def test_a_source_is_copied_as_it_was_sent(browser, tmp_path):
    """By a button that is there only where a script runs and may write to the clipboard."""
    content = "int a;\n\n  int b;\n"
    async with site(tmp_path, open_server=True) as here:
        name = await here.enter("ann", 2.0, sources=(SourceFile(path="k.cu", content=content),))
        async with reader(browser, DESKTOP, permissions=["clipboard-read", "clipboard-write"]) as page:
            await page.goto(here.url(f"/submissions/{name}/sources"))
            await page.get_by_role("button", name="Copy k.cu").click()
            await page.get_by_text("Copied").wait_for()
            assert await page.evaluate("navigator.clipboard.readText()") == content
            assert page.complaints == []
        async with reader(browser, DESKTOP, java_script_enabled=False) as page:
            await page.goto(here.url(f"/submissions/{name}/sources"))
            assert await page.get_by_role("button", name="Copy k.cu").count() == 0


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


async def test_a_board_aligns_digits_and_shows_where_the_keyboard_is(browser, tmp_path):
    """Figures of a column have one width; the scroller is reached by Tab, and has an outline then."""
    async with site(tmp_path, open_server=True) as here:
        await board(here)
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
        submission_id = await here.enter("ann", 2.0, sources=(SourceFile(path="kernel.cu", content=source),))
        async with reader(browser) as page:
            await page.goto(here.url(f"/submissions/{submission_id}/sources#L150"))
            line = page.locator("tr:target")
            assert await line.get_attribute("id") == "L150" and "line150" in await line.inner_text()
            box = await line.bounding_box()
            assert 0 <= box["y"] < NARROW["height"]


async def test_the_page_of_a_submission_is_live(browser, tmp_path):
    """Events are filled in as text, whatever they are; at the end the report is there. A strict policy, and no complaint."""
    async with site(tmp_path, open_server=True) as here:
        submission = await here.ledger.submit(fakes.new_submission(), fakes.problem())
        async with reader(browser) as page:
            await page.goto(here.url(f"/submissions/{submission.submission_id}"))
            await page.get_by_text("queued").wait_for()
            lease = await here.ledger.lease("w", ttl_s=300)
            await page.locator("[data-live=state]").get_by_text("running").wait_for()
            await here.ledger.append(lease, [replace(fakes.ENVIRONMENT, device=EVIL[:100]), wire.Progress(stage=wire.Stage.BUILDING)])
            await page.locator("[data-live=stage]").get_by_text("building").wait_for()
            assert "<script>document.title" in await page.locator("[data-live=log]").text_content() and await page.title() != "ran"
            await here.ledger.settle(lease, fakes.report())
            await page.get_by_text("ACCEPTED").first.wait_for()
            assert await page.locator("#live").count() == 0 and page.complaints == []


async def test_the_page_of_a_submission_works_without_a_script(browser, tmp_path):
    """The page loads itself again until there is a report."""
    async with site(tmp_path, open_server=True) as here:
        submission = await here.ledger.submit(fakes.new_submission(), fakes.problem())
        async with reader(browser, java_script_enabled=False) as page:
            await page.goto(here.url(f"/submissions/{submission.submission_id}"))
            await page.locator("#live noscript a").wait_for()
            await here.ledger.settle(await here.ledger.lease("w", ttl_s=300), fakes.report())
            await page.get_by_text("ACCEPTED").first.wait_for()


async def test_a_hidden_page_holds_no_stream(browser, tmp_path):
    """The stream is closed when the tab is hidden, and opened behind what was seen when it is shown again."""
    async with site(tmp_path, open_server=True) as here:
        submission = await here.ledger.submit(fakes.new_submission(), fakes.problem())
        lease = await here.ledger.lease("w", ttl_s=300)
        hide = "(hidden) => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});" \
            " document.dispatchEvent(new Event('visibilitychange')); }"  # fmt: skip
        async with reader(browser) as page:
            streams = []
            page.on("request", lambda request: streams.append(request.url.rpartition("/")[2]) if "/events" in request.url else None)
            await page.goto(here.url(f"/submissions/{submission.submission_id}"))
            await page.evaluate(hide, True)
            await here.ledger.append(lease, [wire.Progress(stage=wire.Stage.BUILDING)])
            await asyncio.to_thread(lambda: None)
            assert await page.locator("[data-live=log] li").count() == 0
            await page.evaluate(hide, False)
            await page.locator("[data-live=stage]").get_by_text("building").wait_for()
            assert streams == ["events?after=2", "events?after=2"]


async def test_a_countdown_goes_on_where_there_is_a_script(browser, tmp_path):
    """By the reader's clock; the date stays."""
    async with site(tmp_path) as here, reader(browser) as page:
        await page.clock.install(time=datetime(2026, 5, 1, 0, 30, tzinfo=UTC))
        await page.goto(here.url("/"))
        shown = page.locator("[data-until]")
        assert await shown.inner_text() == "in 1 d 23 h"
        await page.clock.run_for(2 * 3600 * 1000)
        assert await shown.inner_text() == "in 1 d 21 h" and "2026-05-03 00:00 UTC" in await page.inner_text("main")
