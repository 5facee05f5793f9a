"""Checks what is handed in, before anything is kept or run.  Pure: no clock, no files.

Every violation names the field and says what to do; all of them are reported at once.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from grader import devices
from grader.api import messages
from grader.api.resource_names import PROBLEMS, SUBMISSIONS, resource_id, violation
from grader.errors import FieldViolation, InvalidSubmission, NoSuchDevice
from grader.intake import languages
from grader.intake.labels import check_labels
from grader.intake.precision import check_precision
from grader.model import SOURCE_LIMIT_BYTES, NewSubmission, Problem, SourceFile
from grader.v1 import grader_service_pb2, submission_pb2
from sandbox.protocol import wire
from sandbox.protocol.languages import languages as known_languages
from sandbox.protocol.signatures import declaration, entry_in

SOURCE_COUNT_LIMIT = 64
PATH_LIMIT_BYTES = 200
ENTRY_LIMIT_CHARS = 256
REUSED_MODES = frozenset({wire.Mode.TEST, wire.Mode.BENCHMARK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A request that may be kept."""

    new: NewSubmission
    problem: Problem
    request_id: str
    allow_cached: bool = False


def decode_source(path: str, content: bytes, *, index: int = 0) -> SourceFile:
    """A source file from its bytes; InvalidSubmission naming `sources[index].content` where they are no UTF-8."""
    try:
        return SourceFile(path=path, content=content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        text = f"{path!r} is not UTF-8: byte 0x{content[error.start]:02x} on line {line}; save the file as UTF-8"
        raise InvalidSubmission([FieldViolation(f"sources[{index}].content", text)]) from None


def check(request: grader_service_pb2.SubmitRequest, find_problem: Callable[[str], Problem], device_kinds: Sequence[str]) -> Accepted:
    """What the request asks for, or InvalidSubmission, ProblemNotFound (by find_problem), NoSuchDevice."""
    asked = request.submission
    sources = tuple(SourceFile(path=one.path, content=one.content) for one in asked.sources)
    violations = [*check_request_id(request.request_id), *check_sources(sources), *_entry_name(asked.entry)]
    violations += check_labels(asked.tags, asked.parent, asked.annotations)
    if (wrong := violation(PROBLEMS, asked.problem, "problem")) is not None:
        text = f"{wrong.description}; `grader-cli problems list` lists them"
        raise InvalidSubmission([*violations, FieldViolation("problem", text)])
    problem_id = resource_id(PROBLEMS, asked.problem)
    problem = find_problem(problem_id)
    mode, found = _mode(asked.mode)
    violations += found
    violations += check_precision(asked, mode)
    if request.allow_cached_result and mode not in REUSED_MODES:
        text = f"a result is never reused in MODE_{mode.name}; leave it out, or take MODE_TEST or MODE_BENCHMARK"
        violations.append(FieldViolation("allow_cached_result", text))
    language, found = _language(asked.language, sources, problem)
    violations += found
    known = known_languages().get(language)
    if known is not None and 0 < known.file_limit < len(sources):
        text = f"a {language} submission must be {_file_count(known.file_limit)} (got {len(sources)}); embed CUDA sources as strings"
        violations.append(FieldViolation("sources", text))
    if not violations:
        wanted = asked.entry or entry_in(problem.spec, language)
        if (remedy := languages.missing_entry(language, sources, wanted)) is not None:
            text = f"the entry point is missing: {remedy}{_declared(language, problem)}"
            violations.append(FieldViolation("entry" if asked.entry else "sources", text))
    if violations:
        raise InvalidSubmission(violations)
    if asked.device_kind and not devices.is_offered(asked.device_kind, device_kinds):
        raise NoSuchDevice(asked.device_kind, tuple(device_kinds))
    new = NewSubmission(
        problem_id=problem_id,
        language=language,
        sources=sources,
        entry=asked.entry,
        device_kind=asked.device_kind,
        mode=mode,
        tags=tuple(sorted(asked.tags)),
        parent_id=resource_id(SUBMISSIONS, asked.parent),
        annotations=dict(asked.annotations),
        precision=asked.precision if asked.HasField("precision") else None,
        measure_s=asked.measure_duration.ToNanoseconds() / 1e9 if asked.HasField("measure_duration") else None,
        skip_sanitizer=asked.skip_sanitizer,
    )
    return Accepted(new=new, problem=problem, request_id=request.request_id, allow_cached=request.allow_cached_result)


def _declared(language: str, problem: Problem) -> str:
    """How the problem declares its entry, where that is known."""
    declared = declaration(problem.spec, language)
    return f"; the problem asks for `{declared}`" if declared else ""


def check_sources(sources: Sequence[SourceFile]) -> list[FieldViolation]:
    """What is wrong with the files: their paths, their number, their size."""
    if not sources:
        return [FieldViolation("sources", "there are none; add at least one file")]
    if len(sources) > SOURCE_COUNT_LIMIT:
        return [FieldViolation("sources", f"there are {len(sources)}, and at most {SOURCE_COUNT_LIMIT} are taken; join some")]
    violations, seen = [], dict[str, int]()
    for index, source in enumerate(sources):
        if (fault := _path(source.path)) is not None:
            violations.append(FieldViolation(f"sources[{index}].path", fault))
        elif source.path in seen:
            text = f"{source.path!r} is also the path of sources[{seen[source.path]}]; rename one"
            violations.append(FieldViolation(f"sources[{index}].path", text))
        elif (above := _file_above(source.path, sources)) is not None:
            text = f"{source.path!r} lies in {above!r}, which is a file here; rename one"
            violations.append(FieldViolation(f"sources[{index}].path", text))
        if not source.content.strip() and PurePosixPath(source.path).name != "__init__.py":  # it makes its directory a package
            violations.append(FieldViolation(f"sources[{index}].content", "is empty; leave the file out, or send what it holds"))
        elif "\0" in source.content:
            violations.append(FieldViolation(f"sources[{index}].content", "holds a NUL character, so it is not text; send source code"))
        seen.setdefault(source.path, index)
    size = sum(len(source.content.encode()) for source in sources)
    if size > SOURCE_LIMIT_BYTES:
        text = f"hold {size} bytes together, and at most {SOURCE_LIMIT_BYTES} (1 MiB) are taken; leave out what the kernel does not need"
        violations.append(FieldViolation("sources", text))
    return violations


def _file_count(limit: int) -> str:
    return "a single file" if limit == 1 else f"at most {limit} files"


def _path(path: str) -> str | None:
    if not path:
        return "is empty; write a relative path such as 'kernel.cu'"
    if len(path.encode()) > PATH_LIMIT_BYTES:
        return f"is longer than {PATH_LIMIT_BYTES} bytes; shorten it"
    if not path.isprintable() or "\\" in path:
        return f"source path {path!r} has a backslash or a character that does not print; write it with '/' and plain characters"
    # The remedy keeps what may be kept of the path: no root, no way up.
    kept = posixpath.join(*[part for part in path.split("/") if part not in ("", ".", "..")] or ["kernel.cu"])
    if path.startswith("/"):
        return f"source path {path!r} is absolute; write '{kept}'"
    if ".." in path.split("/"):
        inside = posixpath.normpath(path)
        return f"source path {path!r} is not normalized; write '{kept if inside.startswith('..') else inside}'"
    if posixpath.normpath(path) != path or path == ".":
        return f"source path {path!r} is not normalized; write '{kept}'"
    return None


def _file_above(path: str, sources: Sequence[SourceFile]) -> str | None:
    return next((one.path for one in sources if path.startswith(one.path + "/")), None)


def check_request_id(request_id: str) -> list[FieldViolation]:
    """What is wrong with a request id: it is a UUID, or left out."""
    try:
        if not request_id or str(uuid.UUID(request_id)) == request_id.lower():
            return []
    except ValueError:
        pass
    return [
        FieldViolation(
            "request_id", f"{request_id!r} is not a UUID; write one such as '{uuid.UUID(int=1 << 78 | 1 << 63)}', or leave it out"
        )
    ]


def _entry_name(entry: str) -> list[FieldViolation]:
    if len(entry) <= ENTRY_LIMIT_CHARS and (not entry or (entry.isidentifier() and entry.isascii())):
        return []
    return [FieldViolation("entry", f"{entry[:40]!r} is not a function name; write letters, digits and '_', or leave it out")]


def _mode(mode: submission_pb2.Mode) -> tuple[wire.Mode, list[FieldViolation]]:
    try:
        return messages.mode_from_proto(mode), []
    except ValueError:
        names = ", ".join(f"MODE_{one.name}" for one in wire.Mode)
        return wire.Mode.BENCHMARK, [FieldViolation("mode", f"{int(mode)} is not known here; take one of: {names}")]


def _language(language: str, sources: Sequence[SourceFile], problem: Problem) -> tuple[str, list[FieldViolation]]:
    known = ", ".join(problem.languages)
    if language and language not in problem.languages:
        return language, [FieldViolation("language", f"problem {problem.problem_id!r} does not take {language!r}; take one of: {known}")]
    detected = language or languages.detect(sources)
    if detected is None:
        suffixes = ", ".join(dict.fromkeys(suffix for one in known_languages().values() for suffix in one.suffixes))
        return "", [FieldViolation("language", f"no source is of a known kind ({suffixes}); name the file so, or set one of: {known}")]
    if detected not in problem.languages:
        text = f"the sources look like {detected!r}, which problem {problem.problem_id!r} does not take; take one of: {known}"
        return detected, [FieldViolation("language", text)]
    return detected, []
