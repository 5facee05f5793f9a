"""The servers of tests/server."""

from tests.server.conftest import client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401  # fixtures
