"""Reads what kernel files say of themselves in their first comment lines, and the problems that they name."""

from __future__ import annotations

from pathlib import Path

from grader import formats
from grader.model import Problem

COMMENTS = {".cu": "//", ".py": "#"}


def kernel_paths(directory: Path) -> list[Path]:
    """Return the kernel files of a directory, in the order of their names."""
    return sorted(path for path in directory.iterdir() if path.suffix in COMMENTS)


def words_of(path: Path) -> dict[str, str]:
    """Return what the first comment lines say, by their keys: `// key: value`."""
    words: dict[str, str] = {}
    comment = COMMENTS[path.suffix]
    for line in path.read_text("utf-8").splitlines():
        if not line.startswith(comment):
            break
        key, separator, value = line.removeprefix(comment).strip().partition(": ")
        if separator:
            words.setdefault(key, value.strip())
    return words


def problem_path(name: str, *directories: Path) -> Path:
    """Return where the problem of this name is in these directories: a directory or a Python file."""
    paths = [path for directory in directories for path in (directory / name, directory / f"{name}.py")]
    return next(path for path in paths if path.exists())


def problem_at(path: Path) -> Problem:
    """Return the problem, by whatever format it is in."""
    problem_format = formats.detect_format(path)
    assert problem_format is not None, f"{path} is no problem{formats.installation_hint()}"
    problem: Problem = problem_format.load(path)
    return problem
