"""How the includes of a source are answered, and the seam between a language and the build.

A torch extension has two ways: light headers, which carry what most kernels use, and torch's own, which carry all and take ten times
as long. The builder takes the ways in their order; whatever the light one does not carry, the full one gets to judge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

LIGHT, FULL = "light", "full"


def nothing_missing(artifact: bytes) -> str | None:
    """For headers that can't leave a hole in an artifact."""
    return None


def nothing_settled(log: str) -> bool:
    """For headers whose errors prove nothing."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """One way to answer the includes of a job's sources.

    name: what the Build fact says: "" where there is one way only, else LIGHT or FULL.
    include_dirs: searched in this order, after the device's own.
    defines: macros, as `NAME` or `NAME=VALUE`.
    missing: why an artifact can't be used though it was linked, in a sentence; None: it can.
    requested_macros: names of those macros that the submission itself asks for.
    settles: whether a failed build's log proves that full headers would give an error too.
    settles_entry: whether an artifact without an entry would have none with full headers either.
    """

    name: str = ""
    include_dirs: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    requested_macros: frozenset[str] = frozenset()
    missing: Callable[[bytes], str | None] = nothing_missing
    settles: Callable[[str], bool] = nothing_settled
    settles_entry: bool = False
