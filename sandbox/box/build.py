"""The builder: turns {src}/job.json and {src}/files into {out}/artifact.  Runs in a build box, without device or network.

Prints what the compiler prints, with file and line as the user wrote them. Its exit code says why there is no artifact; all of it is
a claim, and a lie only makes a worse artifact.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from sandbox import wire
from sandbox.box import emulation
from sandbox.box.elf import NotAnObject
from sandbox.box.languages.registry import LANGUAGES

COMPILED_SUFFIXES = {".cu", ".cpp", ".cc", ".cxx", ".c"}
BUILT, REJECTED, UNSUPPORTED, ENTRY_NOT_FOUND, BROKEN = 0, 1, 3, 4, 5
ARTIFACT = "artifact"
TRANSLATED = "translated"  # apart from our own files, for a source may be called build.ninja


def main() -> int:
    """Build; usage: `build SRC OUT`. BROKEN where the fault is ours."""
    try:
        return build(Path(sys.argv[1]), Path(sys.argv[2]))
    except RecursionError:
        print("error: the source is nested too deeply to be read; make it flatter")
        return REJECTED
    except Exception:  # noqa: BLE001  the exit code must not look like the compiler's
        traceback.print_exc()
        return BROKEN


def build(source_dir: Path, out_dir: Path) -> int:
    """Translate, compile, check, and leave the artifact."""
    job = wire.decode((source_dir / "job.json").read_bytes())
    assert isinstance(job, wire.BuildJob)
    with tempfile.TemporaryDirectory(prefix="build-") as place:
        return _build(job, source_dir, out_dir, Path(place))


def _build(job: wire.BuildJob, source_dir: Path, out_dir: Path, work_dir: Path) -> int:
    try:
        _translate(job, source_dir / "files", work_dir / TRANSLATED)
    except emulation.Unsupported as refusal:
        print(f"{refusal.path}:{refusal.line}: error: {refusal.sentence}")
        return UNSUPPORTED
    if not _compile(job, source_dir / "files", work_dir):
        return REJECTED
    artifact = (work_dir / ARTIFACT).read_bytes()
    try:
        missing = LANGUAGES[job.language].check(artifact, job.entry)
    except NotAnObject as error:
        missing = f"the linker's result is no shared object: {error}"
    if missing is not None:
        print(f"error: {missing}")
        return ENTRY_NOT_FOUND
    (out_dir / ARTIFACT).write_bytes(artifact)
    return BUILT


def _translate(job: wire.BuildJob, source_dir: Path, work_dir: Path) -> None:
    for path in job.sources:
        target = work_dir / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(emulation.translate((source_dir / path).read_text("utf-8"), path), "utf-8")


def _compile(job: wire.BuildJob, source_dir: Path, work_dir: Path) -> bool:
    """Compile every source and link, through ninja; print the compiler's words in the order of the sources.

    The compiler stands in the directory of the sources as the user wrote them, so that it quotes those lines and not the translated ones.
    """
    language: Any = LANGUAGES[job.language]
    translated = str(work_dir / TRANSLATED)
    includes = [translated, *emulation.include_dirs(), *language.include_dirs()]
    flags = [
        *emulation.compile_flags(),
        "-fPIC",
        "-fdiagnostics-color=never",
        *(f"-D{name}" for name in language.defines()),
        *(f"-I{path}" if path == translated else f"-isystem{path}" for path in includes),
    ]
    compiled = [path for path in job.sources if Path(path).suffix in COMPILED_SUFFIXES]
    if not compiled:
        print(f"error: nothing to compile; name one of the files *{', *'.join(sorted(COMPILED_SUFFIXES))}")
        return False
    logs = [f"{index}.log" for index in range(len(compiled))]
    (work_dir / "build.ninja").write_text(_ninja(compiled, flags, language.libraries(), source_dir, work_dir), "utf-8")
    done = subprocess.run(
        [Path(sys.executable).parent / "ninja", "--quiet", "-k", "0"],
        cwd=work_dir,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    printed = "".join(_read(work_dir / log) for log in (*logs, "link.log"))
    if printed:
        print(printed, end="", flush=True)
    elif done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="", flush=True)
    return done.returncode == 0


def _ninja(sources: list[str], flags: list[str], libraries: list[str], source_dir: Path, work_dir: Path) -> str:
    """The build file. Names in it are ours; sources are checked paths and quoted for shell and ninja."""
    compiler, here = os.environ.get("CXX", "g++"), _quoted([str(work_dir)])
    compile_line = f"cd {_quoted([str(source_dir)])} && {compiler} {_quoted(flags)} -x c++ -c {here}/{TRANSLATED}/$source -o {here}/$out"
    lines = [
        f"rule compile\n  command = {compile_line} > {here}/$log 2>&1",
        f"rule link\n  command = {compiler} -shared $in -o $out {_quoted(libraries)} -pthread > link.log 2>&1",
    ]
    for index, source in enumerate(sources):
        lines.append(f"build {index}.o: compile\n  source = {_quoted([source])}\n  log = {index}.log")
    lines.append(f"build {ARTIFACT}: link {' '.join(f'{index}.o' for index in range(len(sources)))}")
    return "\n".join(lines) + "\n"


def _quoted(words: list[str]) -> str:
    return " ".join(shlex.quote(word) for word in words).replace("$", "$$")


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""


if __name__ == "__main__":
    raise SystemExit(main())
