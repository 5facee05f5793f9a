"""Writes what a command was asked to write into a file."""

from __future__ import annotations

from pathlib import Path

from grader.cli.exits import Misuse

STDOUT = "-"


def write_text(path: str, text: str) -> None:
    """Write text to a file, or to stdout where path is `-`. A file is there as a whole, or as it was. Raises Misuse."""
    if path == STDOUT:
        print(text, end="")
        return
    half = Path(f"{path}.part")  # so that a full disk leaves what was there before
    try:
        half.write_text(text, "utf-8")
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise Misuse(f"{path!r} can't be written: {error.strerror or error}; name another file") from None
