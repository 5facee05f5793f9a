"""Reads the files that a person names, and finds the problem that they are for."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.api.resource_names import PROBLEMS, resource_id
from grader.cli import solution_file
from grader.cli.exits import UsageError
from grader.model import SOURCE_LIMIT_BYTES, SourceFile

_DIRECTIVE = re.compile(r"^\s*(?://|#)\s*grader:\s*(?:\S+\s+)*?problem=(?P<problem>\S+)")
_DIRECTIVE_LINES = 10
SOLUTION_LIMIT_BYTES = 4 * SOURCE_LIMIT_BYTES  # escapes take up to six bytes for one


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedFiles:
    """What a person handed in. problem_dir: the directory of the files that holds their problem, or its file, if there is one.

    language, entry, notes: what a solution file says; "" where nothing does.
    """

    sources: tuple[SourceFile, ...]
    problem_id: str
    problem_dir: Path | None = None
    language: str = ""
    entry: str = ""
    notes: tuple[str, ...] = ()


def read(files: Sequence[Path], problem: str | None) -> SubmittedFiles:
    """Read files and name their problem: the flag's, else the first file's directive's, else that of problem.toml next to it.

    One file that ends in .json is a solution file, which holds the sources and names a definition.
    """
    if any(path.suffix == solution_file.SUFFIX for path in files):
        return _solution(files, problem)
    sources = read_sources(files)
    directory = files[0].absolute().parent
    directory_problem = _problem_in(directory)
    problem_id = problem or _directive(sources[0].content) or directory_problem
    if not problem_id:
        mark = "#" if files[0].suffix == ".py" else "//"
        raise UsageError(
            f"problem: nothing says which problem {files[0].name} is for; give --problem NAME ('grader-cli problems list' shows "
            f"them), or write '{mark} grader: problem=NAME' in its first lines, or put a problem.toml next to it"
        )
    problem_id = resource_id(PROBLEMS, problem_id)
    return SubmittedFiles(sources=sources, problem_id=problem_id, problem_dir=directory if problem_id == directory_problem else None)


def from_text(content: str, file_name: str, problem: str | None) -> SubmittedFiles:
    """One source that comes from no file. Its problem is found as for a file of the working directory."""
    directory = Path.cwd()
    directory_problem = _problem_in(directory)
    problem_id = problem or _directive(content) or directory_problem
    if not problem_id:
        raise UsageError(
            "problem: nothing says which problem standard input is for; give --problem NAME ('grader-cli problems list' shows them)"
        )
    problem_id = resource_id(PROBLEMS, problem_id)
    sources = (SourceFile(path=file_name, content=content),)
    return SubmittedFiles(sources=sources, problem_id=problem_id, problem_dir=directory if problem_id == directory_problem else None)


def _solution(files: Sequence[Path], problem: str | None) -> SubmittedFiles:
    if len(files) > 1:
        name = next(path.name for path in files if path.suffix == solution_file.SUFFIX)
        raise UsageError(f"sources: {name} is taken for a solution file, which holds all its sources; submit it by itself, or leave it out")
    found = solution_file.parse(files[0], _content(files[0], limit_bytes=SOLUTION_LIMIT_BYTES))
    _check_size(found.sources)
    return SubmittedFiles(
        sources=found.sources,
        problem_id=resource_id(PROBLEMS, problem) if problem else found.problem_id,
        problem_dir=None if problem else solution_file.problem_near(files[0], found.definition),
        language=found.language,
        entry=found.entry,
        notes=found.notes,
    )


def read_sources(files: Sequence[Path]) -> tuple[SourceFile, ...]:
    """Read files; their paths are relative to their common directory."""
    absolute = [Path(os.path.abspath(path)) for path in files]  # noqa: PTH100 (resolve() would follow links and rename files)
    if len(set(absolute)) != len(absolute):
        raise UsageError("sources: a file is named twice; name each once")
    contents = [_content(path) for path in files]
    top = Path(os.path.commonpath([path.parent for path in absolute]))
    sources = tuple(
        SourceFile(path=path.relative_to(top).as_posix(), content=content) for path, content in zip(absolute, contents, strict=True)
    )
    _check_size(sources)
    return sources


def _check_size(sources: Sequence[SourceFile]) -> None:
    size = sum(len(one.content.encode()) for one in sources)
    if size > SOURCE_LIMIT_BYTES:
        raise UsageError(f"sources: {size:,} bytes in all, over the {SOURCE_LIMIT_BYTES:,} allowed; leave out what is not source text")


def _content(path: Path, limit_bytes: int = SOURCE_LIMIT_BYTES) -> str:
    try:
        if path.is_dir():
            raise UsageError(f"sources: {path} is a directory; name the files in it")
        if not path.exists():
            raise UsageError(f"sources: {path} does not exist; check the path")
        if not path.is_file():
            raise UsageError(f"sources: {path} is not a regular file; save the kernel to a file and name that")
        size = path.stat().st_size
        if size > limit_bytes:
            raise UsageError(f"sources: {path} has {size:,} bytes, over the {limit_bytes:,} allowed; leave out what is not source text")
        content = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"sources: {path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise UsageError(f"sources: {path} can't be read: {error.strerror}; check its permissions") from None
    if not content.strip() and path.name != "__init__.py":  # it makes its directory a package
        raise UsageError(f"sources: {path} is empty; leave the file out, or write the kernel into it")
    return content


def _directive(content: str) -> str | None:
    for line in content.splitlines()[:_DIRECTIVE_LINES]:
        if match := _DIRECTIVE.match(line):
            return match["problem"]
    return None


def _problem_in(directory: Path) -> str | None:
    path = directory / "problem.toml"
    if not path.is_file():
        return None
    try:
        name = tomllib.loads(path.read_text("utf-8")).get("name")
    except (OSError, ValueError, RecursionError) as error:  # no UTF-8, no TOML, or one that Python's own reader does not get through
        raise UsageError(f"problem: {path} can't be read: {error}") from None
    return name if isinstance(name, str) else None
