"""What is compiled before any job, for the emulated device: the headers that every source begins with, read in a tenth of the time, and an
object with what every kernel needs of the device (native/emulated/emu/once.h).

Made once per environment by `sandbox/builder/precompile.py` from our own headers and torch's, and read-only in every box. g++ takes such a
header only where flags, macros and compiler are the same, and reads its text where not: what is built does the same either way.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Collection
from functools import cache
from pathlib import Path

from sandbox.compilers import emulation, torch_install
from sandbox.compilers.cuda_tokens import leading_includes
from sandbox.compilers.headers import LIGHT, Headers

FORM = 3  # counts what `precompile` leaves there
COMPILED = ".gch"
# Words of torch's own headers, and those of their macros that the light ones do not always have.
NAMES, MACROS = "names", "macros"
# What a CUDA source begins with on the emulated device, and one that includes torch.
CUDA, TORCH = "cuda.h", "torch.h"
# The object, and what a source is compiled with that leaves those parts of the device to it.
DEVICE_OBJECT, WITH_OBJECT = "device.o", "-DEMU_PRECOMPILED"
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
    for path in sorted((*native.rglob("*.h"), device_source())):
        digest.update(f"\0{path.relative_to(native)}\0".encode() + path.read_bytes())
    return Path(sys.prefix) / "share" / "grader-headers" / digest.hexdigest()[:16]


def device_source() -> Path:
    """What the object is made of."""
    return emulation.NATIVE.parent / "emulated_device.cpp"


def listed(kind: str, ready: Path | None = None) -> frozenset[str]:
    """The NAMES or MACROS of torch's own headers; none where they were not listed."""
    path = (ready or directory()) / kind
    return frozenset(path.read_text("utf-8").split("\n")) if path.exists() else frozenset()


def prefix(path: str, text: str, headers: Headers, ready: Path) -> list[str]:
    """Flags that put a compiled header before a source which begins with the same text anyhow; its artifact needs the object then."""
    name = CUDA if path.endswith(".cu") else ""
    if headers.name == LIGHT:
        included = TORCH_HEADERS.intersection(leading_includes(text.encode()))
        if included if path.endswith(".cu") else "torch/extension.h" in included:
            name = TORCH
    if not name or not (ready / f"{name}{COMPILED}").exists() or changes_device(headers.requested_macros):
        return []
    return [WITH_OBJECT, "-include", str(ready / name)]


def changes_device(macros: Collection[str]) -> bool:
    """Whether a source with these macros may see another device than the object was made of: they rename something in its headers, or
    are reserved names, such as those that change what a container of the library looks like."""
    return any(name.startswith("_") for name in macros) or (bool(macros) and not _device_words().isdisjoint(macros))


@cache
def _device_words() -> frozenset[str]:
    return frozenset(word for path in emulation.NATIVE.rglob("*.h") for word in re.findall(r"\w+", path.read_text("utf-8")))


def objects(ready: Path) -> list[str]:
    """What every artifact is linked with."""
    return [str(ready / DEVICE_OBJECT)] if (ready / DEVICE_OBJECT).exists() else []
