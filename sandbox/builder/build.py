"""The builder: turns {src}/job.json and {src}/files into {out}/artifact.  Runs in a build box, without device or network.

Prints what the compiler prints, with file and line as the user wrote them. Its exit code says why there is no artifact; all of it is
a claim, and a lie only makes a worse artifact.
"""

from __future__ import annotations

import ctypes
import importlib
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandbox.compilers import ptxas, requested_flags, steps
from sandbox.compilers.headers import Headers
from sandbox.compilers.requested_flags import RequestedFlags
from sandbox.compilers.steps import BROKEN, BUILT, ENTRY_NOT_FOUND, REJECTED, UNSUPPORTED, BuildAttempt, Unsupported, spoiled
from sandbox.fork_init import PR_SET_DUMPABLE
from sandbox.languages import implementation
from sandbox.protocol import box_modules, wire
from sandbox.protocol.box_files import fix_triton_key, leave
from sandbox.protocol.devices import device_info
from sandbox.protocol.elf import NotAnObject

COMPILED_SUFFIXES = {".cu", ".cpp", ".cc", ".cxx", ".c"}
ARTIFACT = "artifact"
NOTE = "note.json"
FALLBACK_LIMIT = 300
# Half of a build's time in `sandbox/profiles/limits.toml`: what it takes with torch's own headers must be left.
ATTEMPT_S = 90.0


def main() -> int:
    """Build; usage: `build SRC OUT`. BROKEN where the fault is ours."""
    fix_triton_key()
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # a submission has our uid: it may not write to /proc/PID/mem
    try:
        return build(Path(sys.argv[1]), Path(sys.argv[2]))
    except RecursionError:
        print("error: the source is nested too deeply to be read; make it flatter")
        return REJECTED
    except Exception:  # noqa: BLE001  the exit code must not look like the compiler's
        traceback.print_exc()
        return BROKEN


def build(source_dir: Path, out_dir: Path, find: Callable[[str, str], Any] = implementation) -> int:
    """Compile, check, and leave the artifact and a note."""
    job = wire.decode((source_dir / "job.json").read_bytes())
    assert isinstance(job, wire.BuildJob)
    language, files = find(job.language, job.language_module), source_dir / "files"
    with _place() as place:
        if not hasattr(language, "build"):
            tried, note = _compile(job, language, files, place, out_dir)
            return _leave(tried, note, out_dir)
        tried, note = language.build(job, files, place, out_dir)
        # From here on the submission has run in this box: what it reported, or where that is to go, may be anything.
        try:
            return _leave(tried, note, out_dir)
        except Exception as error:  # noqa: BLE001  whatever it is, the grader would be blamed for it
            failed = spoiled(error)
            with suppress(Exception):
                _say(failed.log)
            return failed.code


@contextmanager
def _place() -> Iterator[Path]:
    """An empty directory to build in. A submission may have left there what can't be removed, which changes no outcome."""
    directory = tempfile.TemporaryDirectory(prefix="build-", ignore_cleanup_errors=True)
    try:
        yield Path(directory.name)
    finally:
        with suppress(Exception):
            directory.cleanup()


def _leave(tried: BuildAttempt, note: wire.BuildNote, out_dir: Path) -> int:
    leave(out_dir, NOTE, wire.encode(note))
    _say(tried.log)
    if tried.artifact is not None:
        leave(out_dir, ARTIFACT, tried.artifact)
    return tried.code


def _say(text: str) -> None:
    """Print; what the output can't encode, such as half a surrogate pair, is escaped."""
    encoding = sys.stdout.encoding
    print(text.encode(encoding, "backslashreplace").decode(encoding), end="", flush=True)


def _compile(job: wire.BuildJob, language: Any, files: Path, place: Path, out_dir: Path) -> tuple[BuildAttempt, wire.BuildNote]:
    if not _compiled(job):
        log = f"error: nothing to compile; name one of the files *{', *'.join(sorted(COMPILED_SUFFIXES))}\n"
        return BuildAttempt(code=REJECTED, log=log), wire.BuildNote()
    try:
        tried, note = compile_sources(job, language, files, place, out_dir)
    except Unsupported as refusal:
        log = f"{refusal.path}:{refusal.line}: error: {refusal.sentence}\n"
        return BuildAttempt(code=UNSUPPORTED, log=log), wire.BuildNote()
    if tried.code != BUILT or not hasattr(language, "note"):
        return tried, note
    entry = language.note(job, {path: (files / path).read_text("utf-8") for path in job.sources})
    remarks = (*entry.remarks, *note.remarks)
    return tried, replace(entry, headers=note.headers, fallback=note.fallback, kernels=note.kernels, remarks=remarks)


