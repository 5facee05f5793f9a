"""Imports a submitted module in the build box, in a process of its own, and compiles the extensions that it asks for.

Usage: `python_import PLACE REPORT MAIN OUT`; PLACE has job.json and module/sources, in which MAIN is the path of the main file; OUT is the
builder's. What it leaves in REPORT is a claim: it shares its process with the submission. Texts of extensions that stand in a submitted
file word for word are compiled under its name and lines, so that errors are found where they were written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import inspect
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from sandbox.builder import build
from sandbox.compilers import requested_flags
from sandbox.compilers.headers import Headers
from sandbox.compilers.steps import BUILT, ENTRY_NOT_FOUND, IMPORT_FAILED, REJECTED, UNSUPPORTED, Unsupported
from sandbox.languages import python_module, python_stubs, torch_extension
from sandbox.languages.python_extensions import Extension, undeclared
from sandbox.protocol import box_modules, wire
from sandbox.protocol.devices import device_info

# What people write kernels with: a file that is named nearly so is not meant.
PACKAGES = frozenset(["torch", "triton", "numba", "numpy", "einops", "cupy", "cuda", "cutlass", "tilelang", "helion", "flashinfer"])
REFERENCE = "reference"
LISTED_COUNT = 12
SIMILARITY = 0.8  # of 1: two letters exchanged in a name of seven are 0.86
# No GPU is in a build box, so whatever else fails there when a module is imported may not where there is one.
MISTAKES, OF_GPU = (SyntaxError, ImportError, NameError), re.compile("cuda|gpu|nvidia", re.IGNORECASE)
HEADER_SUFFIXES, HEADER_LIMIT_BYTES = (".cuh", ".h", ".hpp", ".inl"), 1 << 20
SURE_CHARS = 20  # a shorter text may stand there for something else
UNBUILT_CHARS = 300  # of the error of an extension that the module goes on without


class CompileFailed(RuntimeError):
    """An extension was not compiled. code: the builder's exit code; log: what the compiler said."""

    def __init__(self, name: str, code: int, log: str) -> None:
        super().__init__(f"load_inline: {name!r} was not compiled; the compiler's words are in the log")
        self.code, self.log = code, log


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionLanguage:
    """A torch extension with flags of its own. user_paths: errors may name these files too."""

    extension: Extension
    flags: requested_flags.RequestedFlags
    user_paths: tuple[str, ...]

    def headers(self, job: wire.BuildJob, sources: Mapping[str, str], place: Path) -> Iterator[Headers | str]:
        """Those of a torch extension, with its own directories."""
        for way in torch_extension.headers_of({**dict.fromkeys(self.user_paths, ""), **sources}, place, job.device_kind):
            added = self.extension.include_dirs
            yield way if isinstance(way, str) else dataclasses.replace(way, include_dirs=(*way.include_dirs, *added))

    def libraries(self, device_kind: str) -> list[str]:
        """Those of a torch extension, and its own."""
        return [*torch_extension.libraries(device_kind), *self.flags.libraries]

    def check(self, artifact: bytes, entry: str) -> str | None:
        """Return the sentence on a missing module; None where it is there."""
        return torch_extension.check(artifact, entry) if self.extension.is_module else None


