"""Headers compiled before any job, for the emulated device: what every source begins with, read in a tenth of the time.

Made once per environment by `sandbox/builder/precompile.py` from our own headers and torch's, and read-only in every box. g++ takes such a
file only where flags, macros and compiler are the same, and reads the header's text where not: what is built does the same either way.
"""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

from sandbox.compilers import emulation, torch_install
from sandbox.compilers.cuda_tokens import leading_includes
from sandbox.compilers.headers import LIGHT, Headers

FORM = 2  # counts what `precompile` leaves there
COMPILED = ".gch"
# Words of torch's own headers, and those of their macros that the light ones do not always have.
NAMES, MACROS = "names", "macros"
# What a CUDA source begins with on the emulated device, and one that includes torch.
CUDA, TORCH = "cuda.h", "torch.h"
TEXT = {
    CUDA: "#include <cuda_runtime.h>\n",
    TORCH: "#include <cuda_runtime.h>\n#include <grader/light.h>\n#include <grader/binding.h>\n#include <emu/torch/context.h>\n",
}
TORCH_HEADERS = frozenset({"torch/extension.h", "torch/torch.h", "torch/all.h", "torch/types.h", "ATen/ATen.h"})


@cache
def directory() -> Path:
    """Where they lie: below the Python environment, by the state of our headers, of torch and of Python."""
    digest = hashlib.sha256(f"{FORM}\0{sys.version}\0{torch_install.version()}\0{emulation.compile_flags()}".encode())
    native = emulation.NATIVE.parent
    for path in sorted(native.rglob("*.h")):
        digest.update(f"\0{path.relative_to(native)}\0".encode() + path.read_bytes())
    return Path(sys.prefix) / "share" / "grader-headers" / digest.hexdigest()[:16]


def listed(kind: str, ready: Path | None = None) -> frozenset[str]:
    """The NAMES or MACROS of torch's own headers; none where they were not listed."""
    path = (ready or directory()) / kind
    return frozenset(path.read_text("utf-8").split("\n")) if path.exists() else frozenset()


def prefix(path: str, text: str, headers: Headers, ready: Path) -> list[str]:
    """Flags that put a compiled header before a source which begins with the same text anyhow."""
    name = CUDA if path.endswith(".cu") else ""
    if headers.name == LIGHT:
        included = TORCH_HEADERS.intersection(leading_includes(text.encode()))
        if included if path.endswith(".cu") else "torch/extension.h" in included:
            name = TORCH
    return ["-include", str(ready / name)] if name and (ready / f"{name}{COMPILED}").exists() else []
