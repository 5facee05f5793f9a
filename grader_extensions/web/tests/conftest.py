"""The servers of tests/server, and a browser."""

import os
import shutil

import pytest_asyncio

from tests.requirements import absent
from tests.server.conftest import client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401  # fixtures


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
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
