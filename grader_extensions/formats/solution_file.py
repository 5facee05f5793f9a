"""Reads a solution file of FlashInfer-Bench or SOL-ExecBench: sources, entry point, language and definition in one JSON file.

Standard library only: the client has no pydantic. Keys that are not needed here are not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from grader.cli.exits import UsageError
from grader.cli.sources import SubmittedFiles
from grader.model import SourceFile, problem_id_of

DEFINITION_LIMIT_BYTES = 4 << 20
PYTHON = ("python", "pytorch", "triton", "tilelang", "cute_dsl", "cutile", "cudnn_frontend")
COMPILED = ("cuda", "cpp", "cuda_cpp", "cutlass", "cudnn", "cublas")
_TVM = re.compile(r"\btvm/ffi/|\bTVM_FFI_")
_MODULE = re.compile(r"PYBIND11_MODULE|TORCH_LIBRARY|TORCH_EXTENSION_NAME")
_SURROGATE = re.compile("[\ud800-\udfff]")
_Kind = TypeVar("_Kind", str, list[Any], dict[str, Any])
_KINDS: Mapping[type, str] = {str: "a text", list: "a list", dict: "an object"}


def parse(path: Path, text: str, *, find_problem: bool = True) -> SubmittedFiles:
    """The solution in a file's text; the entry point's file is the first source. UsageError names the file, the key and what to do.

    find_problem: look for the definition among the files of its set."""
    table = _object(path, text)
    try:
        return _solution(table, path, find_problem=find_problem)
    except ValueError as error:
        raise UsageError(f"solution: {path}: {error}") from None


def _solution(table: Mapping[str, Any], path: Path, *, find_problem: bool) -> SubmittedFiles:
    """The solution in a table. ValueError names the key and what to do, as all below."""
    spec = _get(table, "spec", dict)
    entry_file, entry = _entry_point(_get(spec, "entry_point", str, "spec."))
    sources = _sources(table, entry_file)
    language = _language(spec, entry_file, sources)
    definition = _get(table, "definition", str)
    destination = _destination(spec, language)
    options = spec.get("compile_options")
    flags = [str(flag) for key in options for flag in options[key] or ()] if isinstance(options, dict) else []
    directives = [] if destination is None else [f"destination={str(destination).lower()}"]
    directives += [f"flags={' '.join(' '.join(flags).split())}"] if flags and language != "python" else []
    if directives:
        sources = (_with_directive(sources[0], " ".join(directives)), *sources[1:])
    return SubmittedFiles(
        sources=sources,
        problem_id=problem_id_of(definition),
        problem_dir=problem_near(path, definition) if find_problem else None,
        language=language,
        entry=entry,
        notes=(f"compile_options of {path.name} are not used: {' '.join(flags)}",) if flags and language == "python" else (),
    )


def problem_near(path: Path, definition: str) -> Path | None:
    """The problem of a solution that lies in the same set: SOL's definition.json next to it, or the definition of a trace set above it."""
    folder = path.absolute().parent
    if _definition_name(folder / "definition.json") == definition:
        return folder
    for directory in folder.parents:
        if (directory / "definitions").is_dir() and (directory / "workloads").is_dir():
            below = sorted((directory / "definitions").rglob(f"{definition}.json")) if _is_plain(definition) else []
            return next((file for file in below if _definition_name(file) == definition), None)
    return None


def _object(path: Path, text: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"solution: {path}:{error.lineno} is not JSON from column {error.colno} on; fix the line") from None
    except (ValueError, RecursionError):
        raise UsageError(f"solution: {path} is not JSON that can be read: it nests too deep, or a number is too long") from None
    if not isinstance(table, dict) or not {"definition", "spec", "sources"} <= table.keys():
        raise UsageError(
            f"solution: {path} is not a solution file; it needs the keys definition, spec and sources, as FlashInfer-Bench and "
            "SOL-ExecBench write them. Name the source files themselves to submit those"
        )
    return table


