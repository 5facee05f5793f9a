"""The servers of tests/server, and a browser."""

import os
import shutil
from functools import partial

import pytest
import pytest_asyncio

from grader_extensions.web.tests.identity_provider import provider_site
from grader_extensions.web.tests.site import read_site, signed_site
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


@pytest.fixture
def open_site(tmp_path):
    """Opens a site that is read without a session."""
    return partial(read_site, tmp_path)


@pytest.fixture
def open_signed_site(tmp_path):
    """Opens a site with a browser of it, in which a user may sign in."""
    return partial(signed_site, tmp_path)


@pytest.fixture
def open_provider_site(tmp_path):
    """Opens a site whose users may sign in with an identity provider."""
    return partial(provider_site, tmp_path)
