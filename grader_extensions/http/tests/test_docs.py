"""The examples of docs/api.md and of examples/board work as they are written."""

import asyncio
import json
import os
import re
from pathlib import Path

import pytest
from aiohttp import web

from grader_extensions.web.tests.browser import reader
from grader_extensions.web.tests.conftest import browser  # noqa: F401  # a fixture
from tests import fakes
from tests.server.web_apps import served_app

ROOT = Path(__file__).parents[3]


async def test_the_examples_of_the_page_work(serve, tmp_path):
    """Each command of the section as it is written, for a problem that is here; and what the last of them print."""
    section = (ROOT / "docs/api.md").read_text().partition("\n## HTTP\n")[2].partition("\n## ")[0]
    text = "\n".join(re.findall(r"^    (.*)$", section, re.MULTILINE)).replace("problems/vector_add", "problems/sum")
    async with serve() as here:
        environment, printed = {**os.environ, "KEY": here.key, "SERVER": here.url("")}, []
        for command in re.findall(r"^curl .*|^cat (?s:.*?)^END$", text, re.MULTILINE):
            shell = command.replace("curl ", "curl -sS --fail-with-body ").replace("submissions/ID", here.name)
            process = await asyncio.create_subprocess_exec("sh", "-euc", shell, cwd=tmp_path, env=environment, stdout=-1, stderr=-1)
            out, complaint = await process.communicate()
            assert process.returncode == 0, (command, out, complaint)
            printed.append(out.decode())
        user, problems, board, _, submitted, many, single, submission = printed
        assert '"user":"alice"' in user and '"problems":[' in problems and "competitions/spring" in board
        assert '"state":"SUBMISSION_STATE_QUEUED"' in submitted and '"verdict":"VERDICT_ACCEPTED"' in many and "event: end" in single
        assert '"verdict":"VERDICT_ACCEPTED"' in submission


async def page(_):
    """The example page."""
    return web.FileResponse(ROOT / "examples/board/index.html")


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_the_page_shows_a_live_board(serve, browser):  # noqa: F811
    """With a key, on a site of its own: a board, and a submission as it goes on. The control: a server that does not allow the site."""
    async with served_app(web.get("/", page)) as port:
        await check_live_board(serve, browser, f"http://127.0.0.1:{port}")


async def check_live_board(serve, browser, site):  # noqa: F811
    """Follow a board from this site."""

    async def opened(tab, here):
        await tab.goto(f"{site}/?server={here.url('')}&competition=spring&problem=sum&tag=a")
        await tab.get_by_label("Key").fill(here.key)
        await tab.keyboard.press("Enter")

    async with serve(http_allow_origin=(site,)) as here, reader(browser) as tab:
        here.key = await here.make_key("bob")  # who is not on the board yet
        await opened(tab, here)
        await tab.get_by_text("as of").wait_for()
        ranked = {"problem": "problems/sum", "tags": ["a"], "mode": "MODE_RANKED", "competition": "competitions/spring"}
        ranked["sources"] = [{"path": "kernel.cu", "content": fakes.source("accept")}]
        created = await here.curl(*here.bearer, "--json", json.dumps({"submission": ranked}), here.url("/v1/submissions"))
        assert created.status == 200, created.data
        name = created.data["name"]
        await tab.get_by_text(f"{name} SUCCEEDED ACCEPTED").wait_for()
        await tab.get_by_role("cell", name=name).wait_for()
        assert tab.complaints == []
    async with serve() as here, reader(browser) as tab:
        await opened(tab, here)
        await tab.get_by_text("Failed to fetch").wait_for()
