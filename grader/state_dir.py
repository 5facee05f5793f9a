"""The directory that a server keeps everything in: made where it is missing, refused where nothing can be kept in it; and how a file that
is read again and again is seen to have changed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.errors import SettingsInvalid


@contextmanager
def writable_directory(directory: Path) -> Iterator[None]:
    """Make the directory, and let the context open its files there; SettingsInvalid where either can't be done."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        # What an earlier server left may be open to us, and SQLite makes more next to it.
        if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory))
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename not in (None, str(directory)) else ""
        text = f"can't keep anything in {directory}: {error.strerror}{where}"
        raise SettingsInvalid("state_dir", f"{text}; let this user write there, or name another") from None


FileStamp = tuple[int, int, int, int]


def stamp(path: Path) -> FileStamp | None:
    """Return what changes, the time first, where a file or directory is written or replaced, or a link moved; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_dev, status.st_ino