class Compiling:
    """Provides extensions by compiling them. notes: what is said of each that was built; logs: what the compiler said of it; remarks: what
    their author should know; failed: of those that did not build, by name, what the compiler said."""

    def __init__(self, job: wire.BuildJob, sources: Path, *, extensions: Path, work: Path, out_dir: Path) -> None:
        self._job, self._extensions, self._work, self._out_dir = job, extensions, work, out_dir
        self._texts = {path: (sources / path).read_text("utf-8", "replace") for path in job.sources}
        self._compiler = os.environ.get("CXX")  # what a module sets there is for another machine
        self.notes: list[wire.BuildNote] = []
        self.logs: list[str] = []
        self.remarks: list[str] = []
        self.failed: dict[str, str] = {}

    def provide(self, extension: Extension) -> Path:
        """The library of an extension; CompileFailed."""
        try:
            path = self._compile(extension)
        except CompileFailed as failed:
            self.failed[extension.name] = failed.log
            raise
        self.failed.pop(extension.name, None)  # at another try, with other flags
        return path

    def unbuilt(self) -> str:
        """Name the extensions that did not build, with the first error; "" where there are none."""
        errors = (line for log in self.failed.values() for line in log.splitlines() if "error: " in line)
        names = ", ".join(map(repr, self.failed))
        return f"{names} ({next(errors, 'the compiler failed without a word')[:UNBUILT_CHARS]})" if names else ""

    def _compile(self, extension: Extension) -> Path:
        target = self._extensions / extension.path
        if target.exists():
            return target
        if (name := undeclared(extension)) is not None:
            path, line = next((place for texts in extension.files.values() for place in map(self._place_of, texts) if place[1]), ("", 0))
            sentence = f"load_inline's functions names '{name}', which cpp_sources does not declare; add its declaration there"
            raise CompileFailed(extension.name, REJECTED, f"{path}:{line}: ".removeprefix(":0: ") + f"error: {sentence}\n")
        place = self._work / f"{len(self.logs)}-{extension.key}"
        files = place / "files"
        sources = {self._free_name(name, texts): texts for name, texts in extension.files.items()}
        placed = {name: "".join(text for text, *_ in self._placed(texts, name)) for name, texts in sources.items()}
        headers = {name: text for name, text in _headers_in(extension.include_dirs) if name not in sources}
        # The submission's files, so that the compiler can quote them; and headers next to the sources, for the emulated device compiles no
        # header that it has not translated.
        for path, text in (self._texts | placed | headers).items():
            (files / path).parent.mkdir(parents=True, exist_ok=True)
            (files / path).write_text(text, "utf-8")
        job = dataclasses.replace(self._job, entry="", sources=(*sources, *headers))
        (place / "made").mkdir()
        # The extension's flags; of those that do not count its author hears.
        made_here = Path(tempfile.gettempdir()).resolve()
        flags = requested_flags.read(
            host=extension.cflags,
            device=extension.cuda_cflags,
            linker=extension.ldflags,
            emulated=device_info(self._job.device_kind).emulates_cuda,
            is_own=lambda directory: directory.resolve().is_relative_to(made_here),
        )
        self.remarks += flags.remarks(extension.name)
        language = ExtensionLanguage(extension=extension, flags=flags, user_paths=tuple(self._texts))
        os.environ.pop("CXX", None)
        os.environ |= {} if self._compiler is None else {"CXX": self._compiler}
        try:
            tried, note = build.compile_sources(job, language, files, place / "made", self._out_dir, flags)
        except Unsupported as refusal:
            raise CompileFailed(extension.name, UNSUPPORTED, self._refused(refusal, sources)) from None
        self.logs.append(tried.log)
        if tried.artifact is None or tried.code != BUILT:
            raise CompileFailed(extension.name, tried.code, tried.log)
        self.notes.append(note)
        target.parent.mkdir(parents=True)
        target.write_bytes(tried.artifact)
        return target

    def _placed(self, texts: tuple[str, ...], name: str) -> Iterator[tuple[str, str, int]]:
        """The texts as they are compiled, each with its file and line in the submission, or "" and 0; a directive says where it stands."""
        line_in_file, elsewhere = 1, False
        for text in texts:
            path, line = self._place_of(text)
            if (path, line) == (name, line_in_file):  # a file that is compiled as it is
                directive = ""
            else:
                directive = f'#line {line} "{_quoted(path)}"\n' if line else f'#line {line_in_file} "{name}"\n' if elsewhere else ""
            yield f"{directive}{text}\n", path, line
            line_in_file += text.count("\n") + 1
            elsewhere = bool(directive) and line > 0

    def _free_name(self, name: str, texts: tuple[str, ...]) -> str:
        """A name for a file of an extension: its own, unless another file of the submission has that."""
        return f"inline_{name}" if name in self._texts and texts != (self._texts[name],) else name

    def _refused(self, refusal: Unsupported, sources: Mapping[str, tuple[str, ...]]) -> str:
        """The sentence, with the line of the submission where that is known."""
        where, end = f"{refusal.path}:{refusal.line}", 0
        for placed, path, line in self._placed(sources.get(refusal.path, ()), refusal.path):
            begin, end = end + 1, end + placed.count("\n")
            if line and begin < refusal.line <= end:
                where = f"{path}:{line + refusal.line - begin - 1}"
        return f"{where}: error: {refusal.sentence}\n"

    def _place_of(self, text: str) -> tuple[str, int]:
        """The file and line where a text begins; "" and 0 where it does not stand in one place, as one that was put together."""
        paths = [path for path, whole in self._texts.items() if text in whole] if len(text.strip()) >= SURE_CHARS else []
        if len(paths) != 1 or self._texts[paths[0]].count(text) != 1:
            return "", 0
        whole = self._texts[paths[0]]
        return paths[0], whole.count("\n", 0, whole.index(text)) + 1


