"""Removes directories that untrusted code has filled, once its box is gone."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

HOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(directory: Path) -> None:
    """Remove a directory, however deep; what may not be removed stays.  No symlink is followed.

    `shutil.rmtree` calls itself for each level before Python 3.13: a thousand of them end it with a RecursionError.
    """
    with contextlib.suppress(OSError):
        top = os.open(directory, HOW)
        try:
            _empty(top)
        finally:
            os.close(top)
        directory.rmdir()


def _empty(top: int) -> None:
    """Empty a directory. What lies deeper than one level is moved up first, so that no path grows long and two descriptors are enough."""
    waiting = _remove_files(top)
    mark, count = secrets.token_hex(8), 0
    while waiting:
        name = waiting.pop()
        with contextlib.suppress(OSError):
            below = os.open(name, HOW, dir_fd=top)
            try:
                for inner in _remove_files(below):
                    with contextlib.suppress(OSError):
                        os.rename(inner, f"{mark}-{count}", src_dir_fd=below, dst_dir_fd=top)
                        waiting.append(f"{mark}-{count}")
                        count += 1
            finally:
                os.close(below)
            os.rmdir(name, dir_fd=top)


def _remove_files(descriptor: int) -> list[str]:
    """Remove what is no directory; open to us, and name, what is one."""
    directories = []
    with os.scandir(descriptor) as entries:
        found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in found:
        with contextlib.suppress(OSError):
            if is_directory:
                directories.append(name)
                os.chmod(name, 0o700, dir_fd=descriptor)  # it may be closed to its owner; nobody is left to swap it
            else:
                os.unlink(name, dir_fd=descriptor)
    return directories
