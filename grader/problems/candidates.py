"""Finds what may be problems at or below a path, each once.  Opens files only to look whether a format knows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from grader.errors import ProblemInvalid
from grader.formats import detect_format

_SKIPPED = ("__pycache__",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCandidate:
    """What may be a problem. named_in: the list that names it; reason: why it can't be one, where that is known already."""

    path: Path
    named_in: Path | None = None
    reason: str = ""


def candidates(path: Path, formats: Mapping[str, ModuleType]) -> Iterator[ImportCandidate]:
    """What a format takes for its own, what a list names that a format knows, and path itself where it is a file.

    A list and its directory may name the same problem; it comes once. A list that is wrong is a candidate with a reason.
    """
    seen: set[Path] = set()
    for one in _walk(path, formats, asked=True):
        resolved = _resolved(one.path)
        if resolved not in seen:
            seen.add(resolved)
            yield one


def _walk(path: Path, formats: Mapping[str, ModuleType], *, asked: bool) -> Iterator[ImportCandidate]:
    listed = list(_listed(path, formats))
    yield from listed
    if detect_format(path, formats) is not None or (asked and not listed and path.is_file()):
        yield ImportCandidate(path=path)
    elif path.is_dir() and (asked or not path.is_symlink()):
        try:
            children = sorted(path.iterdir(), key=_natural)
        except OSError as error:
            yield ImportCandidate(path=path, reason=f"can't be read: {error.strerror}; check its permissions")
            return
        for below in children:
            if not below.name.startswith(".") and below.name not in _SKIPPED:
                yield from _walk(below, formats, asked=False)


def _listed(path: Path, formats: Mapping[str, ModuleType]) -> Iterator[ImportCandidate]:
    """What the sets and lists at path name."""
    for plug_in in formats.values():
        if not hasattr(plug_in, "members"):
            continue
        try:
            for member in plug_in.members(path):
                yield ImportCandidate(path=member, named_in=path)
        except ProblemInvalid as invalid:
            yield ImportCandidate(path=path, reason=invalid.message)
        except OSError as error:
            yield ImportCandidate(path=path, reason=f"can't be read: {error.strerror}; check its permissions")


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, a name with NUL
        return path.absolute()


def _natural(path: Path) -> tuple[int, str]:
    """2_x before 10_x."""
    number = path.name.split("_", 1)[0]
    return (int(number) if number.isdecimal() and len(number) < 10 else 0, path.name)
