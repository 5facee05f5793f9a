"""The fleet of tests/judge."""

from tests.judge.conftest import fleet  # noqa: F401  # a fixture
