"""Builds, as in tests/builds."""

from tests.builds.conftest import built, ready  # noqa: F401  # fixtures
