"""How the includes of a source are answered, and the seam between a language and the build.

A torch extension has two ways: light headers, which carry what most kernels use, and torch's own, which carry all and take ten times
as long. The builder takes the ways in their order; whatever the light one does not carry, the full one gets to judge.
"""

from __future__ import annotations

import importlib.util
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LIGHT, FULL = "light", "full"


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """Way to answer the includes of a job's sources.

    standard: of C++; nvcc's own where the language has none.
    name: what the Build fact says: "" where there is one way only, else LIGHT or FULL.
    include_dirs: searched in this order, after the device's own.
    defines: macros, as `NAME` or `NAME=VALUE`.
    missing: why an artifact can't be used though it was linked, in a sentence; None: it can.
    requested_macros: names of those macros that the submission itself asks for.
    settles: whether a failed build's log proves that full headers would give an error too.
    settles_entry: whether an artifact without an entry would have none with full headers either.
    """

    standard: str = "17"
    name: str = ""
    include_dirs: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()
    requested_macros: frozenset[str] = frozenset()
    missing: Callable[[bytes], str | None] = lambda artifact: None
    settles: Callable[[str], bool] = lambda log: False
    settles_entry: bool = False


def torch_directory() -> Path:
    """The package's directory."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def torch_include_dirs() -> list[str]:
    """torch's headers and Python's."""
    root = torch_directory() / "include"
    return [str(root), str(root / "torch/csrc/api/include"), sysconfig.get_path("include")]
