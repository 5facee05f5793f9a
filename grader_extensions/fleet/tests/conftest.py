"""A fleet that workers join, next to the servers of tests/server and the programs of tests/e2e."""

import pytest

from grader.artifacts import SubmissionFiles
from grader.config import Settings
from grader_extensions.fleet.fleet_port import fleet_port
from grader_extensions.fleet.remote_fleet import RemoteFleet
from tests.e2e.conftest import cli, environment  # noqa: F401  # fixtures
from tests.server.conftest import client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401  # fixtures


@pytest.fixture
def files(tmp_path):
    return SubmissionFiles(tmp_path / "files", 1 << 20)


@pytest.fixture
async def fleet(tmp_path, files):
    return RemoteFleet(tmp_path / "devices.json", files, mode_wait_s=0)


@pytest.fixture
async def address(place, fleet):
    """The port of a server that has no certificates: a socket that only this user can open."""
    settings = Settings(state_dir=place, fleet="remote", fleet_listen=f"unix:{place}/fleet")
    async with fleet_port(settings, fleet) as opened:
        yield opened


@pytest.fixture
def remote(place, settings):
    """A server whose workers join at a socket."""
    return settings.model_copy(update={"fleet": "remote", "fleet_listen": f"unix:{place}/fleet"})
