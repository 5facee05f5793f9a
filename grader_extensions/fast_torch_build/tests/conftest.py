"""Builds, as in tests/builds, and headers that were compiled beforehand."""

from pathlib import Path

import pytest

from grader_extensions.fast_torch_build import precompile
from tests.builds.conftest import built  # noqa: F401  # a fixture
from tests.run_files import make_once


@pytest.fixture(scope="session")
def ready() -> Path:
    """Headers compiled beforehand, made once in a test run."""
    return make_once("headers", _precompile) / "ready"


def _precompile(place: Path) -> None:
    assert precompile.make(place / "ready") == ""
