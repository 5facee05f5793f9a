"""The host's compiler, g++: its words, the flags of includes, and the steps that compile a file and link a shared object."""

from __future__ import annotations

import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from sandbox.compilers.headers import Headers
from sandbox.compilers.steps import CompilerStep, object_name
from sandbox.protocol import elf

# An error costs g++ more with each one before it: ten thousand take longer than a build may.
ERROR_LIMIT = "-fmax-errors=20"


def compiler() -> list[str]:
    """The words that call it, and keep every call from listing errors without end."""
    return [*os.environ.get("CXX", "g++").split(), ERROR_LIMIT]


def include_flags(headers: Headers, *, device: Sequence[str]) -> list[str]:
    """Flags for the device's headers, then the language's. In neither the compiler warns."""
    # In two words, as nvcc takes it too.
    directories = [word for directory in (*device, *headers.include_dirs) for word in ("-isystem", directory)]
    return [*(f"-D{name}" for name in headers.defines), *directories]


def compile_step(source: Path, path: str, number: int, flags: Sequence[str], files: Path, place: Path) -> CompilerStep:
    """Plan g++ for the text in `source`, which is called `path` in the artifact, and stands in `files`."""
    fixed = ["-fPIC", "-fdiagnostics-color=never", f"-frandom-seed={path}"]
    command = (*compiler(), *flags, *fixed, "-x", "c++", "-c", str(source), "-o", str(place / object_name(number)))
    return CompilerStep(command=command, directory=files, outputs=(object_name(number),), source=path)


def link_steps(objects: Sequence[str], libraries: Sequence[str], output: str, place: Path) -> list[CompilerStep]:
    """Plan the link of a shared object; what is undefined in it is looked for when it is loaded.

    A library that is given by its path is only named in the object: an empty one of that name is linked. To read the names in torch's
    own takes longer than the link.
    """
    named, flags = [], []
    for library in libraries:
        name = None
        if library.startswith("/"):
            with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                name = elf.soname(data)
        if name is None:
            flags.append(library)
        else:
            named.append(f"named/{name}")
    empty = (*compiler(), "-shared", "-nostdlib", "-x", "assembler", os.devnull)
    steps = [
        CompilerStep(command=(*empty, f"-Wl,-soname,{Path(path).name}", "-o", path), directory=place, outputs=(path,)) for path in named
    ]
    # The shared libstdc++, before all: a static one, or the copies of its functions that torch exports, crash when a number is printed.
    needed = ["-Wl,--push-state,--no-as-needed", "-l:libstdc++.so.6", *named, "-Wl,--pop-state"] if named else []
    command = (*compiler(), "-shared", *objects, "-o", output, *needed, *flags, "-pthread")
    return [*steps, CompilerStep(command=command, directory=place, inputs=(*objects, *named), outputs=(output,))]
