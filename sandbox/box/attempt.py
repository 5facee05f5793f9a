"""How a build ended: what the builder's exit code says, and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass

# IMPORT_FAILED: a Python module could not be imported. Another build of it may end otherwise, so nobody remembers this one.
BUILT, REJECTED, UNSUPPORTED, ENTRY_NOT_FOUND, BROKEN, IMPORT_FAILED = 0, 1, 3, 4, 5, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """How a build ended, with one kind of headers. code: one of the above but BROKEN; artifact: None unless BUILT."""

    code: int
    log: str
    artifact: bytes | None = None
