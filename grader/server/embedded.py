"""A server inside another program, such as `grader-cli`: same code, a socket that only this user can open."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from grader.config import SOCKET_NAME, Settings
from grader.server.grading import Wiring
from grader.server.running import reading, serving
from grader.server.wiring import wired

_wired = partial(wired, proving=False)  # its one user reads at once what is wrong, and does not wait for a kernel that is not theirs


@asynccontextmanager
async def embedded(
    settings: Settings, *, reader: bool = False, waiting: Callable[[str], None] | None = None, wiring: Wiring = _wired
) -> AsyncIterator[str]:
    """The address of a server that lives as long as the context.

    reader: shows what is there, takes no lock, grades nothing. Otherwise the state directory's lock is needed. Where another
    process has it, `waiting` is called and the lock is waited for; without `waiting`, StateDirectoryInUse.
    """
    # Not in the state directory: two programs may read at once.
    with tempfile.TemporaryDirectory(prefix="grader-") as directory:
        # By a descriptor: a unix socket's path has at most 107 bytes, and $TMPDIR may lie deep. Only this process listens and connects.
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        try:
            # A copy of the toolchain takes seconds to make, and here nobody grades secrets for others.
            changes = {
                "listen": f"unix:/proc/self/fd/{descriptor}/{SOCKET_NAME}",
                "resident_toolchain": settings.resident_toolchain or False,
            }
            here = settings.model_copy(update=changes)
            async with reading(here) if reader else serving(here, wiring, waiting=waiting) as running:
                yield running.address
        finally:
            os.close(descriptor)
