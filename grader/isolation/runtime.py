"""The directories that a server makes for its live boxes, and their removal after a crash."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from grader.isolation import BoxSpec
from grader.isolation.output import output_directory, sweep_outputs
from grader.isolation.removal import remove_tree
from grader.isolation.settings import BoxSettings


def run_directory(settings: BoxSettings) -> Path:
    """Return, and make, the directory of this run of the server.  Searchable, not listable: its names are not guessable."""
    directory = settings.runtime_dir / f"run-{settings.run_id}"
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o711)
    return directory


@contextmanager
def link_directory(settings: BoxSettings, spec: BoxSpec) -> Iterator[Path]:
    """Return the box's {link}: the caller's, or one of our own that is removed after."""
    if spec.link_dir is not None:
        spec.link_dir.chmod(0o755)  # the box's uid must get to the sockets in it
        yield spec.link_dir
        return
    directory = run_directory(settings) / f"link-{secrets.token_hex(8)}"
    directory.mkdir()
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def box_output(settings: BoxSettings, *, limit_bytes: int) -> Iterator[Path]:
    """Make the `out_dir` of one box, and remove it after."""
    with output_directory(run_directory(settings), limit_bytes=limit_bytes) as directory:
        yield directory


def sweep_runtime(settings: BoxSettings) -> None:
    """Remove what earlier runs of the server left; their boxes must be gone."""
    for directory in sorted(settings.runtime_dir.glob("run-*")):
        if directory.name != f"run-{settings.run_id}":
            sweep_outputs(directory)
            remove_tree(directory)


def leave_runtime(settings: BoxSettings) -> None:
    """Remove what a server has made here when it ends; what holds something that could not be cleared stays for the next to sweep."""
    with suppress(OSError):
        (settings.runtime_dir / f"run-{settings.run_id}").rmdir()
    if not any(settings.runtime_dir.glob("run-*")):
        shutil.rmtree(settings.runtime_dir / "etc", ignore_errors=True)
        with suppress(OSError):
            settings.runtime_dir.rmdir()
