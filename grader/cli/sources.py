"""Source files that a person names, or pipes in, and the problem that they are for."""

from __future__ import annotations

import asyncio
import io
import os
import re
import stat
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from grader import extensions
from grader.api.resource_names import PROBLEMS, resource_id
from grader.cli.exits import UsageError
from grader.model import SOURCE_LIMIT_BYTES, SourceFile
from sandbox.protocol.directives import directives_of

STDIN = Path("-")
SOLUTION_SUFFIX = ".json"
SOLUTION_LIMIT_BYTES = 4 * SOURCE_LIMIT_BYTES  # escapes take up to six bytes for one
_DIRECTIVE_LINES = 10
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n\0]{1,200})"', re.MULTILINE)
_HEADERS = {".h", ".hh", ".hpp", ".cuh", ".inl", ".inc"}
_PIECE_BYTES = 64 * 1024
_COMPILED = ("#include", "__global__", 'extern "C"', "PYBIND11_MODULE", "TORCH_LIBRARY")
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FILE_NAMES = {"python": "kernel.py", "cuda": "kernel.cu", "torch_extension": "kernel.cu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedFiles:
    """Source files with their problem. problem_dir: the directory of the files that holds their problem, or its file, if there is one.

    language, entry: of a solution file; "" where nothing names them. notes: what a solution file asks for that is not used, and the headers
    that are sent along.
    """

    sources: tuple[SourceFile, ...]
    problem_id: str
    problem_dir: Path | None = None
    language: str = ""
    entry: str = ""
    notes: tuple[str, ...] = ()


def read(files: Sequence[Path], problem: str | None, *, root: Path | None = None) -> SubmittedFiles:
    """Read files and name their problem: the flag's, else the first file's directive's, else that of problem.toml next to it.

    One file that ends in .json is a solution file of an installed package: it holds the sources and names their problem.
    root: a resolved directory, outside of which nothing is read, even if files and links are moved meanwhile; files are resolved, and no
    solution files.
    """
    if solution := next((path for path in files if path.suffix == SOLUTION_SUFFIX), None):
        return _read_solution(solution, len(files), problem)
    sources = read_sources(files, root=root)
    headers = tuple(source.path for source in sources[len(files) :])
    mark = "#" if files[0].suffix == ".py" else "//"
    remedy = f", or write '{mark} grader: problem=NAME' in its first lines, or put a problem.toml next to it"
    submitted = _with_problem(sources, files[0].absolute().parent, problem, files[0].name, remedy, root)
    return replace(submitted, notes=(f"sent along, for it is included: {', '.join(headers)}",)) if headers else submitted


async def read_stdin(language: str, problem: str | None) -> SubmittedFiles:
    """Read one source from standard input. Its problem is named as for a file of the working directory."""
    return from_text(await stdin_text(), language, problem, "standard input")


def from_text(content: str, language: str, problem: str | None, name: str, *, root: Path | None = None) -> SubmittedFiles:
    """Take a text for the one source of a kernel. name: what the text is called in errors. root: as in `read`."""
    source = SourceFile(path=file_name(content, language), content=content)
    check_size((source,))
    return _with_problem((source,), root or Path.cwd(), problem, name, "", root)


def _with_problem(
    sources: tuple[SourceFile, ...], directory: Path, problem: str | None, name: str, remedy: str, root: Path | None
) -> SubmittedFiles:
    directory_problem = _problem_in(directory, root)
    directives = directives_of("\n".join(sources[0].content.splitlines()[:_DIRECTIVE_LINES]), "problem")
    problem_id = problem or next((directive.split()[0] for directive in directives if directive), directory_problem)
    if not problem_id:
        text = f"nothing says which problem {name} is for; give --problem NAME ('grader-cli problems list' shows them)"
        raise UsageError(f"problem: {text}{remedy}")
    problem_id = resource_id(PROBLEMS, problem_id)
    return SubmittedFiles(sources=sources, problem_id=problem_id, problem_dir=directory if problem_id == directory_problem else None)


def _problem_in(directory: Path, root: Path | None) -> str | None:
    path = directory / "problem.toml"
    if not path.is_file():
        return None
    try:
        with open(os.path.realpath(path), "rb", opener=lambda name, _: _descriptor(Path(name), root)) as file:
            name = tomllib.load(file).get("name")
    except (OSError, ValueError, RecursionError) as error:  # no UTF-8, no TOML, or one that Python's own reader does not get through
        raise UsageError(f"problem: {path} can't be read: {error}") from None
    return name if isinstance(name, str) else None


def _read_solution(path: Path, file_count: int, problem: str | None) -> SubmittedFiles:
    if file_count > 1:
        text = f"{path.name} is taken for a solution file, which holds all its sources; submit it by itself, or leave it out"
        raise UsageError(f"sources: {text}")
    parse: extensions.SolutionReader | None = extensions.part(extensions.SOLUTION_FILES, SOLUTION_SUFFIX[1:])
    if parse is None:
        raise UsageError(f"sources: {path.name} is no source file; for solution files {extensions.HOW_TO_INSTALL}")
    solution = parse(path, _content(path, limit_bytes=SOLUTION_LIMIT_BYTES), find_problem=not problem)
    check_size(solution.sources)
    return replace(solution, problem_id=resource_id(PROBLEMS, problem)) if problem else solution


def read_sources(files: Sequence[Path], *, root: Path | None = None) -> tuple[SourceFile, ...]:
    """Read files, and behind them the headers that they include by `#include "..."` from their common directory or below; paths are
    relative to that. root: as in `read`."""
    absolute = [Path(os.path.abspath(path)) for path in files]  # noqa: PTH100 (resolve() would follow links and rename files)
    if len(set(absolute)) != len(absolute):
        raise UsageError("sources: a file is named twice; name each once")
    top = Path(os.path.commonpath([path.parent for path in absolute]))
    real_top = top.resolve()
    contents = {path: _content(file, root) for path, file in zip(absolute, files, strict=True)}
    waiting = list(absolute)
    while waiting:
        path = waiting.pop(0)
        for name in _INCLUDE.findall(contents[path]) if path.suffix != ".py" else ():
            # Next to the file, or from the common directory on, which compilers search as well.
            for header in (Path(os.path.abspath(directory / name)) for directory in (path.parent, top)):  # noqa: PTH100
                # No link leads out of the directory: somebody else's kernel could have a file sent that is not its own.
                real = Path(os.path.realpath(header))  # where resolve() fails at links in a circle
                is_inside = header.is_relative_to(top) and real.is_relative_to(real_top)
                if header.suffix in _HEADERS and is_inside and real.is_file() and real.stat().st_size:
                    if header not in contents:
                        contents[header] = _content(real, root or real_top)
                        waiting.append(header)
                        check_size(tuple(SourceFile(path="", content=content) for content in contents.values()))
                    break
    sources = tuple(SourceFile(path=path.relative_to(top).as_posix(), content=content) for path, content in contents.items())
    check_size(sources)
    return sources


def check_size(sources: Sequence[SourceFile]) -> None:
    """UsageError where they are larger than a server takes."""
    size = sum(len(source.content.encode()) for source in sources)
    if size > SOURCE_LIMIT_BYTES:
        raise UsageError(f"sources: {size:,} bytes in all, over the {SOURCE_LIMIT_BYTES:,} allowed; leave out what is not source text")


def _content(path: Path, root: Path | None = None, limit_bytes: int = SOURCE_LIMIT_BYTES) -> str:
    """Read a file once: what is checked is what is open. root: see `_descriptor`."""
    try:
        with open(path, "rb", opener=lambda *_: _descriptor(path, root)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UsageError(f"sources: {path} is not a regular file; save the kernel to a file and name that")
            if (size := status.st_size) > limit_bytes:
                raise UsageError(f"sources: {path} has {size:,} bytes, over the {limit_bytes:,} allowed; leave out what is not source text")
            content = file.read(limit_bytes + 1).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"sources: {path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except IsADirectoryError:
        raise UsageError(f"sources: {path} is a directory; name the files in it") from None
    except (FileNotFoundError, NotADirectoryError, ValueError):  # also a name that no file can have
        raise UsageError(f"sources: {path} does not exist; check the path") from None
    except OSError as error:
        raise UsageError(f"sources: {path} can't be read: {error.strerror}; check its permissions") from None
    if not content.strip() and path.name != "__init__.py":  # it makes its directory a package
        raise UsageError(f"sources: {path} is empty; leave the file out, or write the kernel into it")
    return content


def _descriptor(path: Path, root: Path | None) -> int:
    """Open a file. root: path is resolved, and each step from there is opened in the last one and is no link, so that nobody can put one
    in its way after it was checked. ValueError where path is not below root."""
    if root is None:
        return os.open(path, _OPEN)
    *folders, name = path.relative_to(root).parts or (".",)
    place = os.open(root, _OPEN | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for folder in folders:
            above, place = place, os.open(folder, _OPEN | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=place)
            os.close(above)
        return os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=place)
    finally:
        os.close(place)


async def stdin_text() -> str:
    """Read standard input to its end, so that Ctrl-C ends the command meanwhile. UsageError where it is no source."""
    content = await _read_stdin()
    if len(content) > SOURCE_LIMIT_BYTES:
        limit = f"{SOURCE_LIMIT_BYTES:,} bytes"
        raise UsageError(f"sources: standard input has more than the {limit} allowed; leave out what is not source text")
    if not content.strip():
        raise UsageError("sources: standard input is empty; pipe the kernel in: grader-cli submit - --problem NAME < FILE")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"sources: standard input is not UTF-8 (byte {error.start}); convert it to UTF-8") from None


async def _read_stdin() -> bytes:
    loop, ready, content = asyncio.get_running_loop(), asyncio.Event(), bytearray()
    try:
        descriptor = sys.stdin.fileno()
        loop.add_reader(descriptor, ready.set)
    except (io.UnsupportedOperation, ValueError, PermissionError):  # in a program that calls this; a regular file is always ready
        return sys.stdin.buffer.read(SOURCE_LIMIT_BYTES + 1)
    try:
        while len(content) <= SOURCE_LIMIT_BYTES:
            await ready.wait()
            ready.clear()
            piece = os.read(descriptor, _PIECE_BYTES)
            if not piece:
                break
            content += piece
    except OSError as error:
        raise UsageError(f"sources: standard input can't be read: {error.strerror}") from None
    finally:
        loop.remove_reader(descriptor)
    return bytes(content)


def file_name(content: str, language: str) -> str:
    """Choose the name of a kernel that has none: its ending tells the language."""
    if language in _FILE_NAMES:
        return _FILE_NAMES[language]
    if content.lstrip().startswith("{"):
        raise UsageError("sources: the text looks like a solution file; write it to a file that ends in .json, and submit that")
    lines = content.splitlines()  # up to Python's first import: a file that holds CUDA in a string begins with Python
    first = next((number for number, line in enumerate(lines) if line.startswith(("import ", "from "))), len(lines))
    return _FILE_NAMES["cuda" if any(word in "\n".join(lines[:first]) for word in _COMPILED) else "python"]
