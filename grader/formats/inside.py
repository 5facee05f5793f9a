"""Bounds the files of a problem to those of its own set."""

from __future__ import annotations

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
