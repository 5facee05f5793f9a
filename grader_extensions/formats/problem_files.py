"""Reading of a problem's files, and remarks at an import: packages that are missing, sizes that only a GPU runs.  Executes nothing."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from pydantic import BaseModel, ValidationError

from grader.errors import ProblemInvalid
from grader.formats.validation_messages import describe
from grader.model import Problem
from sandbox.protocol import wire

AXIS_LIMIT = 16
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_UNION_TAGS = ("const", "var", "expr", "random", "scalar", "safetensors", "custom")  # no keys, but pydantic names them too
# Imported sets have the sizes of a GPU, and two cores take minutes.
COUNT = 3
SMALL = 1 << 22  # elements of all inputs and outputs: seconds for a kernel on the emulated device
LARGEST = 1 << 28  # for a problem that has nothing smaller: a minute or more, and some GB


def read_text(path: Path, limit_bytes: int, layout: str) -> str:
    """Return the text of a file; ProblemInvalid where it is too large or can't be read. layout: the files of a problem, for the error."""
    try:
        if path.exists() and (not path.is_file() or path.stat().st_size > limit_bytes):
            raise ProblemInvalid(str(path), f"is not a file of at most {limit_bytes} bytes; make it smaller")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemInvalid(str(path), f"can't be read: {error}; a problem is {layout}") from None


def parse_python(path: Path, text: str, name: str = "<unknown>") -> ast.Module:
    """Return the syntax of a file; ProblemInvalid where it is not Python. name: of the file, for the parser's own message."""
    try:
        return ast.parse(text, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise ProblemInvalid(str(path), f"{line}is not Python: {error or type(error).__name__}; fix it") from None


@contextmanager
def reported(path: Path, text: str, line: int = 1, model: type[BaseModel] | None = None) -> Iterator[None]:
    """Say where a text of a file, from this line on, is wrong: ProblemInvalid. model: see `describe`."""
    try:
        yield
    except json.JSONDecodeError as error:
        raise ProblemInvalid(f"{path}:{line + error.lineno - 1}", f"is not JSON: {error.msg} at column {error.colno}") from None
    except ValidationError as error:
        first = error.errors()[0]
        keys = [str(key) for key in first["loc"] if isinstance(key, int) or (key.isidentifier() and key not in _UNION_TAGS)]
        position = 0
        for key in keys:
            match = re.compile(rf"^\W*{key}\W?\s*:|\"{key}\"", re.MULTILINE).search(text, position)
            position = match.start() if match and not key.isdecimal() else position
        place = f"{path}:{line + text.count(chr(10), 0, position)}"
        raise ProblemInvalid(place, f"{'.'.join(keys) or path.name}: {describe(first, model)}") from None
    except (ValueError, RecursionError) as error:
        raise ProblemInvalid(f"{path}:{line}", f"can't be read: {error}" if isinstance(error, RecursionError) else str(error)) from None


def digest_of(canonical: object) -> str:
    """Return the digest of what decides verdicts."""
    return hashlib.sha256(json.dumps(canonical, sort_keys=True).encode()).hexdigest()


def shared_axes(workloads: Sequence[wire.Workload]) -> tuple[str, ...]:
    """Return the axes that every workload has, as many as an entry can get."""
    return tuple(axis for axis in workloads[0].axes if all(axis in workload.axes for workload in workloads))[:AXIS_LIMIT]


def unusable(texts: Mapping[str, str], start: str, functions: Sequence[str] = ()) -> str:
    """Return why no judge here can run a reference: which packages the module start needs that can't be found here; "" where none.

    texts: modules by name, which can import each other. functions: of any of them; what these import when they are called counts too.
    An import that the code guards, by `try` or `if`, does not.
    """
    missing, visited, waiting = set[str](), set[str](), [start]
    while waiting:
        name = waiting.pop()
        if name in visited or name not in texts:
            continue
        visited.add(name)
        for imported in _imported(texts[name], functions):
            top = imported.split(".")[0]
            if top in texts:
                waiting.append(top)
            elif not _is_installed(top):
                missing.add(top)
    names = ", ".join(sorted(missing))
    return names and f"its reference needs {names}, not installed here; install it next to the grader, where the judge runs"


def _imported(text: str, functions: Sequence[str]) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # the format reports it
    yield from imported_names(tree.body)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            yield from imported_names(node.body)


def imported_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the modules that these import, in full."""
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str() as module, level=0):
                yield module


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module binds in its own scope, as often as it does."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.alias(name=name, asname=alias):
                yield alias or name.split(".")[0]
        if not isinstance(node, _SCOPES):
            waiting += ast.iter_child_nodes(node)


def _is_installed(package: str) -> bool:
    if package in sys.stdlib_module_names:
        return True
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # of a module that is loaded and has no spec
        return True


def for_emulated(elements: Mapping[str, int]) -> frozenset[str]:
    """The workloads that every device runs, by id; the others are for a GPU. elements: how many a workload's tensors have together.

    These are the COUNT smallest of at most SMALL elements, or the smallest alone if it has at most LARGEST.
    """
    ranked = sorted(elements, key=lambda workload_id: elements[workload_id])
    small = [workload_id for workload_id in ranked if elements[workload_id] <= SMALL][:COUNT]
    return frozenset(small or [workload_id for workload_id in ranked[:1] if elements[workload_id] <= LARGEST])


def warnings(problem: Problem) -> tuple[str, ...]:
    """Return what to tell those who import it about the sizes that only a GPU runs."""
    everywhere = sum(not workload.device_kind for workload in problem.spec.workloads)
    count = len(problem.spec.workloads)
    if not everywhere:
        return ("all its sizes are too large for the emulated device: only a GPU can grade it",)
    return (f"the emulated device runs {everywhere} of its {count} sizes, a GPU all of them",) if everywhere < count else ()
