"""Writes what a command was asked to write into files."""

from __future__ import annotations

import os
from pathlib import Path

from grader.cli.exits import Misuse

STDOUT = "-"


def open_directory(out: Path) -> int:
    """A descriptor of the directory of `--out`, which is made if it is not there. Raises Misuse."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise Misuse(f"--out: {out} is not a directory that can be used: {error.strerror}; name another directory") from None


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
