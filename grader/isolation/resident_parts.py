"""Which directories of a toolchain no box needs: of these the copy in memory has empty ones.  Pure."""

from __future__ import annotations

import re
import sys
from pathlib import Path

# What compilers, Python, torch, Triton and CUDA read; the rest of /usr/lib is of other programs.
_LIBRARIES = re.compile(
    r"bfd-plugins|binfmt|ccache|clang.*|compat-ld|cuda.*|gcc.*|gold-ld|llvm.*|locale|nvidia.*|pkgconfig|python3.*|ssl|wsl|[a-z0-9_]+-linux-gnu.*"
)
_NEVER = frozenset({"/usr/share", "/usr/src", "/usr/games", "/usr/local/share", "/usr/local/src", "/usr/local/games"})
_IN_SITE_PACKAGES = ("playwright", "torch/test", "pip", "mypy")


def left_out(path: str) -> bool:
    """Whether a directory stays empty in the copy."""
    if path in _NEVER or path in _base_only():
        return True
    parent, _, name = path.rpartition("/")
    if parent == "/usr/lib":
        return _LIBRARIES.fullmatch(name) is None
    return "/site-packages/" in path and path.endswith(tuple(f"/site-packages/{one}" for one in _IN_SITE_PACKAGES))


def _base_only() -> tuple[str, ...]:
    """Of the Python that a virtual environment is made from: its own packages, which the environment does not see, and its tests."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = Path(sys.base_prefix).resolve() / "lib" / version
    packages = () if sys.prefix == sys.base_prefix else (str(library / "site-packages"),)
    return (*packages, str(library / "test"))
