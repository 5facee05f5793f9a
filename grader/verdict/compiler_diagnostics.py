"""Reads what a compiler's log says of single lines: file, line, column, severity and message.  Pure.

The log is untrusted: records of it are for people and for programs that search, they decide nothing, and all that is in them is bounded
and plain. What a compiler says of files that are not the submission's is kept only where it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import islice

from sandbox.protocol.wire import LOG_LIMIT_BYTES

DIAGNOSTIC_LIMIT = 50
FILE_LIMIT_CHARS, MESSAGE_LIMIT_CHARS = 200, 400
READ_LIMIT = 1000  # of records, before the most important are taken
LINE_LIMIT, LINE_LIMIT_CHARS = 5000, 2000  # of the log; what honest compilers print in 64 KiB has fewer

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_FILE, _NUMBER = r"(?P<file>[^\s:()\"'|][^:()\"'|]{0,300}?)", "[0-9]{1,9}"
_SEVERITY = (
    r"(?P<severity>(?:fatal |catastrophic |internal |command-line |internal compiler )?(?:error|warning|note|remark)|sorry, unimplemented)"
)
_PLACES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # nvcc: `kernel.cu(12): error #20-D: ...`
        rf"{_FILE}\((?P<line>{_NUMBER})(?:,(?P<column>{_NUMBER}))?\): {_SEVERITY}(?: #[\w-]{{1,20}})?: (?P<message>.*)",
        # g++, the emulation, and the builder of an exception: `kernel.cu:12:5: error: ...`, `kernel.py:12: error: ...`
        rf"{_FILE}:(?P<line>{_NUMBER}):(?:(?P<column>{_NUMBER}):)? {_SEVERITY}: (?P<message>.*)",
        # Python: `kernel.py:12: DeprecationWarning: ...`
        rf"{_FILE}:(?P<line>{_NUMBER}): (?P<message>\w{{0,80}}(?P<severity>Warning): .*)",
        # a linker: `/usr/bin/ld: kernel.cu:(.text+0x1a): undefined reference to ...`
        rf"(?:\S{{0,200}}\bld\b\S{{0,20}}: )?{_FILE}:(?:\([^)]{{0,200}}\)|(?P<line>{_NUMBER})): "
        r"(?P<message>(?:undefined reference|multiple definition).*)",
        # a file, or a program: `kernel.py: error: ...`, `collect2: error: ...`
        rf"{_FILE}: {_SEVERITY}: (?P<message>.*)",
        # a tool of the toolkit: `ptxas error   : ...`
        r"(?:nvcc|ptxas|nvlink|cicc|fatbinary|cudafe\+\+) (?P<severity>error|fatal|warning)\s{0,20}: (?P<message>.*)",
        rf"{_SEVERITY}: (?P<message>.*)",
    )
)
_DEFINED_TWICE = re.compile(
    rf"(?:^|ld: ){_FILE.replace('file', 'second')}:\([^)]{{0,200}}\): multiple definition of [`‘'](?P<name>[^'’]{{1,200}})['’]; "
    rf"{_FILE.replace('file', 'first')}:.*first defined here"
)
_MARKS = re.compile(r"error|warning|note|remark|fatal|sorry|undefined|multiple", re.IGNORECASE)  # one of these in each of them
# Where a template was used whose error is in another file: g++ says it before, nvcc after.
_REQUIRED_FROM = re.compile(rf"{_FILE}:(?P<line>{_NUMBER}):(?:(?P<column>{_NUMBER}):)?   required from here")
_AT_LINE = re.compile(rf".* at line (?P<line>{_NUMBER}) of (?P<file>\S{{1,300}})")
_FRAME = re.compile(rf"\s{{0,8}}File \"(?P<file>[^\"]{{1,300}})\", line (?P<line>{_NUMBER})(?P<numba>:)?")
_RAISED = re.compile(r"(?P<message>[A-Za-z_][\w.]{0,100}(?:Error|Exception)\b.*)")
_TRITON = re.compile(rf".*\bat {_NUMBER}:{_NUMBER}:\s*")
_CARET = re.compile(r"\s*\^+\s*")
# Below what directory a build box has the submission's files, and those of the problem.
_OWN = re.compile(r"(?:^|/)(?:src/files|src/modules|module/sources|module/modules|\.\./sources|\.\./modules)/(?P<rest>.+)")
_SOURCE_NAME = re.compile(r".+\.(?:cu|cuh|c|cc|cpp|cxx|h|hh|hpp|inl|py|ptx)", re.IGNORECASE)


class Severity(StrEnum):
    """How bad it is, worst first."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerDiagnostic:
    """A compiler's message about a place. file: as it was submitted, `<name>` of another's, "" where none is named. line, column: from 1; 0
    where not known."""

    file: str
    line: int
    column: int
    severity: Severity
    message: str

    @property
    def place(self) -> str:
        """The file and the line, as far as they are known."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


@lru_cache(maxsize=64)  # a build is shown many times, and a long log takes ms
def compiler_diagnostics(log: str) -> tuple[CompilerDiagnostic, ...]:
    """At most DIAGNOSTIC_LIMIT records in the log's order; of more, errors before warnings and those before notes."""
    reader = _LogReader()
    for line in islice(filter(None, log[:LOG_LIMIT_BYTES].split("\n")), LINE_LIMIT):
        if len(reader.records) >= READ_LIMIT:
            break
        reader.read(_plain(line[:LINE_LIMIT_CHARS]))
    records = list(dict.fromkeys(reader.records))
    order = list(Severity)
    worst = sorted(range(len(records)), key=lambda index: (order.index(records[index].severity), index))[:DIAGNOSTIC_LIMIT]
    return tuple(records[index] for index in sorted(worst))


