"""Builds extensions in both ways: as the builder does, and with torch's own headers, many in one file."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader_extensions.emulated_cuda import emulation
from grader_extensions.fast_torch_build.tests.torch_extensions.corpus import Extension
from sandbox.compilers import host_compiler
from sandbox.compilers.headers import Headers, torch_include_dirs
from sandbox.languages import torch_extension
from sandbox.protocol import wire
from tests.harness.build_jobs import write_job

ROOT = Path(__file__).parents[4]
TIMEOUT_S = 900
BUILDER = ("-m", "sandbox.builder.build")
FULL = (
    "import sys; from sandbox.builder import build; from grader_extensions.fast_torch_build import fast_headers; "
    "fast_headers.prepare = lambda *_, **__: 'not asked for'; sys.exit(build.main())"
)
FULL_BUILDER = ("-c", FULL)  # with torch's own headers, whatever the light ones carry
INCLUDE = re.compile(r"^\s*#\s*include\s*(<[^>]+>)", re.MULTILINE)
DEFINE = re.compile(r"^\s*#\s*define\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """The result of a builder. artifact: None where it refused."""

    log: str
    artifact: Path | None
    note: wire.BuildNote | None


def build(extension: Extension, folder: Path, *, device_kind: str = "emulated", program: Sequence[str] = BUILDER) -> Built:
    """Build an extension as in a build box."""
    return build_files(extension.files, folder, language="torch_extension", device_kind=device_kind, program=program)


def build_files(
    files: Mapping[str, str],
    folder: Path,
    *,
    language: str,
    device_kind: str = "emulated",
    architecture: str = "",
    program: Sequence[str] = BUILDER,
) -> Built:
    """Build a submission's files, by their paths, as in a build box: the builder's own process, a job and files."""
    source, out = folder / "src", folder / "out"
    entry = "forward" if language == "torch_extension" else "solve"
    write_job(source, files, language=language, entry=entry, device_kind=device_kind, architecture=architecture)
    out.mkdir()
    toolkit = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin"
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', os.defpath)}:{toolkit}"}
    command = [sys.executable, *program, str(source), str(out)]
    process = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_S
    )
    note = wire.decode((out / "note.json").read_bytes()) if (out / "note.json").exists() else None
    assert note is None or isinstance(note, wire.BuildNote)
    artifact = out / "artifact"
    return Built(log=process.stdout + process.stderr, artifact=artifact if artifact.exists() else None, note=note)


def build_together(extensions: Sequence[Extension], folder: Path) -> Path:
    """Build many extensions into one file with torch's own headers, which are then read once; each is a module of it."""
    folder.mkdir()
    headers = Headers(name="full", include_dirs=tuple(torch_include_dirs()), defines=torch_extension.DEFINES)
    (folder / "all.cpp").write_text(_one_text(extensions, folder), "utf-8")
    flags = [*emulation.compile_flags("20"), *host_compiler.include_flags(headers, device=emulation.include_dirs()), f"-I{folder}"]
    libraries = torch_extension.libraries("emulated")
    command = ["g++", *flags, "-w", "-shared", "all.cpp", "-o", "all.so", "-x", "none", *libraries]
    process = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False, timeout=TIMEOUT_S)
    assert process.returncode == 0, process.stderr[:4000]
    return folder / "all.so"


def module_of(extension: Extension) -> str:
    """Return the name of an extension's module among many."""
    return f"extension_{extension.name}"


def _one_text(extensions: Sequence[Extension], folder: Path) -> str:
    """Every source in a namespace of its own, after all headers that any of them includes; its macros end with it."""
    includes: dict[str, None] = {"<cuda_runtime.h>": None}
    parts = []
    for extension in extensions:
        body = []
        for path, text in extension.files.items():
            translated = folder / extension.name / path
            translated.parent.mkdir(parents=True, exist_ok=True)
            translated.write_text(emulation.translate(text, path), "utf-8")
            includes |= dict.fromkeys(INCLUDE.findall(translated.read_text("utf-8")))  # of CUDA's that torch brings, too
            if translated.suffix != ".h":
                body.append(f'#include "{extension.name}/{path}"')
        macros = {name for text in extension.files.values() for name in DEFINE.findall(text)}
        parts += [
            "#undef TORCH_EXTENSION_NAME",
            f"#define TORCH_EXTENSION_NAME {module_of(extension)}",
            f"namespace {module_of(extension)}_ {{",
            *body,
            "}",
            *(f"#undef {name}" for name in sorted(macros)),
        ]
    return "\n".join([*(f"#include {name}" for name in includes), *parts, ""])


def processors() -> int:
    """How many may compile at a time."""
    return len(os.sched_getaffinity(0))
