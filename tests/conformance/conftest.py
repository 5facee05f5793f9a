"""Builds programs for the emulated device as a builder does: translated files in a directory, g++ beside the originals."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.compilers import emulation, gcc
from sandbox.compilers.headers import Headers

Build = Callable[..., Path]


def compile_emulated(source: Path, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Translate `source` into `folder` and compile it there to `program`."""
    translated = folder / "translated" / source.name
    translated.parent.mkdir(exist_ok=True)
    translated.write_text(emulation.translate(source.read_text(), source.name))
    ready = gcc.precompiled_directory()
    prefix = gcc.precompiled_flags(source.name, source.read_text(), Headers(), ready)
    objects = [word for path in gcc.precompiled_objects(ready) for word in ("-x", "none", path)]
    command = ["g++", *gcc.flags(Headers()), *prefix, str(translated), *objects, "-o", str(folder / "program"), *flags]
    return subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False, timeout=300)


def program_of(source: Path | str, folder: Path, *flags: str) -> Path:
    """The program that a file, or a text as `kernel.cu`, is compiled to in `folder`."""
    if isinstance(source, str):
        path = folder / "kernel.cu"
        path.write_text(source)
    else:
        path = source
    done = compile_emulated(path, folder, *flags)
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """`program_of` in the test's directory."""
    return lambda source, *flags: program_of(source, tmp_path, *flags)


def compile_sanitized(source: Path, folder: Path, *flags: str) -> Path:
    """Compile `source` for the device's sanitizer, and link it, in two steps: the linker gets none of the sanitizer's flags."""
    translated, program = folder / "translated" / source.name, folder / "program"
    translated.parent.mkdir(exist_ok=True)
    translated.write_text(emulation.translate(source.read_text(), source.name, sanitize=True))
    includes = [word for directory in emulation.include_dirs() for word in ("-isystem", directory)]
    command = ["g++", *emulation.compile_flags(), *includes, *gcc.sanitizer_flags(), *flags, "-c", str(translated), "-o", f"{program}.o"]
    subprocess.run(command, cwd=source.parent, check=True, timeout=300)
    subprocess.run(["g++", f"{program}.o", "-o", str(program), "-pthread"], check=True, timeout=300)
    return program