def first_error(log: str) -> CompilerDiagnostic | None:
    """The first error with a line of the submission."""
    errors = (record for record in compiler_diagnostics(log) if record.severity is Severity.ERROR)
    return next((error for error in errors if error.line and _is_own(error.file)), None)


def defined_twice(log: str) -> tuple[str, str, str] | None:
    """Return a name that two files of the submission define, by the linker's words, and the files."""
    for line in islice(log[:LOG_LIMIT_BYTES].split("\n"), LINE_LIMIT):
        if (match := _DEFINED_TWICE.search(_plain(line[:LINE_LIMIT_CHARS]))) is not None:
            first, second = _file_name(match["first"]), _file_name(match["second"])
            if _is_own(first) and _is_own(second) and first != second:
                return match["name"], first, second
    return None


class _LogReader:
    """Reads a log line by line. Some lines say more of the record before them, or of the one that follows."""

    def __init__(self) -> None:
        self.records: list[CompilerDiagnostic] = []
        self._used_at: re.Match[str] | None = None  # the template whose error comes
        self._raised_at: re.Match[str] | None = None  # the last own frame of a traceback
        self._more: Callable[[str], None] | None = None  # takes the next line as a part of the last message

    def read(self, text: str) -> None:
        if _MARKS.search(text) and (match := next((match for place in _PLACES if (match := place.fullmatch(text))), None)) is not None:
            self._more = self._raised_at = None
            self._add(match)
        elif (match := _REQUIRED_FROM.fullmatch(text)) is not None:
            self._used_at = match
        elif self._more is not None and text.strip():
            self._more(text)
        elif self.records and self.records[-1].file.startswith("<") and (match := _AT_LINE.fullmatch(text)) is not None:
            self._move(match)
        elif (match := _FRAME.match(text)) is not None:
            if match["numba"] and self.records:
                self._move(match)
            elif _is_own(_file_name(match["file"])):
                self._raised_at = match
        elif self._raised_at is not None and (raised := _RAISED.fullmatch(text)) is not None:
            self._append(self._raised_at, Severity.ERROR, raised["message"])
            self._raised_at = None

    def _add(self, match: re.Match[str]) -> None:
        word, message = (match.groupdict().get("severity") or "error").lower(), match["message"]
        severity = Severity.NOTE if word.endswith(("note", "remark")) else Severity.WARNING if word.endswith("warning") else Severity.ERROR
        file = _file_name(match.groupdict().get("file") or "")
        used_at = self._used_at
        if severity is not Severity.NOTE:
            self._used_at = None
        if not _is_own(file) and (severity is Severity.NOTE or (file and severity is Severity.WARNING)):
            return
        if file.startswith("<") and used_at is not None and _is_own(_file_name(used_at["file"])):
            match = used_at
        self._append(match, severity, message)
        if _TRITON.fullmatch(message):
            self._more = self._skip_to_caret
        elif message.startswith("numba.") and file.endswith(".py"):
            self._more = self._continue

    def _append(self, at: re.Match[str], severity: Severity, message: str) -> None:
        places = at.groupdict()
        file = _file_name(places.get("file") or "")
        line, column = (int(places.get(name) or 0) if file else 0 for name in ("line", "column"))
        message = message.strip()[:MESSAGE_LIMIT_CHARS]
        self.records.append(CompilerDiagnostic(file=file, line=line, column=column, severity=severity, message=message))

    def _move(self, at: re.Match[str]) -> None:
        if _is_own(file := _file_name(at["file"])):
            self.records[-1] = replace(self.records[-1], file=file, line=int(at["line"]), column=0)

    def _skip_to_caret(self, text: str) -> None:
        if _CARET.fullmatch(text):
            self._more = self._continue

    def _continue(self, text: str) -> None:
        last, self._more = self.records[-1], None
        self.records[-1] = replace(last, message=f"{last.message} {text.strip()}"[:MESSAGE_LIMIT_CHARS])


def _file_name(named: str) -> str:
    """The path as it was submitted; the base name in angle brackets of a file that was not; "" of what is no file's name."""
    named = named.strip().removeprefix("./")
    outside = named.startswith(("/", "../"))
    if outside and (match := _OWN.search(named)) is not None:
        named, outside = match["rest"], False
    parts = named.split("/")
    if outside or len(named) > FILE_LIMIT_CHARS or not {"", ".", ".."}.isdisjoint(parts):
        return f"<{parts[-1][: FILE_LIMIT_CHARS - 2]}>" if parts[-1].strip("<>.") else ""
    return named if len(parts) > 1 or _SOURCE_NAME.fullmatch(named) else ""


def _is_own(file: str) -> bool:
    return bool(file) and not file.startswith("<")


def _plain(line: str) -> str:
    return "".join(char if char.isprintable() else " " if char == "\t" else "" for char in _ANSI.sub("", line))
