"""The servers of tests/server, the ledgers of tests/contract, and the programs of tests/e2e."""

from tests.contract.conftest import clock, ledger, location  # noqa: F401  # fixtures
from tests.e2e.conftest import environment  # noqa: F401  # a fixture
from tests.postgres import postgres, url  # noqa: F401  # fixtures
from tests.server.conftest import client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401  # fixtures
