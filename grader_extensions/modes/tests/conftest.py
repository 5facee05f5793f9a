"""Fleets of fakes, servers and builds, as in tests/unit, tests/server and tests/builds."""

from tests.builds.conftest import builder  # noqa: F401  # fixtures
from tests.server.conftest import client, finished, grade, kernel_, place, quiet, serve, settings  # noqa: F401
from tests.unit.conftest import boxes, judges, make, own_configuration  # noqa: F401
