"""The servers of tests/server, and a browser."""

from functools import partial

import pytest
import pytest_asyncio

from grader_extensions.web.tests.browser import chromium
from grader_extensions.web.tests.identity_provider import provider_site
from grader_extensions.web.tests.site import read_site, signed_site
from tests.contract.conftest import ledger, location  # noqa: F401  # fixtures
from tests.postgres import postgres, url  # noqa: F401  # fixtures
from tests.server.conftest import client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401  # fixtures


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """A Chromium without a display."""
    async with chromium() as opened:
        yield opened


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
