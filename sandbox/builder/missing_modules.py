"""What an import that found no module comes to: a package that this grader does not have, or a file that was not submitted."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Sequence

from sandbox.compilers.build_result import IMPORT_FAILED, UNSUPPORTED

# What people write kernels with; those that are installed are named to who asks for another.
PACKAGES = (
    *("torch", "triton", "numba", "numpy", "einops", "cupy", "cuda.bindings"),
    *("cuda.tile", "cutlass", "tilelang", "helion", "flashinfer"),
)
REFERENCE = "reference"
LISTED_COUNT = 12
SIMILAR = 0.8  # of 1: two letters exchanged in a name of seven are 0.86


def explained(error: ModuleNotFoundError, own: Sequence[str]) -> tuple[int, str] | None:
    """The builder's exit code and a sentence; None where the exception names no module. own: names that the submission can import from
    its files and the problem's."""
    if not error.name:
        return None
    files = ", ".join(own[:LISTED_COUNT])
    top = error.name.partition(".")[0]
    if top == REFERENCE:
        return IMPORT_FAILED, f"no module '{REFERENCE}': a submission is not given the reference; it can import {files}"
    known = {name.partition(".")[0] for name in own}
    is_package = top in {name.partition(".")[0] for name in PACKAGES}
    similar = [] if is_package else _similar(error.name, own) or _similar(top, sorted(known))
    if top in known or similar:
        advice = f"; did you mean '{similar[0]}'?" if similar and similar[0] != error.name else ""
        return IMPORT_FAILED, f"no module '{error.name}'; the files can be imported as {files}{advice}"
    there = ", ".join(available())
    return (
        UNSUPPORTED,
        f"this grader does not have the Python module '{error.name}'; it has {there}; if it is a file of yours, submit it too",
    )


def _similar(name: str, names: Sequence[str]) -> list[str]:
    """The name that is most like this one, if one may be meant."""
    return difflib.get_close_matches(name, names, n=1, cutoff=SIMILAR)


def available() -> list[str]:
    """Which of PACKAGES are installed."""
    return [name for name in PACKAGES if _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
