"""Where the artifact cache lies, and that no box sees it there."""

import sys
from pathlib import Path

import pytest

from grader.artifacts import ArtifactCache
from grader.config import Settings, cache_directory
from grader.isolation.toolchain import host_toolchain
from grader.server.main import parser
from grader.server.wiring import box_settings


def test_the_cache_lies_in_the_state_directory_unless_told_otherwise(tmp_path: Path) -> None:
    """A setting, or $GRADER_CACHE_DIR, names another, which servers may share."""
    assert Settings(state_dir=tmp_path, cache_dir=None).cache_path == tmp_path / "artifacts"
    assert Settings(state_dir=tmp_path, cache_dir=tmp_path / "shared").cache_path == tmp_path / "shared"
    assert cache_directory({"GRADER_CACHE_DIR": "/var/cache/grader"}) == Path("/var/cache/grader")
    assert cache_directory({}) is None


def test_the_servers_options_are_settings() -> None:
    """Their names are the same."""
    given = vars(parser().parse_args(["--cache-dir", "/c", "--cache-bytes", "0"]))
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    assert (settings.cache_path, settings.cache_bytes) == (Path("/c"), 0)


def test_a_box_does_not_see_a_cache_below_what_it_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever somebody puts it: below the Python environment it is covered by an empty directory."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    settings = Settings(state_dir=tmp_path / "state", cache_dir=tmp_path / "env" / "cache")
    ArtifactCache(settings.cache_path, 1)
    assert str(settings.cache_path) in host_toolchain(tmp_path, box_settings(settings).hidden_paths).hidden
