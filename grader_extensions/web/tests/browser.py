"""Screens, pages and texts that tests in a browser share, and axe-core in a page. EVIL does harm where it is not escaped."""

import os
import shutil
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources

from tests.requirements import absent

DESKTOP = {"width": 1200, "height": 900}
EVIL = (
    "<script>document.title='ran'</script>\"onmouseover=\"document.title='ran'\" x='\"><img src=x onerror=document.title='ran'>"
    "]]></pre></bdi></a></title></textarea><svg onload=document.title='ran'>{{ 7 * 1000429 }}{% raw %}\u202egnp\u2066\x1b]0;ran\x07\x00"
)

NARROW = {"width": 360, "height": 740}  # a phone


@asynccontextmanager
async def chromium():
    """A Chromium without a display."""
    from playwright.async_api import async_playwright  # takes long to import

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        absent("chromium", "there is no chromium on the path")
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=arguments)
        yield opened
        await opened.close()


@asynccontextmanager
async def reader(browser, size=NARROW, **options):
    """A page that notes what it complains of, and the URLs that it asks for."""
    context = await browser.new_context(viewport=size, **options)
    page = await context.new_page()
    page.complaints, page.urls = [], []
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda request: page.urls.append(request.url))
    try:
        yield page
    finally:
        await context.close()


async def sign_in(page, key):
    """Fill in the form of the page to sign in."""
    await page.get_by_label("API key").fill(key)
    await page.keyboard.press("Enter")
    await page.wait_for_load_state()


RULES = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
COLOR_RULES = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
# Impact, rule and selector of each finding.
_RUN = """async (rules) => {
  const found = await axe.run(document, {runOnly: rules, resultTypes: ["violations"]});
  return found.violations.flatMap((one) => one.nodes.map((node) => [one.impact, one.id, node.target.join(" ")]));
}"""


@cache
def script():
    """axe-core's source, from the package that constraints.txt pins."""
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()


async def findings(page, rules=RULES):
    """(impact, rule, selector) of each finding. The script goes in through the debugger, which a content security policy does not stop."""
    if await page.evaluate("typeof axe") == "undefined":
        await page.evaluate(script())
    return [tuple(finding) for finding in await page.evaluate(_RUN, rules)]


async def findings_everywhere(page, sizes):
    """(width, scheme, impact, rule, selector) in each size, light and dark. Only the rules of colours are asked again in dark. A page that
    scrolls sideways is a finding too."""
    results = []
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for size in sizes:
        await page.set_viewport_size(size)
        if await page.evaluate("document.documentElement.scrollWidth") > size["width"]:
            results.append((size["width"], "light", "serious", "wider-than-the-screen", "html"))
        for scheme, rules in (("light", RULES), ("dark", COLOR_RULES)):
            await page.emulate_media(color_scheme=scheme)
            results += [(size["width"], scheme, *finding) for finding in await findings(page, rules)]
    return results
