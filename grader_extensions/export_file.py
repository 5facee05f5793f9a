"""Files that commands export: tables as CSV, and files that are there when they are complete."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from grader.cli.exits import GraderFailed, UsageError


def csv_text(*rows: Iterable[object]) -> str:
    """Write rows, a line each."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


@contextmanager
def whole_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file that only its owner can read, and that is there when it is complete. force: it may replace another. Raises UsageError."""
    if path.exists() and not force:
        raise UsageError(f"{path} is there already; name another file, or pass --force")
    part = path.with_name(f".{path.name}.part")
    try:
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}; name another file") from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise GraderFailed(f"{path} can't be written: {error.strerror or error}; make room, or name another file") from None
    finally:
        part.unlink(missing_ok=True)
