"""Takes a file out of a directory that untrusted code has written to.  By descriptor only, and only after the box is gone."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

CHUNK_BYTES = 1 << 20


class RefusalReason(StrEnum):
    """Why a file was left where it was."""

    BAD_NAME = "bad_name"
    MISSING = "missing"
    SYMLINK = "symlink"
    NOT_A_FILE = "not_a_file"
    HARD_LINK = "hard_link"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A file that was not taken; the sentence is for people."""

    reason: RefusalReason
    sentence: str


def pick_up(directory: Path, name: str, *, limit_bytes: int) -> bytes | Refusal:
    """Return the content of the plain file `name` in `directory`, or why not.  Never follows a link, never blocks."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        return Refusal(reason=RefusalReason.BAD_NAME, sentence=f"{name!r} is not the name of a file in the output directory")
    with ExitStack() as stack:
        parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, parent)
        try:
            # O_NONBLOCK: a FIFO would hang the reader for ever.
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=parent)
        except OSError as error:
            match error.errno:
                case errno.ENOENT:
                    reason, sentence = RefusalReason.MISSING, f"there is no file {name!r}"
                case errno.ELOOP:
                    reason, sentence = RefusalReason.SYMLINK, f"{name!r} is a symbolic link; leave the file itself"
                case errno.ENXIO | errno.ENODEV | errno.EISDIR:
                    reason, sentence = RefusalReason.NOT_A_FILE, f"{name!r} is not a plain file"
                case _:
                    reason, sentence = RefusalReason.UNREADABLE, f"{name!r} cannot be read: {os.strerror(error.errno or 0)}"
            return Refusal(reason=reason, sentence=sentence)
        stack.callback(os.close, descriptor)
        return _read(descriptor, name, limit_bytes)


def _read(descriptor: int, name: str, limit_bytes: int) -> bytes | Refusal:
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        return Refusal(reason=RefusalReason.NOT_A_FILE, sentence=f"{name!r} is not a plain file")
    if facts.st_nlink != 1:
        return Refusal(reason=RefusalReason.HARD_LINK, sentence=f"{name!r} has {facts.st_nlink} names; a file of the box has one")
    too_large = Refusal(reason=RefusalReason.TOO_LARGE, sentence=f"{name!r} is over {limit_bytes} bytes")
    if facts.st_size > limit_bytes:
        return too_large
    content = bytearray()
    while chunk := os.read(descriptor, min(CHUNK_BYTES, limit_bytes + 1 - len(content))):
        content += chunk
        if len(content) > limit_bytes:
            return too_large
    return bytes(content)
