"""The editor of the form to submit with, in a real browser, under the site's policy."""

from contextlib import asynccontextmanager

import pytest

from grader_extensions.web.problem_pages import starter_files
from grader_extensions.web.tests.browser import DESKTOP, EVIL, findings_everywhere, reader, sign_in
from grader_extensions.web.tests.filled_site import PROBLEM, filled_site
from grader_extensions.web.tests.test_axe_browser import SIZES

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@asynccontextmanager
async def form(browser, place, **options):
    """The form in a browser, signed in, and the problem's starter files by name."""
    async with filled_site(place, entry_count=1) as here, reader(browser, DESKTOP, **options) as page:
        await page.goto(here.url("/sign-in"))
        await sign_in(page, here.key)
        await page.get_by_role("link", name="Signed in as").wait_for()
        await page.goto(here.url(f"/submit?problem={PROBLEM}"))
        yield page, {starter.name: starter.content for starter in starter_files(here.problems.get(PROBLEM))}


def editor(page):
    """The field that is typed in."""
    return page.get_by_role("textbox", name="Content")


async def send(page):
    """Send the form, which is refused; what it sent as content."""
    async with page.expect_request(lambda request: request.method == "POST") as sent:
        await page.get_by_role("button", name="Submit").click()
    await page.get_by_role("alert").wait_for()
    body = (await (await sent.value).response()).request.post_data_buffer.decode()
    return body.partition('name="content"\r\n\r\n')[2].partition("\r\n------")[0].replace("\r\n", "\n")


async def test_the_editor_has_the_starter_file_and_sends_what_is_typed(browser, tmp_path):
    """With colours and line numbers; Tab indents, Escape and Tab leave the field. After a refusal the text is there again."""
    async with form(browser, tmp_path) as (page, starters):
        await editor(page).get_by_text("softmax").first.wait_for()
        name = await page.get_by_label("File name").input_value()
        assert name in starters and await page.locator(".cm-lineNumbers .cm-gutterElement").count() > 5
        colours = await page.locator(".cm-line span").evaluate_all("(all) => all.map((one) => getComputedStyle(one).color)")
        assert len(set(colours)) > 2
        await editor(page).press("Control+Home")
        await page.keyboard.press("Tab")
        await page.keyboard.type("int x;")
        await page.keyboard.press("Escape")
        await page.keyboard.press("Tab")
        assert await page.get_by_role("button", name="Submit").evaluate("(one) => one === document.activeElement")
        assert await send(page) == f"    int x;{starters[name]}"
        await editor(page).get_by_text("int x;").wait_for()
        assert await page.get_by_label("File name").input_value() == name
        assert await findings_everywhere(page, SIZES) == []
        assert [complaint for complaint in page.complaints if "status of 4" not in complaint] == []


async def test_the_starter_file_follows_the_language_until_something_is_typed(browser, tmp_path):
    """And it goes where files are chosen: they would be one submission."""
    async with form(browser, tmp_path) as (page, _):
        name, language = page.get_by_label("File name"), page.get_by_label("Language")
        await page.locator(".cm-line span").first.wait_for()
        await language.select_option("python")
        await editor(page).get_by_text("def ").wait_for()
        assert await name.input_value() == f"{PROBLEM}.py"
        chosen = {"name": "k.cu", "mimeType": "text/plain", "buffer": b"int y;"}
        await page.get_by_label("Files").set_input_files([chosen])
        await page.wait_for_function("document.getElementById('path-0').value === ''")
        await page.get_by_role("button", name="Submit").click()
        await editor(page).get_by_text("int y;").wait_for()  # the form comes back with that file alone
        assert await editor(page).count() == 1
        await language.select_option("cuda")
        await page.get_by_label("Problem").select_option("vector_add")
        assert await name.input_value() == "k.cu" and await send(page) == "int y;"


async def test_a_large_text_is_pasted_whole(browser, tmp_path):
    """Over the limit of a submission too, and markup is text: what is wrong with it says the answer."""
    text = "".join(f"// {number} {EVIL}\n" for number in range(8_000))[: 3 << 19].replace("\x00", "").replace("\r", "")
    async with form(browser, tmp_path, permissions=["clipboard-read", "clipboard-write"]) as (page, _):
        await page.locator(".cm-line span").first.wait_for()
        await page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
        await editor(page).press("Control+a")
        await page.keyboard.press("Control+v")
        assert await send(page) == text and await page.title() != "ran"


async def test_without_a_script_the_field_is_empty_as_before(browser, tmp_path):
    """A starter file that is sent along with a chosen file would be a mistake of ours."""
    async with form(browser, tmp_path, java_script_enabled=False) as (page, _):
        assert await page.locator("textarea").input_value() == "" and await page.get_by_label("File name").input_value() == ""
