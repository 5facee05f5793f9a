"""Signing in, submitting and comparing in a real browser: by keyboard, on a phone, in light and dark, and without a script."""

import os
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from grader.ledger import Ledger
from grader.server.running import serving
from tests import fakes
from tests.server.browser import CONTRAST, NARROW, reader
from tests.server.signed_in import key_of
from tests.server.web_apps import served_app

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
GOOD = fakes.source("accept")
NAMELESS = """[...document.querySelectorAll("input:not([type=hidden], [hidden]), select, textarea, button")]
  .filter((one) => !one.labels?.length && !one.ariaLabel && !one.textContent.trim()).length"""


@asynccontextmanager
async def server(settings):
    """With pages and keys; its address, and ann's key."""
    there = settings.model_copy(update={"web": "127.0.0.1:0", "auth": "keys"})
    async with serving(there, fakes.wiring()) as running, Ledger.open(there.ledger) as ledger:
        yield f"http://{running.web_address}", await key_of(ledger)


async def sign_in(page, base, key):
    await page.goto(f"{base}/sign-in?next=/submit?problem=sum")
    await page.get_by_label("API key").fill(key)
    await page.keyboard.press("Enter")
    await page.get_by_role("heading", name="Submit").wait_for()


async def submit(page, content=GOOD):
    """From the form to the report."""
    await page.get_by_label("File name").fill("kernel.cu")
    await page.get_by_label("Content").fill(content)
    await page.get_by_role("button", name="Submit").click()
    await page.get_by_text("ACCEPTED").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_pages_of_who_has_signed_in_can_be_read_on_a_phone(browser, settings, scheme):
    """No page scrolls sideways, every text can be read, every control has a name, and the policy is not broken."""
    async with server(settings) as (base, key), reader(browser, color_scheme=scheme) as page:
        await sign_in(page, base, key)
        paths = {"sign-in": "/sign-in", "account": "/account", "submit": "/submit?problem=sum"}
        for content in (GOOD, GOOD + "// " + "x" * 300 + "\n"):
            await page.goto(f"{base}/submit?problem=sum")
            await submit(page, content)
            paths["report"] = page.url.removeprefix(base)
        await page.goto(f"{base}/submissions")
        for name, number in (("a", 0), ("b", 1)):
            await page.locator(f"input[name={name}]").nth(number).check()
        await page.get_by_role("button", name="Compare").click()
        await page.get_by_role("heading", name="Two submissions").wait_for()
        paths |= {"list": "/submissions", "compare": page.url.removeprefix(base), "home": "/", "problem": "/problems/sum"}
        for name, path in paths.items():
            await page.goto(base + path)
            await looked_at(page, name, scheme)
        await page.goto(f"{base}/submit")
        await page.get_by_role("button", name="Submit").click()
        await page.get_by_role("alert").wait_for()
        await looked_at(page, "refused", scheme)
        assert [one for one in page.complaints if "400" not in one] == []


async def looked_at(page, name, scheme):
    assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], name
    assert await page.evaluate(CONTRAST) == [] and await page.evaluate(NAMELESS) == 0, name
    if shots := os.environ.get("GRADER_SCREENSHOTS"):
        await page.screenshot(path=f"{shots}/{name}-390-{scheme}.png", full_page=True)


async def test_everything_works_by_keyboard_and_without_a_script(browser, settings):
    """From signing in to the report and out again; a file is uploaded."""
    async with server(settings) as (base, key), reader(browser, java_script_enabled=False) as page:
        await sign_in(page, base, key)
        chosen = {"name": "kernel.cu", "mimeType": "text/plain", "buffer": GOOD.encode()}
        await page.get_by_label("Files").set_input_files([chosen])
        await page.get_by_label("Problem").focus()
        for _ in range(12):  # to the button, by Tab
            if await page.locator("button:focus").count():
                break
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.get_by_text("ACCEPTED").first.wait_for()
        assert "/submissions/" in page.url
        await page.goto(f"{base}/account")
        await page.get_by_role("button", name="Sign out").press("Enter")
        await page.get_by_role("link", name="Sign in").wait_for()
        assert await page.context.cookies() == [] or not any(one["name"] == "grader_session" for one in await page.context.cookies())


async def test_a_form_on_another_site_is_sent_without_the_session(browser, settings):
    """For the cookie is SameSite=Strict. The control is the same form on a page of this site, which is sent with it."""
    async with server(settings) as (base, key), strange_site() as strange, reader(browser) as page:
        await sign_in(page, base, key)
        form = f"<form id='f' method='post' action='{base}/sign-out'><input name='token' value='x'></form>"
        strange.text = form
        sent = {}
        for name, url in (("strange", strange.url), ("ours", f"{base}/account")):
            await page.goto(url)
            async with page.expect_request(f"{base}/sign-out") as asked:
                await page.locator("form").evaluate("(one) => { one.querySelector('[name=token]').value = 'x'; one.submit(); }")
            found = await (await asked.value).all_headers()
            await page.wait_for_load_state()
            sent[name] = ("grader_session" in found.get("cookie", ""), found.get("sec-fetch-site"))
            assert "Not accepted" in await page.inner_text("main")
        assert sent == {"strange": (False, "cross-site"), "ours": (True, "same-origin")}
        await page.goto(base)
        assert "Signed in as" in await page.inner_text("header")


class Strange:
    """A site with a page of its own."""

    url = text = ""


@asynccontextmanager
async def strange_site():
    """At a name that is another site than 127.0.0.1."""
    made = Strange()

    async def answer(_):
        return web.Response(text=made.text, content_type="text/html")

    async with served_app(web.get("/", answer)) as port:
        made.url = f"http://localhost:{port}/"
        yield made
