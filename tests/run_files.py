"""Files that the processes of one test run share: what one of them made, and the product's artifact cache."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from grader.artifacts import ArtifactCache

RUN_DIR_VARIABLE, CACHE_DIR_VARIABLE = "GRADER_TEST_RUN_DIR", "GRADER_TEST_CACHE_DIR"  # set by conftest.py
CACHE_BYTES = 1 << 30


def make_once(name: str, make: Callable[[Path], None]) -> Path:
    """The directory of this name in the run's directory. The first process that asks for it calls `make`; the others wait."""
    directory = Path(os.environ[RUN_DIR_VARIABLE]) / "made" / name
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            unfinished = directory.with_name(f"{name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(directory)
    return directory


def cache_directory() -> Path:
    """Where this run's artifacts lie."""
    return Path(os.environ[CACHE_DIR_VARIABLE])


def artifact_cache() -> ArtifactCache:
    """This run's artifacts, for a fleet of this process."""
    return ArtifactCache(cache_directory(), CACHE_BYTES)
