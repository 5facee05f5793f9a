"""g++: the compiler of the emulated device, with its sanitizer's flags and its precompiled headers.

`fast_torch_build/precompile.py` makes, once per environment, headers that every source begins with and an object with what every kernel
needs of the device (native/emu/once.h). They are read-only in every box. g++ takes such a header only where flags, macros
and compiler are the same, and reads its text where not: the artifact does the same either way. The sanitizer (native/emu/sanitizer) uses
the compiler's own instrumentation, whose hooks the device's headers define, and no precompiled headers.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from grader_extensions.emulated_cuda import emulation
from grader_extensions.emulated_cuda.conditionals import leading_includes
from sandbox.compilers.headers import LIGHT, Headers, torch_directory
from sandbox.compilers.host_compiler import compile_step, include_flags, link_steps
from sandbox.compilers.steps import Compiler, CompilerStep
from sandbox.protocol import wire
from sandbox.protocol.languages import CUDA_SUFFIXES

WITHOUT_ADDITIONS = "-DEMU_PLAIN"
PRECOMPILED_FORM = 4  # counts what `precompile` leaves there
PRECOMPILED_SUFFIX = ".gch"
# Words of torch's own headers, and those of their macros that the light ones do not always have.
NAMES_FILE, MACROS_FILE = "names", "macros"
# What a CUDA source begins with on the emulated device, and one that includes torch.
CUDA_HEADER, TORCH_HEADER = "cuda.h", "torch.h"
# The object, and what a source is compiled with that leaves those parts of the device to it.
DEVICE_SOURCE = Path(__file__).resolve().with_name("emulated_device.cpp")
LIGHT_NATIVE = Path(__file__).resolve().parents[1] / "fast_torch_build" / "native"
DEVICE_OBJECT, WITH_OBJECT = "device.o", "-DEMU_PRECOMPILED"
TORCH_INCLUDES = ("cuda_runtime.h", "cuda_bf16.h", "cuda_fp16.h", "grader/light.h", "grader/binding.h", "emu/torch/context.h")
HEADER_TEXTS = {CUDA_HEADER: "#include <cuda_runtime.h>\n", TORCH_HEADER: "".join(f"#include <{name}>\n" for name in TORCH_INCLUDES)}
TORCH_HEADERS = frozenset({"torch/extension.h", "torch/torch.h", "torch/all.h", "torch/types.h", "ATen/ATen.h"})
TRANSLATED = "translated"


def sanitizer_flags() -> list[str]:
    """Flags for every source, to follow the emulated device's own."""
    return [
        "-DEMU_SANITIZE",
        # Accesses stay as the kernel wrote them: at -O2 g++ forwards what was stored to a later load.
        *("-O1", "-fno-tree-sra", "-g1"),
        # One access for each that is written: not four in a vector, nor one of a loop before it, where the loop may not come to it.
        *("-fno-tree-vectorize", "-fno-peel-loops", "-fno-tree-loop-im"),
        # A helper inlined into the kernel leaves the kernel's own line next to it; templates are not declared inline.
        "-finline-small-functions",
        *("-fsanitize=thread", "--param", "tsan-instrument-func-entry-exit=0", "--param", "tsan-distinguish-volatile=1"),
        "-fsanitize=alignment,bounds",
        "-Wno-tsan",
    ]


@cache
def precompiled_directory() -> Path:
    """Where they lie: below the Python environment, by the state of our headers, of torch and of Python."""
    torch_version = (torch_directory() / "version.py").read_text("utf-8")  # its own account, CUDA's version among it
    digest = hashlib.sha256(f"{PRECOMPILED_FORM}\0{sys.version}\0{torch_version}\0{emulation.compile_flags()}".encode())
    root = Path(__file__).resolve().parents[1]
    for path in sorted((*emulation.NATIVE.rglob("*.h"), *LIGHT_NATIVE.rglob("*.h"), DEVICE_SOURCE)):
        digest.update(f"\0{path.relative_to(root)}\0".encode() + path.read_bytes())
    return Path(sys.prefix) / "share" / "grader-headers" / digest.hexdigest()[:16]


