"""g++: the compiler of the emulated device, of C++ files next to CUDA ones, and the linker of every device."""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox.compilers import emulation, precompiled, sanitizer
from sandbox.compilers.headers import Headers
from sandbox.compilers.steps import Compiler, CompilerStep, object_name
from sandbox.protocol import elf, wire

TRANSLATED = "translated"
# An error costs g++ more with each one before it: ten thousand take longer than a build may.
ERROR_LIMIT = "-fmax-errors=20"


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """Compiles translated sources.

    files: the sources as submitted; translated: what g++ reads in their stead; ready: where precompiled headers and their object may
    lie. sanitize: every access is reported to the device's sanitizer. has_additions: the translation added second bodies
    (`block_loops.py`) or marks of local variables (`local_variables.py`). plain: they are left out.
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
        if self.sanitize:  # precompiled headers were compiled without it
            words += [*sanitizer.flags(), f"-ffile-prefix-map={self.files}/="]
            words += [sanitizer.WITHOUT_LOCAL_VARIABLES] if self.plain else []
        else:
            words += ["-DEMU_WITHOUT_BLOCK_LOOPS"] if self.plain else []  # with it no precompiled header fits
            words += precompiled.prefix(path, self.sources[path], headers, self.ready)
        return [compile_step(self.translated / path, path, number, words, self.files, place)]

    def plainer(self) -> Compiler | None:
        """Without what the translation added, so that every error is of the source as submitted."""
        return replace(self, plain=True) if self.has_additions and not self.plain else None

    def link(self, objects: Sequence[str], libraries: Sequence[str], output: str, place: Path) -> list[CompilerStep]:
        """Plan g++."""
        shared = [] if self.sanitize else precompiled.objects(self.ready)
        return link_steps([*objects, *shared], libraries, output, place)


def prepare(job: wire.BuildJob, sources: Mapping[str, str], files: Path, place: Path, chosen: Sequence[str] = ()) -> Compiler:
    """Translate the sources of a job; Unsupported where the emulated device can't run them. chosen: there are no flags to choose."""
    translated = place / TRANSLATED
    texts = emulation.translate_all(sources, job.entry, sanitize=job.sanitize)
    for path, text in texts.items():
        target = translated / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    added = job.sanitize or any(emulation.SECOND_BODY in text for text in texts.values())
    ready = precompiled.directory()
    return Emulated(files=files, translated=translated, sources=sources, ready=ready, sanitize=job.sanitize, has_additions=added)


def flags(headers: Headers) -> list[str]:
    """What every source is compiled with for the emulated device, and what its precompiled headers were."""
    return [*emulation.compile_flags(), *include_flags(headers, device=emulation.include_dirs())]


def include_flags(headers: Headers, *, device: Sequence[str]) -> list[str]:
    """Flags for the device's headers, then the language's. In neither the compiler warns."""
    # In two words, as nvcc takes it too.
    directories = [word for directory in (*device, *headers.include_dirs) for word in ("-isystem", directory)]
    return [*(f"-D{name}" for name in headers.defines), *directories]


def compile_step(source: Path, path: str, number: int, flags: Sequence[str], files: Path, place: Path) -> CompilerStep:
    """Plan g++ for the text in `source`, which is called `path` in the artifact, and stands in `files`."""
    own = ["-fPIC", "-fdiagnostics-color=never", f"-frandom-seed={path}"]
    command = (*compiler(), *flags, *own, "-x", "c++", "-c", str(source), "-o", str(place / object_name(number)))
    return CompilerStep(command=command, directory=files, outputs=(object_name(number),), source=path)


def link_steps(objects: Sequence[str], libraries: Sequence[str], output: str, place: Path) -> list[CompilerStep]:
    """Plan the link of a shared object; what is undefined in it is looked for when it is loaded.

    A library that is given by its path is only named in the object: an empty one of that name is linked. To read the names in torch's
    own takes longer than the link.
    """
    named, others = [], []
    for library in libraries:
        name = _soname(Path(library)) if library.startswith("/") else None
        if name is None:
            others.append(library)
        else:
            named.append(f"named/{name}")
    empty = (*compiler(), "-shared", "-nostdlib", "-x", "assembler", os.devnull)
    steps = [CompilerStep(command=(*empty, f"-Wl,-soname,{Path(one).name}", "-o", one), directory=place, outputs=(one,)) for one in named]
    # The shared libstdc++, before all: a static one, or the copies of its functions that torch exports, crash when a number is printed.
    needed = ["-Wl,--push-state,--no-as-needed", "-l:libstdc++.so.6", *named, "-Wl,--pop-state"] if named else []
    command = (*compiler(), "-shared", *objects, "-o", output, *needed, *others, "-pthread")
    return [*steps, CompilerStep(command=command, directory=place, inputs=(*objects, *named), outputs=(output,))]


def _soname(library: Path) -> str | None:
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return elf.soname(data)


def compiler() -> list[str]:
    """The words that call it, and keep every call from listing errors without end."""
    return [*os.environ.get("CXX", "g++").split(), ERROR_LIMIT]
