"""Pages in a real browser, without a display: that they can be read, and that nothing of a stranger runs in them."""

import json
from dataclasses import replace

import pytest

from grader.model import SourceFile
from grader_extensions.web.pages import site_templates
from grader_extensions.web.tests.browser import DESKTOP, EVIL, reader
from grader_extensions.web.tests.site import END, site
from sandbox.protocol import wire
from tests import fakes

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
STRANGE = 'script:not([src="/static/site.js"]), img, iframe, [onmouseover], [onload]'
PAGES = {"home": "/", "list": "/competitions", "problems": "/problems", "problem": "/problems/sum"}
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
        await page.locator("table.board a").first.click()
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
        colours = []
        for scheme in ("light", "dark"):
            async with reader(browser, DESKTOP, color_scheme=scheme) as page:
                await page.goto(here.url("/"))
                colours.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert len(set(colours)) == 2


@pytest.mark.parametrize("protected", [True, False])
async def test_nothing_that_strangers_write_runs(browser, tmp_path, protected):
    """Names, titles, logs, output and sources full of markup: no title changes. The control: without escaping it does."""
    templates = None if protected else site_templates(autoescape=False)
    title = EVIL[:190]
    async with site(tmp_path, open_server=True, title=json.dumps(title), problem_title=title, templates=templates) as here:
        made = await hostile(here)
        here.clock.now = END
        ran = []
        async with reader(browser, DESKTOP, bypass_csp=True) as page:  # escaping has to do it alone
            for path in (
                *PAGES.values(),
                "/competitions/spring?problem=sum",
                "/competitions/spring",
                f"/submissions/{made}",
                f"/submissions/{made}/sources",
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
    async with site(tmp_path, open_server=True, templates=site_templates(autoescape=False)) as here:
        made = await hostile(here)
        async with reader(browser, DESKTOP) as page:
            await page.goto(here.url(f"/submissions/{made}"))
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