def precompiled_names(kind: str, ready: Path | None = None) -> frozenset[str]:
    """The NAMES or MACROS of torch's own headers; none where they were not listed."""
    path = (ready or precompiled_directory()) / kind
    return frozenset(path.read_text("utf-8").split("\n")) if path.exists() else frozenset()


def precompiled_flags(path: str, text: str, headers: Headers, ready: Path) -> list[str]:
    """Flags that put a compiled header before a source which begins with the same text anyhow; its artifact needs the object then."""
    name = CUDA_HEADER if path.endswith(CUDA_SUFFIXES) else ""
    if headers.name == LIGHT:
        included = TORCH_HEADERS.intersection(leading_includes(text.encode()))
        if included if path.endswith(CUDA_SUFFIXES) else "torch/extension.h" in included:
            name = TORCH_HEADER
    if not name or not (ready / f"{name}{PRECOMPILED_SUFFIX}").exists() or changes_device(headers.requested_macros):
        return []
    return [WITH_OBJECT, "-include", str(ready / name)]


def changes_device(macros: Collection[str]) -> bool:
    """Return whether a source with these macros may see another device than the object was made of: they rename something in its headers,
    or are reserved names, such as those that change what a container of the library looks like."""
    return any(name.startswith("_") for name in macros) or (bool(macros) and not _device_words().isdisjoint(macros))


@cache
def _device_words() -> frozenset[str]:
    return frozenset(word for path in emulation.NATIVE.rglob("*.h") for word in re.findall(r"\w+", path.read_text("utf-8")))


def precompiled_objects(ready: Path) -> list[str]:
    """Return the objects that every artifact is linked with."""
    return [str(ready / DEVICE_OBJECT)] if (ready / DEVICE_OBJECT).exists() else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """Compiles translated sources.

    files: the sources as submitted; translated: what g++ reads in their stead; ready: where precompiled headers and their object may
    lie. sanitize: every access is reported to the device's sanitizer. has_additions: the translation added second bodies
    (`block_loops.py`) or marks of local variables. plain: they are left out.
    """

    files: Path
    translated: Path
    sources: Mapping[str, str]
    ready: Path
    sanitize: bool = False
    has_additions: bool = False
    plain: bool = False

    def compile(self, path: str, number: int, headers: Headers, place: Path) -> list[CompilerStep]:
        """Plan g++; it stands next to the sources as the user wrote them, so that it quotes those lines and not the translated ones."""
        words = [f"-I{self.translated}", *flags(headers)]
        words += [WITHOUT_ADDITIONS] if self.plain else []  # with it no precompiled header fits
        if self.sanitize:  # precompiled headers were compiled without it
            words += [*sanitizer_flags(), f"-ffile-prefix-map={self.files}/="]
        else:
            words += precompiled_flags(path, self.sources[path], headers, self.ready)
        return [compile_step(self.translated / path, path, number, words, self.files, place)]

    def fallback(self) -> Compiler | None:
        """Without what the translation added, so that every error is of the source as submitted."""
        return replace(self, plain=True) if self.has_additions and not self.plain else None

    def link(self, objects: Sequence[str], libraries: Sequence[str], output: str, place: Path) -> list[CompilerStep]:
        """Plan g++."""
        shared = [] if self.sanitize else precompiled_objects(self.ready)
        return link_steps([*objects, *shared], libraries, output, place)


def prepare(job: wire.BuildJob, sources: Mapping[str, str], files: Path, place: Path, chosen: Sequence[str] = ()) -> Compiler:
    """Translate the sources of a job; Unsupported where the emulated device can't run them. chosen: for nvcc alone."""
    translated = place / TRANSLATED
    texts = emulation.translate_all(sources, job.entry, sanitize=job.sanitize)
    for path, text in texts.items():
        target = translated / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    added = job.sanitize or any(emulation.SECOND_BODY in text for text in texts.values())
    ready = precompiled_directory()
    return Emulated(files=files, translated=translated, sources=sources, ready=ready, sanitize=job.sanitize, has_additions=added)


def flags(headers: Headers) -> list[str]:
    """Return the flags of every source for the emulated device, and of its precompiled headers."""
    return [*emulation.compile_flags(headers.standard), *include_flags(headers, device=emulation.include_dirs())]
