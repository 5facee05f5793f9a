"""What tests of builds share."""

from pathlib import Path

import pytest

from sandbox.builder import precompile
from tests.run_files import make_once


@pytest.fixture(scope="session")
def ready() -> Path:
    """Headers compiled beforehand, made once in a test run."""
    return make_once("headers", _precompile) / "ready"


def _precompile(place: Path) -> None:
    assert precompile.make(place / "ready") == ""
