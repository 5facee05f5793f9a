"""The servers of tests/server, and the programs of tests/e2e."""

from tests.contract.conftest import clock, ledger, location  # noqa: F401  # fixtures
from tests.e2e.conftest import cli, environment  # noqa: F401  # fixtures
from tests.postgres import postgres, url  # noqa: F401  # fixtures
from tests.server.conftest import client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401  # fixtures
