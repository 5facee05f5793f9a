"""Where `grader-cli problems check` and `import` run a problem's code: in a box, unless the problem is trusted."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from grader.admission.check_box import CheckBox
from grader.cli.check_options import CheckPlace, safe_isolations
from grader.cli.exits import GraderFailed
from grader.isolation.directories import leave_runtime, shared_slot_directory
from grader.isolation.select import ClosableIsolation, make
from grader.isolation.settings import BoxSettings
from grader.isolations import AUTO


@asynccontextmanager
async def check_box(place: CheckPlace, runtime_dir: Path | None = None) -> AsyncIterator[CheckBox | None]:
    """Open the box that a check runs in; None where the problem is trusted. GraderFailed where no isolation works here."""
    if place.trusted:
        yield None
        return
    directory = runtime_dir or _runtime_directory()
    state_id = hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:12]
    settings = BoxSettings(state_id=f"check{state_id}", runtime_dir=directory)
    names = safe_isolations() if place.sandbox == AUTO else [place.sandbox]
    isolation = await usable_isolation(names, settings)
    try:
        with _alone(settings.runtime_dir) as alone:
            if alone:
                await isolation.sweep()  # what a check that was killed left
        with _shared(settings.runtime_dir):
            yield CheckBox(isolation, settings)
    finally:
        await isolation.close()
        leave_runtime(settings)


async def usable_isolation(names: Sequence[str], settings: BoxSettings) -> ClosableIsolation:
    """Return the first of these isolations that works here; GraderFailed where none does."""
    reasons = []
    for name in names:
        isolation = make(name, settings)
        found = await isolation.check()
        if found.usable:
            return isolation
        await isolation.close()
        reasons.append(f"{name}: {found.detail}")
    raise GraderFailed(
        f"no sandbox for the problem's code works here ({'; '.join(reasons)}); "
        "install bubblewrap or start a Docker engine, or pass --trusted to run the code as you"
    )


def _runtime_directory() -> Path:
    directory = Path(tempfile.gettempdir()) / f"grader-check-{os.geteuid()}"
    directory.mkdir(mode=0o711, exist_ok=True)
    if directory.is_symlink() or directory.stat().st_uid != os.geteuid():
        raise GraderFailed(f"{directory} belongs to another user; remove it, or set TMPDIR to a directory of your own")
    return directory


@contextmanager
def _alone(directory: Path) -> Iterator[bool]:
    """Say whether no other check of this user runs, and keep others from starting meanwhile."""
    with _lock_file(directory) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


@contextmanager
def _shared(directory: Path) -> Iterator[None]:
    with _lock_file(directory) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield


@contextmanager
def _lock_file(directory: Path) -> Iterator[int]:
    """Open the directory's lock. It lies where the slots' are: the directory itself is removed with the last check."""
    locks = shared_slot_directory()
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = locks / f"{directory.name}-{hashlib.sha256(bytes(directory.resolve())).hexdigest()[:12]}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
