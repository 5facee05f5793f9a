"""A fleet for the modules whose submissions are graded."""

from tests.judge.conftest import fleet  # noqa: F401  # a fixture
