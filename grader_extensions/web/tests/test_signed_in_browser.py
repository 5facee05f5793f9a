"""Signing in and submitting in a real browser, by keyboard and without a script; and a form on another site."""

from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from grader.ledger import Ledger
from grader.server.running import serving
from grader_extensions.web.tests.browser import findings_everywhere, reader
from grader_extensions.web.tests.identity_provider import provider_site
from grader_extensions.web.tests.signed_in import key_of
from grader_extensions.web.tests.test_axe_browser import SIZES
from tests import fakes
from tests.ports import free_port
from tests.server.web_apps import served_app

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
GOOD = fakes.source("accept")


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
        assert await page.context.cookies() == [] or not any(cookie["name"] == "grader_session" for cookie in await page.context.cookies())


async def test_a_form_on_another_site_is_sent_without_the_session(browser, settings):
    """For the cookie is SameSite=Strict. The control is the same form on a page of this site, which is sent with it."""
    async with server(settings) as (base, key), strange_site() as strange, reader(browser) as page:
        await sign_in(page, base, key)
        form = f"<form id='f' method='post' action='{base}/sign-out'><input name='token' value='x'></form>"
        strange.text = form
        sent = {}
        for name, url in (("strange", strange.url), ("ours", f"{base}/account")):
            await page.goto(url)
            async with page.expect_request(f"{base}/sign-out") as request_info:
                await page.locator("form").evaluate("(one) => { one.querySelector('[name=token]').value = 'x'; one.submit(); }")
            headers = await (await request_info.value).all_headers()
            await page.wait_for_load_state()
            sent[name] = ("grader_session" in headers.get("cookie", ""), headers.get("sec-fetch-site"))
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
    site = Strange()

    async def answer(_):
        return web.Response(text=site.text, content_type="text/html")

    async with served_app(web.get("/", answer)) as port:
        site.url = f"http://localhost:{port}/"
        yield site


@pytest.mark.parametrize("script", [True, False])
async def test_a_user_signs_in_and_makes_a_key(browser, tmp_path, script):
    """From the page that asked for it, over the provider and back to that page; the session's SameSite=Strict cookie goes with it."""
    address = f"127.0.0.1:{free_port()}"
    site = provider_site(tmp_path, web=address, public_url=f"http://{address}")
    async with site as (here, _, provider), reader(browser, java_script_enabled=script) as page:
        await page.goto(here.url("/submissions?problem=sum"))
        await page.get_by_role("link", name="Sign in with Example").focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("link", name="Signed in as ann-").wait_for()
        await page.wait_for_url(here.url("/submissions?problem=sum"))
        assert "/authorization" in provider.paths
        await page.goto(here.url("/account"))
        await page.get_by_role("button", name="Make an API key").click()
        key = await page.locator("pre").first.inner_text()
        assert (await here.gate.open_with(key)).user.startswith("ann-")
        if script:
            assert await findings_everywhere(page, SIZES) == []
        await page.get_by_role("button", name="Sign out").click()
        await page.get_by_role("link", name="Sign in", exact=True).click()
        if script:
            assert await findings_everywhere(page, SIZES) == []
        assert page.complaints == []


async def test_a_browser_that_did_not_begin_is_not_signed_in(browser, tmp_path):
    """A link with another's code and state leads to a sentence. The control is the test above."""
    address = f"127.0.0.1:{free_port()}"
    site = provider_site(tmp_path, web=address, public_url=f"http://{address}")
    async with site as (here, ann, _), reader(browser) as page:
        answer, _ = await ann.get("/sign-in/provider")
        await page.goto(answer.headers["Location"])
        await page.get_by_role("heading", name="Not signed in").wait_for()
        assert page.url.startswith(here.url("/sign-in/provider/callback"))
        await page.goto(here.url("/"))
        assert "Signed in" not in await page.inner_text("header")
