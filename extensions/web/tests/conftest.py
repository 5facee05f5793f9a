"""The servers of tests/server, and a browser."""

from tests.server.conftest import browser, client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401  # fixtures
