"""Reading of a problem's files: only those of its own set, with a limit.  Executes nothing."""

from __future__ import annotations

import ast
from pathlib import Path

from grader.errors import ProblemInvalid


def require_inside(path: Path, root: Path, named_in: Path) -> Path:
    """Return path, resolved; ProblemInvalid where it lies outside root, by `..`, as an absolute path or by a symbolic link.

    root: the directory of the set. named_in: the file to name in the error.
    """
    try:
        resolved, inside = path.resolve(), root.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a name with NUL
        raise ProblemInvalid(str(named_in), f"{path} can't be read: {error}") from None
    if not resolved.is_relative_to(inside):
        text = f"{path} is outside the problem set {inside}; move the file into the set, or name the directory that holds both"
        raise ProblemInvalid(str(named_in), text)
    return resolved


def read_text(path: Path, limit_bytes: int, layout: str) -> str:
    """Return the text of a file; ProblemInvalid where it is too large or can't be read. layout: the files of a problem, for the error."""
    try:
        if path.stat().st_size > limit_bytes:
            raise ProblemInvalid(str(path), f"is over {limit_bytes} bytes; make it smaller")
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemInvalid(str(path), f"can't be read: {error}; a problem is {layout}") from None


def parse_python(path: Path, text: str, name: str = "<unknown>") -> ast.Module:
    """Return the syntax of a file; ProblemInvalid where it is not Python. name: of the file, for the parser's own message."""
    try:
        return ast.parse(text, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f"line {error.lineno}: " if isinstance(error, SyntaxError) else ""
        raise ProblemInvalid(str(path), f"{line}is not Python: {error}; fix it") from None
