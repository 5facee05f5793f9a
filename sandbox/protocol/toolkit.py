"""Packages that add headers and libraries to a CUDA toolkit: CUTLASS, and NVIDIA's own, which PyTorch brings."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

CUTLASS_VARIABLE = "CUTLASS_HOME"  # names CUTLASS's source, which goes before its package


def toolkit_packages(part: str) -> list[Path]:
    """Return their directories called `part`, "include" or "lib", as they lie on this side of a box."""
    cutlass, nvidia = ((spec and spec.submodule_search_locations) or () for spec in map(find_spec, ("cutlass_library", "nvidia")))
    home = os.environ.get(CUTLASS_VARIABLE)
    sources = [Path(home)] if home else [Path(package) / "source" for package in cutlass]
    roots = [*sources, *(source / "tools" / "util" for source in sources), *(path for at in nvidia for path in sorted(Path(at).iterdir()))]
    return [root / part for root in roots if (root / part).is_dir()]
