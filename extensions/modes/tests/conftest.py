"""The fleets of fakes of tests/unit, and the servers of tests/server."""

from tests.server.conftest import client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401  # fixtures
from tests.unit.conftest import boxes, judges, make, own_configuration  # noqa: F401  # fixtures
