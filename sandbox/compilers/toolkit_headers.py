"""Where the open parts of an installed CUDA toolkit lie: the emulated device includes them as they are, and copies none."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path

# Thrust, CUB and libcu++; toolkits before 13 have them among their other headers.
OPEN = ("include/cccl", "include")
MARK = "cuda/std/span"


@cache
def toolkit() -> Path | None:
    """The toolkit's directory: CUDA_HOME, where nvcc on the PATH lies, or the usual place; None where there is none."""
    nvcc = shutil.which("nvcc")
    candidates = [os.environ.get("CUDA_HOME"), Path(nvcc).parent.parent if nvcc else None, "/usr/local/cuda"]
    return next((Path(one) for one in candidates if one and _open_headers(Path(one)) is not None), None)


@cache
def open_headers() -> Path | None:
    """The directory that holds `cuda/std` and `thrust`; None where no toolkit is installed."""
    found = toolkit()
    return None if found is None else _open_headers(found)


def has(name: str) -> bool:
    """Whether the toolkit has a header of this name, open or not."""
    found = toolkit()
    return found is not None and any((found / directory / name).is_file() for directory in OPEN)


def _open_headers(directory: Path) -> Path | None:
    return next((directory / one for one in OPEN if (directory / one / MARK).is_file()), None)
