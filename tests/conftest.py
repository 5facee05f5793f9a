"""What one test does to its process, undone before the next module's."""

import pytest
import structlog


@pytest.fixture(scope="module", autouse=True)
def log_as_before():
    """Servers in tests are silenced, or write to files; a test of another module in the same process may want to hear."""
    yield
    structlog.reset_defaults()
