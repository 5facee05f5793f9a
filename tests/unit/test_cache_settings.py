"""Where the artifact cache lies, and that no box sees it there."""

import sys
from pathlib import Path

import pytest

from grader.artifacts import ArtifactCache
from grader.config import Settings
from grader.isolation.toolchain import host_toolchain
from grader.server.wiring import box_settings


def test_a_box_does_not_see_a_cache_below_what_it_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever somebody puts it: below the Python environment it is covered by an empty directory."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    settings = Settings(state_dir=tmp_path / "state", cache_dir=tmp_path / "env" / "cache")
    ArtifactCache(settings.cache_path, 1)
    assert str(settings.cache_path) in host_toolchain(tmp_path, box_settings(settings).hidden_paths).hidden
