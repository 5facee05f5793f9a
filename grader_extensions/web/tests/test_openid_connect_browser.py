"""Signing in with an identity provider in a real browser, which follows redirects between two sites; with a script and without one."""

import pytest

from grader_extensions.web.tests.axe import findings_everywhere
from grader_extensions.web.tests.browser import reader
from grader_extensions.web.tests.provider_site import provider_site
from grader_extensions.web.tests.test_axe_browser import SIZES
from tests.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


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
        assert "/authorization" in provider.asked
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
