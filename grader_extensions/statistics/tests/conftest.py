"""The servers of tests/server."""

from tests.server.conftest import client, grade, place, quiet, serve, settings  # noqa: F401  # fixtures
