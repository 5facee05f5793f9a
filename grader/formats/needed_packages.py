"""Which packages the code of a problem imports that are not installed here.  Reads the text, executes nothing."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec


def missing_packages(texts: Mapping[str, str], start: str, functions: Sequence[str] = ()) -> tuple[str, ...]:
    """The top-level packages that the module start needs and that can't be found here, sorted.

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
    return tuple(sorted(missing))


def sentence(packages: Sequence[str]) -> str:
    """Return what to say of a reference that needs packages; "" where there are none."""
    if not packages:
        return ""
    names = ", ".join(packages)
    return f"its reference needs {names}, not installed here; install it next to the grader, where the judge runs"


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


def _is_installed(package: str) -> bool:
    if package in sys.stdlib_module_names:
        return True
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # of a module that is loaded and has no spec
        return True