def _headers_in(directories: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The headers that lie directly in these directories, the first of each name."""
    names: set[str] = set()
    for directory in map(Path, directories):
        for path in sorted(directory.iterdir()) if directory.is_dir() else ():
            if path.suffix in HEADER_SUFFIXES and path.name not in names and path.is_file() and path.stat().st_size <= HEADER_LIMIT_BYTES:
                names.add(path.name)
                yield path.name, path.read_text("utf-8", "replace")


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')


def missing_module(error: ModuleNotFoundError, modules: Sequence[str]) -> tuple[int, str] | None:
    """The builder's exit code and a sentence; None where the exception names no module. modules: names that the submission can import from
    its files and the problem's."""
    if not error.name:
        return None
    files = ", ".join(modules[:LISTED_COUNT])
    top = error.name.partition(".")[0]
    if top == REFERENCE:
        return IMPORT_FAILED, f"no module '{REFERENCE}': a submission is not given the reference; it can import {files}"
    packages = {name.partition(".")[0] for name in modules}
    close = partial(difflib.get_close_matches, n=1, cutoff=SIMILARITY)
    similar = [] if top in PACKAGES else close(error.name, modules) or close(top, sorted(packages))
    if top in packages or similar:
        advice = f"; did you mean '{similar[0]}'?" if similar and similar[0] != error.name else ""
        return IMPORT_FAILED, f"no module '{error.name}'; the files can be imported as {files}{advice}"
    return UNSUPPORTED, f"this grader does not have the Python module '{error.name}'; if it is a file of yours, submit it too"


def main() -> None:
    """Import, look for the entry, report; the process ends at once, whatever threads the module has left."""
    place, report, main_path, out_dir = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4])
    job = wire.decode((place / "job.json").read_bytes())
    assert isinstance(job, wire.BuildJob)
    # Import the main file: exit code, log, and what is said of its extensions.
    module = python_module.ModuleDirectory(directory=place / "module")
    compiling = Compiling(job, module.sources, extensions=module.extensions, work=place / "work", out_dir=out_dir)
    text = module.text()
    remarks = compiling.remarks
    python_stubs.install(text, remarks.append)
    if device_info(job.device_kind).emulates_cuda:
        box_modules.emulated().install(text, remarks.append)
    elif device_info(job.device_kind).needs_gpu_access:
        python_stubs.answer_for_gpu(text, job.architecture)
    python_module.install_extensions(text, compiling.provide)
    try:
        # From here on untrusted code has run in this process.
        code, log = _imported(job, module, main_path)
    except BaseException as error:  # noqa: BLE001  SystemExit too: whatever the module's own code throws
        code, log = _failed(error, module, job.device_kind)
    unbuilt = compiling.unbuilt() if code == BUILT else ""
    note = dataclasses.replace(_joined(compiling.notes), remarks=tuple(dict.fromkeys(remarks)), unbuilt=unbuilt)
    log = f"{''.join(compiling.logs) if code == BUILT else ''}{log}"
    report.write_text(json.dumps({"code": code, "log": log, "note": wire.encode(note).decode()}), "utf-8")
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0)


def _failed(error: BaseException, module: python_module.ModuleDirectory, device_kind: str) -> tuple[int, str]:
    failed = next((cause for cause in chain(error) if isinstance(cause, CompileFailed)), None)
    if failed is not None:
        at = python_module.where(failed, module.sources)
        return failed.code, failed.log + (f"{at}: note: asked for here\n" if at else "")
    if isinstance(error, ModuleNotFoundError):
        modules = python_module.own_modules(module.sources, module.modules)
        if (explained := missing_module(error, modules)) is not None:
            return explained[0], python_module.complaint(error, module.sources, explained[1])
    log = python_module.complaint(error, module.sources)
    if not device_info(device_kind).needs_gpu_access or _mistaken(error, module):
        return IMPORT_FAILED, log
    note = "note: there is no GPU where a module is built; it is imported again where there is one\n"
    return BUILT, f"{log.replace('error: ', 'note: ', 1)}{note}"


def _mistaken(error: BaseException, module: python_module.ModuleDirectory) -> bool:
    """Return whether it would be raised where there is a GPU, too: a mistake, and not made while something else was handled. A name that
    its file binds may be bound under a condition."""
    path = module.sources / python_module.where(error, module.sources).rpartition(":")[0]
    if isinstance(error, NameError) and path.is_file() and error.name in python_module.defined_names(path.read_text("utf-8", "replace")):
        return False
    missing_library = isinstance(error, ImportError) and OF_GPU.search(str(error)) is not None
    return all(isinstance(cause, MISTAKES) for cause in chain(error)) and not missing_library


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those in whose handling it was raised."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _imported(job: wire.BuildJob, module: python_module.ModuleDirectory, main_path: str) -> tuple[int, str]:
    imported = python_module.import_main(module.sources / main_path, module.sources, module.modules)
    try:
        entry = python_module.find_entry(imported, job.entry)
    except python_module.NoEntry as missing:
        return ENTRY_NOT_FOUND, f"{main_path}: error: {missing}\n"
    if inspect.isclass(entry):
        try:
            entry()  # it may compile, too
        except Exception as error:
            # What else it takes to be made may be there in the run box only.
            if any(isinstance(cause, CompileFailed) for cause in chain(error)):
                raise
    return BUILT, ""


def _joined(notes: list[wire.BuildNote]) -> wire.BuildNote:
    if not notes:
        return wire.BuildNote()
    fallback = next((note.fallback for note in notes if note.fallback), "")
    headers = "full" if any(note.headers == "full" for note in notes) else notes[0].headers
    return wire.BuildNote(headers=headers, fallback=fallback, kernels=tuple(kernel for note in notes for kernel in note.kernels))


if __name__ == "__main__":
    main()
