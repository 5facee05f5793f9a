"""Compiles the extensions that a Python module asks for, in the build box.

Texts that stand in a submitted file word for word are compiled under its name and lines, so that errors are found where they were written.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sandbox.builder import build
from sandbox.compilers import requested_flags
from sandbox.compilers.build_result import BUILT, UNSUPPORTED, Unsupported
from sandbox.compilers.headers import Headers
from sandbox.languages import torch_extension
from sandbox.languages.python_extensions import Extension
from sandbox.protocol import wire
from sandbox.protocol.devices import device_info

HEADER_SUFFIXES, HEADER_LIMIT_BYTES = (".cuh", ".h", ".hpp", ".inl"), 1 << 20
SURE_CHARS = 20  # a shorter text may stand there for something else


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
        """Those of a torch extension, with its own directories and macros."""
        for way in torch_extension.headers_of({**dict.fromkeys(self.user_paths, ""), **sources}, place, job.device_kind):
            if isinstance(way, str):
                yield way
            else:
                include_dirs = (*way.include_dirs, *self.extension.include_dirs, *self.flags.include_dirs)
                defines, requested = self.flags.defines(way.defines), frozenset(self.flags.macros)
                yield dataclasses.replace(way, defines=defines, include_dirs=include_dirs, requested_macros=requested)

    def libraries(self, device_kind: str) -> list[str]:
        """Those of a torch extension, and its own."""
        return [*torch_extension.libraries(device_kind), *self.flags.libraries]

    def check(self, artifact: bytes, entry: str) -> str | None:
        """Return the sentence on a missing module; None where it is there."""
        return torch_extension.check(artifact, entry) if self.extension.is_module else None


class Compiling:
    """Provides extensions by compiling them. notes: what is said of each that was built; logs: what the compiler said of it; remarks: what
    their author should know."""

    def __init__(self, job: wire.BuildJob, sources: Path, *, extensions: Path, work: Path) -> None:
        self._job, self._extensions, self._work = job, extensions, work
        self._texts = {path: (sources / path).read_text("utf-8", "replace") for path in job.sources}
        self._compiler = os.environ.get("CXX")  # what a module sets there is for another machine
        self.notes: list[wire.BuildNote] = []
        self.logs: list[str] = []
        self.remarks: list[str] = []

    def provide(self, extension: Extension) -> Path:
        """The library of an extension; CompileFailed."""
        target = self._extensions / extension.path
        if target.exists():
            return target
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
            tried, note = build.compile_sources(job, language, files, place / "made", flags=flags.device)
        except Unsupported as refusal:
            raise CompileFailed(extension.name, UNSUPPORTED, self._refused(refusal, sources)) from None
        self.logs.append(tried.log)
        if tried.artifact is None or tried.code != BUILT:
            raise CompileFailed(extension.name, tried.code, tried.log)
        self.notes.append(note)
        self.remarks += note.remarks
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
