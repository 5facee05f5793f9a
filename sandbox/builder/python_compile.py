"""Compiles the extensions that a Python module asks for, in the build box.

Texts that stand in the module word for word are compiled under its own name and lines, so that errors are found where they were written.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from sandbox.builder import build
from sandbox.compilers import requested_flags
from sandbox.compilers.build_result import BUILT, UNSUPPORTED
from sandbox.compilers.emulation import Unsupported
from sandbox.compilers.headers import Headers
from sandbox.languages import torch_extension
from sandbox.languages.python_extensions import Extension
from sandbox.protocol import wire
from sandbox.protocol.devices import device_info

SURE_CHARS = 20  # a shorter text may stand there for something else


class CompileFailed(RuntimeError):
    """An extension was not compiled. code: the builder's exit code; log: what the compiler said."""

    def __init__(self, name: str, code: int, log: str) -> None:
        super().__init__(f"load_inline: {name!r} was not compiled; the compiler's words are in the log")
        self.code, self.log = code, log


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Language:
    """A torch extension with flags of its own. user_path: errors may name that file too."""

    extension: Extension
    flags: requested_flags.RequestedFlags
    user_path: str

    def headers(self, job: wire.BuildJob, sources: Mapping[str, str], place: Path) -> Iterator[Headers | str]:
        for one in torch_extension.headers_of({**sources, self.user_path: ""}, place, job.device_kind):
            if isinstance(one, str):
                yield one
            else:
                include_dirs = (*one.include_dirs, *self.extension.include_dirs, *self.flags.include_dirs)
                yield dataclasses.replace(one, defines=self.flags.defines(one.defines), include_dirs=include_dirs)

    def libraries(self, device_kind: str) -> list[str]:
        return [*torch_extension.libraries(device_kind), *self.flags.libraries]

    def check(self, artifact: bytes, entry: str) -> str | None:
        return torch_extension.check(artifact, entry) if self.extension.is_module else None


class Compiling:
    """Provides extensions by compiling them. notes: what is said of each that was built; logs: what the compiler said of it; remarks: what
    their author should know."""

    def __init__(self, job: wire.BuildJob, source: Path, *, extensions: Path, work: Path) -> None:
        self._job, self._source, self._extensions, self._work = job, source, extensions, work
        self._user_path, self._text = job.sources[0], source.read_text("utf-8")
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
        files.mkdir(parents=True)
        if self._user_path not in extension.files:
            (files / self._user_path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._source, files / self._user_path)  # so that the compiler can quote it
        for name, texts in extension.files.items():
            (files / name).write_text("".join(placed for placed, _ in self._placed(texts, name)), "utf-8")
        job = dataclasses.replace(self._job, entry="", sources=tuple(extension.files))
        (place / "made").mkdir()
        flags = self._flags(extension)
        language = _Language(extension=extension, flags=flags, user_path=self._user_path)
        try:
            tried, note = build.compile_sources(job, language, files, place / "made", flags=flags.device)
        except Unsupported as refusal:
            raise CompileFailed(extension.name, UNSUPPORTED, self._refused(refusal, extension)) from None
        self.logs.append(tried.log)
        if tried.artifact is None or tried.code != BUILT:
            raise CompileFailed(extension.name, tried.code, tried.log)
        self.notes.append(note)
        self.remarks += note.remarks
        target.parent.mkdir(parents=True)
        target.write_bytes(tried.artifact)
        return target

    def _flags(self, extension: Extension) -> requested_flags.RequestedFlags:
        """The extension's flags; of those that do not count its author hears."""
        made_here = Path(tempfile.gettempdir()).resolve()
        flags = requested_flags.read(
            host=extension.cflags,
            device=extension.cuda_cflags,
            linker=extension.ldflags,
            emulated=device_info(self._job.device_kind).emulates_cuda,
            is_own=lambda directory: directory.resolve().is_relative_to(made_here),
        )
        self.remarks += flags.remarks(extension.name)
        return flags

    def _placed(self, texts: tuple[str, ...], name: str) -> Iterator[tuple[str, int]]:
        """The texts as they are compiled, each with its line in the module, or 0; a directive says where it stands."""
        own, elsewhere = 1, False
        for text in texts:
            line = self._line_of(text)
            directive = f'#line {line} "{self._quoted()}"\n' if line else f'#line {own} "{name}"\n' if elsewhere else ""
            yield f"{directive}{text}\n", line
            own += text.count("\n") + 1
            elsewhere = line > 0

    def _refused(self, refusal: Unsupported, extension: Extension) -> str:
        """The sentence, with the line of the module where that is known."""
        where, end = f"{refusal.path}:{refusal.line}", 0
        for placed, line in self._placed(extension.files.get(refusal.path, ()), refusal.path):
            begin, end = end + 1, end + placed.count("\n")
            if line and begin < refusal.line <= end:
                where = f"{self._user_path}:{line + refusal.line - begin - 1}"
        return f"{where}: error: {refusal.sentence}\n"

    def _line_of(self, text: str) -> int:
        """Where a text begins in the module; 0 where it does not stand there once, as one that was put together."""
        known = len(text.strip()) >= SURE_CHARS and self._text.count(text) == 1
        return self._text.count("\n", 0, self._text.index(text)) + 1 if known else 0

    def _quoted(self) -> str:
        return self._user_path.replace("\\", "\\\\").replace('"', '\\"')
