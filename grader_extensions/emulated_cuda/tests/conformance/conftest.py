"""Builds programs for the emulated device as a builder does: translated files in a directory, g++ beside the originals."""

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import emulation, gcc
from sandbox.compilers.headers import Headers

Build = Callable[..., Path]


def kernel_file(text: str, folder: Path) -> Path:
    """Write a source file of this text."""
    path = folder / "kernel.cu"
    path.write_text(text)
    return path


def compile_emulated(source: Path | str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Translate a file, or a text as `kernel.cu`, into `folder` and compile it there to `program`."""
    source = kernel_file(source, folder) if isinstance(source, str) else source
    translated = folder / "translated" / source.name
    translated.parent.mkdir(exist_ok=True)
    translated.write_text(emulation.translate(source.read_text(), source.name))
    ready = gcc.precompiled_directory()
    prefix = gcc.precompiled_flags(source.name, source.read_text(), Headers(), ready)
    objects = [word for path in gcc.precompiled_objects(ready) for word in ("-x", "none", path)]
    command = ["g++", *gcc.flags(Headers()), *prefix, str(translated), *objects, "-o", str(folder / "program"), *flags]
    return subprocess.run(command, cwd=source.parent, capture_output=True, text=True, check=False, timeout=300)


def program_of(source: Path | str, folder: Path, *flags: str) -> Path:
    """The program that a file or a text is compiled to in `folder`."""
    outcome = compile_emulated(source, folder, *flags)
    assert outcome.returncode == 0, outcome.stderr
    return folder / "program"


def run(program: Path, *words: object, **environment: object) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    variables = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    return subprocess.run([str(program), *map(str, words)], env=variables, capture_output=True, text=True, check=False, timeout=300)


def timed_run(program: Path) -> tuple[str, float]:
    """Return the output of a program, and the processor seconds of all its threads, start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = run(program).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return printed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
