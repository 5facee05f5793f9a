"""What the process takes of the host: file descriptors, and memory that comes back once it is free."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress

import structlog

from grader.errors import SettingsInvalid

log = structlog.get_logger()

DESCRIPTORS = 65_536  # what is asked for, as deploy/grader-server.service does
RESERVED = 1_024  # for boxes, the ledger and files: connections have the rest
LEAST_RESERVED = 48  # the same, where there are few: connections have half of the rest
ARENAS = 2  # of malloc: with one for each thread, what a burst took stays with them
_M_TRIM_THRESHOLD, _M_ARENA_MAX = -1, -8  # of <malloc.h>
_TRIM_BYTES = 1 << 20


def raise_descriptor_limit(wanted: int = DESCRIPTORS) -> None:
    """Have as many descriptors as the system allows, up to wanted. What is started inherits the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def descriptor_limit() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def connections_within(descriptors: int, *asked: int) -> tuple[int, ...]:
    """How many connections of each kind there may be: as asked, or fewer, so that RESERVED
    descriptors are left, or more than half; SettingsInvalid where there are too few to serve."""
    room = max(descriptors - RESERVED, (descriptors - LEAST_RESERVED) // 2)
    if room < 2 * len(asked):
        text = f"this process may open {descriptors} files, which leaves none for callers; raise that limit: ulimit -n 65536"
        raise SettingsInvalid("connection_limit", text)
    if sum(asked) <= room:
        return asked
    given = tuple(max(1, one * room // sum(asked)) for one in asked)
    log.warning(
        "connections_limited", descriptors=descriptors, asked=asked, given=given, remedy="raise the limit of open files (ulimit -n)"
    )
    return given


def trim_memory() -> None:
    """Give memory that is free back to the system now: many small pieces keep malloc from doing so. It takes some ms, without the GIL."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def bound_arenas() -> None:
    """Have glibc's malloc keep few arenas and give back what is free. Before threads are made; nothing where libc is another one."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, ARENAS)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_BYTES)
