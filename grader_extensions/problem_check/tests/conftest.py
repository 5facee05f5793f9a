"""The programs of tests/e2e, and the isolations of tests/containment."""

from tests.containment.conftest import cage_checks  # noqa: F401  # a fixture
from tests.e2e.conftest import cli, environment  # noqa: F401  # fixtures
