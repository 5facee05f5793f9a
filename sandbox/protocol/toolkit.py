"""Packages that add headers and libraries to a CUDA toolkit: CUTLASS, and NVIDIA's own, which PyTorch brings.  Finds them, on both sides
of a box."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

CUTLASS_VARIABLE = "CUTLASS_HOME"  # names CUTLASS's source, which goes before its package


def toolkit_packages(part: str) -> list[Path]:
    """Return their directories called `part`: "include" or "lib"."""
    home = os.environ.get(CUTLASS_VARIABLE)
    sources = [Path(home)] if home else [package / "source" for package in _directories("cutlass_library")]
    roots = [root for source in sources for root in (source, source / "tools" / "util")]
    roots += [path for package in _directories("nvidia") for path in sorted(package.iterdir())]
    return [root / part for root in roots if (root / part).is_dir()]


def _directories(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [] if spec is None else list(map(Path, spec.submodule_search_locations or ()))