def compile_sources(
    job: wire.BuildJob, language: Any, files: Path, place: Path, out_dir: Path, flags: RequestedFlags | None = None
) -> tuple[BuildAttempt, wire.BuildNote]:
    """Compile the sources of a job that lie in `files`; `place` is an empty directory; out_dir: of the builder; flags: None: those of the
    sources' directives. Unsupported where the device can't run them."""
    sources = {path: (files / path).read_text("utf-8") for path in job.sources}
    device = device_info(job.device_kind)
    flags = flags or requested_flags.directed(sources.values(), emulated=device.emulates_cuda)
    offered = language.headers(job, sources, new_directory(place / "headers"))
    ways = [way if isinstance(way, str) else flags.headers(way) for way in offered]
    standard = next(way.standard for way in ways if isinstance(way, Headers))
    emulated = box_modules.emulated() if device.emulates_cuda else None
    toolchain = emulated or importlib.import_module(device.compiler)
    compiler = toolchain.prepare(job, sources, files, place, (f"-std=c++{standard}", *flags.device))

    def attempt(headers: Headers, timeout_s: float | None) -> BuildAttempt:
        return _attempt(job, language, compiler, headers, new_directory(place / f"attempt-{headers.name}"), timeout_s)

    tried, note = first_that_does(ways, attempt, lambda note: leave(out_dir, NOTE, wire.encode(note)))
    note = replace(note, remarks=flags.remarks("flags"))
    if tried.code == REJECTED and emulated is not None:
        missing = emulated.unsupported(tried.log, "\n".join(sources.values()))
        if missing is not None:
            return replace(tried, code=UNSUPPORTED, log=f"{missing}{tried.log}"), note
    if tried.code != BUILT:
        return replace(tried, log=requested_flags.with_standard(tried.log, standard)), note
    ptx = [path.read_text("utf-8", "replace") for path in sorted((place / f"attempt-{note.headers}").rglob("*.ptx"))]
    return tried, replace(note, kernels=ptxas.kernels(tried.log, ptx))


def first_that_does(
    ways: Sequence[Headers | str],
    attempt: Callable[[Headers, float | None], BuildAttempt],
    announce: Callable[[wire.BuildNote], None] = lambda note: None,
) -> tuple[BuildAttempt, wire.BuildNote]:
    """Try kinds of headers in their order; the last one decides, for what the others do not carry is not the user's fault.

    Unless an earlier one proves that the last would say no as well. A sentence among them says why there is one less. The last one may
    take more time than there is: announce gets the note before.
    """
    *light, full = ways
    assert isinstance(full, Headers)
    fallback = ""
    for headers in light:
        if isinstance(headers, str):
            fallback = fallback or headers
            continue
        tried = attempt(headers, ATTEMPT_S)
        settled = headers.settles_entry if tried.lacks_entry else headers.settles(tried.log)
        if tried.code == BUILT or settled:
            return tried, wire.BuildNote(headers=headers.name, fallback=fallback[:FALLBACK_LIMIT])
        lines = [line.strip() for line in tried.log.splitlines() if line.strip()]
        shown = lines[0] if lines else "the compiler failed without a word"
        fallback = fallback or next((line for line in lines if "error: " in line), shown)
    note = wire.BuildNote(headers=full.name, fallback=fallback[:FALLBACK_LIMIT])
    announce(note)
    return attempt(full, None), note


def _attempt(
    job: wire.BuildJob, language: Any, compiler: steps.Compiler, headers: Headers, place: Path, timeout_s: float | None
) -> BuildAttempt:
    sources = list(enumerate(_compiled(job)))
    plan = [step for number, path in sources for step in compiler.compile(path, number, headers, place)]
    plan += compiler.link([steps.object_name(number) for number, _ in sources], language.libraries(job.device_kind), ARTIFACT, place)
    result = steps.run(plan, place, timeout_s=timeout_s)
    fallback = None if result.succeeded or result.log.startswith(steps.UNFINISHED) else compiler.fallback()
    if fallback is not None:
        return _attempt(job, language, fallback, headers, new_directory(place / "fallback"), timeout_s)
    if not result.succeeded:
        outputs = {name: step.source for step in plan for name in step.outputs if name.endswith(".ptx") and (place / name).exists()}
        ptx = {name: (source, (place / name).read_text("utf-8", "replace")) for name, source in outputs.items()}
        return BuildAttempt(code=REJECTED, log=ptxas.complaint(result.log, ptx))
    artifact = (place / ARTIFACT).read_bytes()
    try:
        left_out = headers.missing(artifact)
        missing = left_out or language.check(artifact, job.entry)
    except NotAnObject as error:
        left_out = missing = f"the linker's result is no shared object: {error}"
    if missing is not None:
        return BuildAttempt(code=ENTRY_NOT_FOUND, log=f"{result.log}error: {missing}\n", lacks_entry=left_out is None)
    return BuildAttempt(code=BUILT, log=result.log, artifact=artifact)


def _compiled(job: wire.BuildJob) -> list[str]:
    return [path for path in job.sources if Path(path).suffix in COMPILED_SUFFIXES]


def new_directory(directory: Path) -> Path:
    """Make a directory that is not there, and return it."""
    directory.mkdir()
    return directory


if __name__ == "__main__":
    raise SystemExit(main())
