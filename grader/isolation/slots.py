"""Hands out slot numbers that no other live box of this host has, and the host uids that belong to them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grader.isolation import IsolationBroken, Purpose

FIRST_UID = 61000
SLOT_COUNT = 256


def slot_uid(slot: int, purpose: Purpose) -> int:
    """Return the uid of a box in this slot.  A build and the run after it differ, so that neither can signal the other."""
    if not 0 <= slot < SLOT_COUNT:
        raise ValueError(f"slot {slot} is not in 0..{SLOT_COUNT - 1}")
    return FIRST_UID + 2 * slot + (purpose is not Purpose.BUILD)


def shared_slot_directory() -> Path:
    """Return where the slots of this host are locked: one place for all servers of root, else one for each user."""
    return Path("/run/grader-slots") if os.geteuid() == 0 else Path(f"/tmp/grader-slots-{os.geteuid()}")


@contextmanager
def hold_slot(directory: Path) -> Iterator[int]:
    """Hold the lowest free slot.  The lock is the kernel's, so a server that dies gives its slots back."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    facts = directory.lstat()
    if facts.st_uid != os.geteuid() or directory.is_symlink():
        raise IsolationBroken(f"{directory} belongs to someone else; remove it")
    for slot in range(SLOT_COUNT):
        descriptor = os.open(directory / f"{slot}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield slot
            return
        finally:
            os.close(descriptor)
    raise IsolationBroken(f"all {SLOT_COUNT} slots of this host are in use; run fewer boxes at once")