def _get(table: Mapping[str, Any], key: str, kind: type[_Kind], place: str = "") -> _Kind:
    value = table.get(key)
    if key not in table:
        raise ValueError(f"{place}{key}: is missing; add it")
    if not isinstance(value, kind) or not value:
        raise ValueError(f"{place}{key}: must be {_KINDS[kind]} that is not empty; fix it")
    if isinstance(value, str) and _SURROGATE.search(value):
        raise ValueError(f"{place}{key}: has half of a surrogate pair, which is not a character; fix it")
    return value


def _entry_point(text: str) -> tuple[str, str]:
    file, mark, function = text.partition("::")
    if not mark or not file or not function.isidentifier():
        raise ValueError(f"spec.entry_point: is {text!r}; write FILE::FUNCTION, such as 'main.py::run'")
    return file, function


def _sources(table: Mapping[str, Any], entry_file: str) -> tuple[SourceFile, ...]:
    sources = []
    for index, entry in enumerate(_get(table, "sources", list)):
        if not isinstance(entry, dict):
            raise ValueError(f"sources[{index}]: must be an object with path and content; fix it")
        place = f"sources[{index}]."
        sources.append(SourceFile(path=_get(entry, "path", str, place), content=_get(entry, "content", str, place)))
    first = next((source for source in sources if PurePosixPath(source.path) == PurePosixPath(entry_file)), None)
    if first is None:
        names = ", ".join(source.path for source in sources)
        raise ValueError(f"spec.entry_point: names {entry_file!r}, which is not in sources ({names}); fix one")
    return (first, *(source for source in sources if source is not first))


def _language(spec: Mapping[str, Any], entry_file: str, sources: tuple[SourceFile, ...]) -> str:
    key = "language" if "language" in spec else "languages"
    names = [_get(spec, key, str, "spec.")] if key == "language" else _get(spec, key, list, "spec.")
    if unknown := [name for name in names if name not in (*PYTHON, *COMPILED)]:
        raise ValueError(f"spec.{key}: {unknown[0]!r} is not known; take one of: {', '.join((*PYTHON, *COMPILED))}")
    in_python = [name in PYTHON for name in names]
    if any(in_python) != all(in_python):
        raise ValueError(f"spec.{key}: {', '.join(names)} can't be mixed; write Python or C++")
    if all(in_python) != entry_file.endswith(".py"):
        raise ValueError(f"spec.entry_point: {entry_file!r} is not a file of {names[0]}; fix one")
    return "python" if all(in_python) else _compiled(spec, sources)


def _compiled(spec: Mapping[str, Any], sources: tuple[SourceFile, ...]) -> str:
    texts = [source.content for source in sources]
    if spec.get("binding") == "tvm-ffi" or (spec.get("binding") is None and any(map(_TVM.search, texts))):
        return "tvm_ffi"
    if any(map(_MODULE.search, texts)):
        return "torch_extension"
    return "cuda" if any('extern "C"' in text for text in texts) else ""


def _destination(spec: Mapping[str, Any], language: str) -> bool | None:
    """Read if the entry takes its outputs as its last arguments; None: the server looks at the number of its parameters."""
    style = spec.get("destination_passing_style")
    if not isinstance(style, bool | None):
        raise ValueError("spec.destination_passing_style: must be true or false; fix it")
    if language == "tvm_ffi" and style is False:
        raise ValueError("spec.destination_passing_style: a function of TVM-FFI gets its outputs here; let it write them, and say true")
    if language == "torch_extension":
        return True if style is None else style  # their default
    return style if language == "python" else None


def _with_directive(source: SourceFile, directive: str) -> SourceFile:
    """The file with a comment at its end, where it moves no line; see `sandbox/protocol/directives.py`."""
    mark = "#" if source.path.endswith(".py") else "//"
    end = "" if source.content.endswith("\n") else "\n"
    return SourceFile(path=source.path, content=f"{source.content}{end}{mark} grader: {directive}\n")


def _definition_name(path: Path) -> str | None:
    try:
        table = json.loads(path.read_text("utf-8")) if path.stat().st_size <= DEFINITION_LIMIT_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    name = table.get("name") if isinstance(table, dict) else None
    return name if isinstance(name, str) else None


def _is_plain(name: str) -> bool:
    return re.fullmatch(r"[\w.+-]+", name) is not None  # no pattern, no directory
