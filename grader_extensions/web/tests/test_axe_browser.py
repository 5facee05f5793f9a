"""Every kind of page, looked at by axe-core in a real browser: on a desktop and on a phone, in light and dark."""

import pytest

from grader_extensions.web.report.report_file import report_file
from grader_extensions.web.tests.browser import NARROW, findings_everywhere, reader, sign_in
from grader_extensions.web.tests.filled_site import filled_site
from grader_extensions.web.tests.site import END, FREEZE
from grader_extensions.web.tests.test_html_report import graded

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
WIDE = {"width": 1280, "height": 900}
SIZES = (WIDE, NARROW)
# A picture without a text, a field without a label, a text that can be read on white only, a jump over two levels of headings, and a
# page that is too wide.
MISTAKES = """() => {
  const main = document.querySelector("main");
  for (const [tag, text] of [["img", ""], ["input", ""], ["p", "grey"], ["h4", "A heading"]]) {
    const made = document.createElement(tag);
    made.textContent = text;
    made.id = `planted-${tag}`;
    if (text === "grey") made.style.color = "#555";
    main.append(made);
  }
  main.style.minWidth = "2000px";
}"""


async def test_axe_finds_nothing_on_any_page(browser, tmp_path):
    """Whatever its impact; each finding has page, width, scheme, impact, rule and selector. The policy of the site stays as it is."""
    async with filled_site(tmp_path) as here, reader(browser) as page:
        results, titles = [], []

        async def look(name):
            titles.append(await page.title())
            results.extend((name, *finding) for finding in await findings_everywhere(page, SIZES))

        for name in ("home", "sign in"):
            await page.goto(here.url(here.paths[name]))
            await look(f"{name}, signed out")
        await sign_in(page, "wrong")
        await page.get_by_role("alert").wait_for()
        await look("sign in, refused")
        await sign_in(page, here.key)
        await page.get_by_role("link", name="Signed in as").wait_for()
        for name, path in here.paths.items():
            await page.goto(here.url(path))
            await look(name)
        await page.goto(here.url(here.paths["own submissions"]))
        for number, side in enumerate("ab", 3):  # the withdrawn one and the finished one
            await page.locator(f"input[name={side}]").nth(number).check()
        await page.get_by_role("button", name="Compare").click()
        await page.get_by_role("heading", name="Two submissions").wait_for()
        assert page.url == here.url(here.paths["compare"])
        await page.goto(here.url(here.paths["submit"]))
        await page.get_by_role("button", name="Submit").click()
        await page.get_by_role("alert").wait_for()
        await look("submit, refused")
        for name, here.clock.now in (("board", FREEZE), ("board", END), ("report", END)):
            await page.goto(here.url(here.paths[name]))
            await look(f"{name}, {here.clock.now}")
        assert results == []
        assert len(titles) == len(here.paths) + 7 and "Not found - grader" in titles
        assert [complaint for complaint in page.complaints if "status of 4" not in complaint] == []


async def test_axe_finds_nothing_in_a_report_that_is_a_file(browser):
    """With all that a report has, opened without a server."""
    async with reader(browser) as page:
        await page.set_content(report_file(graded()))
        assert await findings_everywhere(page, SIZES) == []


async def test_planted_mistakes_are_found(browser, tmp_path):
    """The control: each by its rule, under the site's own policy; grey on dark is found in dark only."""
    async with filled_site(tmp_path, entry_count=1) as here, reader(browser) as page:
        await page.goto(here.url("/"))
        await page.evaluate(MISTAKES)
        results = await findings_everywhere(page, SIZES)
        planted = {
            ("light", "critical", "image-alt", "#planted-img"), ("light", "critical", "label", "#planted-input"),
            ("light", "moderate", "heading-order", "#planted-h4"), ("dark", "serious", "color-contrast", "#planted-p"),
            ("light", "serious", "wider-than-the-screen", "html"),
        }  # fmt: skip
        assert set(results) == {(size["width"], *rule) for size in SIZES for rule in planted}
        assert page.complaints == []
