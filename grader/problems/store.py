"""The store of problems that submissions may be made to, and what was imported into a state directory.  Reads files, executes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from types import ModuleType

from pydantic import TypeAdapter, ValidationError

from grader.errors import ProblemInvalid, ProblemNotFound
from grader.formats import detect_format
from grader.formats import formats as known_formats
from grader.formats.adjustments import UNCHANGED, Adjustments
from grader.formats.inside import own_directory
from grader.model import Problem
from grader.problems.adjusted import AdjustedSet, load_adjusted

_KEPT_SUFFIX = ".json"
_SKIPPED = ("__pycache__",)
LISTED_COUNT = 20  # names in an error


class Problems:
    """Problems by id and by digest. One id is one problem."""

    def __init__(self, formats: Mapping[str, ModuleType] | None = None) -> None:
        self._formats = known_formats() if formats is None else formats
        self._by_id: dict[str, Problem] = {}
        self._paths: dict[str, Path] = {}

    @classmethod
    def load(cls, roots: Iterable[Path], imported: Path | None = None) -> Problems:
        """Read every problem at or directly below the roots, and those in the directory imported, which give way to the roots'; a wrong one
        raises ProblemInvalid."""
        store = cls()
        for root in roots:
            if not root.is_dir() and not store._format(root):
                raise ProblemInvalid(str(root), "is no directory; name a problem's directory or file, or a directory that holds such")
            found = [root] if store._format(root) else [path for path in sorted(root.iterdir()) if path.is_dir() and store._format(path)]
            if not found:
                raise ProblemInvalid(str(root), "holds no problem; a native one is a directory with problem.toml and reference.py")
            for path in found:
                store.add(path, root if root.is_dir() and not path.is_symlink() else None)
        for path in sorted(imported.glob(f"*{_KEPT_SUFFIX}")) if imported else ():
            problem = read_kept(path)
            if problem.problem_id not in store._by_id:
                store._keep(problem, path)
        return store

    def add(self, path: Path, root: Path | None = None, adjustments: Adjustments = UNCHANGED) -> Problem:
        """Read the problem at path, and no file outside root; None: outside the problem's directory.

        The same problem twice is fine, two under one id are not.
        """
        plug_in = self._format(path)
        if plug_in is None:
            raise ProblemInvalid(str(path), f"is no problem of a known format ({', '.join(self._formats)})")
        problem = load_adjusted(plug_in, path, root=root, adjustments=adjustments)
        before = self._by_id.get(problem.problem_id)
        if before is not None and before.digest != problem.digest:
            raise ProblemInvalid(
                str(path), f"is another problem {problem.problem_id!r} than {self._paths[problem.problem_id]}; rename one, or leave one out"
            )
        self._keep(problem, path)
        return problem

    def get(self, problem_id: str) -> Problem:
        """The problem of that id, or ProblemNotFound."""
        try:
            return self._by_id[problem_id]
        except KeyError:
            raise ProblemNotFound(problem_id, _nearest(problem_id, self._by_id)) from None

    def by_digest(self, digest: str) -> Problem | None:
        """The problem of that digest, if it is still here."""
        return next((problem for problem in self._by_id.values() if problem.digest == digest), None)

    def all(self) -> tuple[Problem, ...]:
        """Every problem, by id."""
        return tuple(self._by_id[key] for key in sorted(self._by_id))

    def _keep(self, problem: Problem, path: Path) -> None:
        self._by_id[problem.problem_id] = problem
        self._paths[problem.problem_id] = path

    def _format(self, path: Path) -> ModuleType | None:
        return detect_format(path, self._formats)


def _nearest(wanted: str, known: Iterable[str]) -> list[str]:
    """The names of at most LISTED_COUNT problems, those most like the one that was asked for first."""
    names = sorted(known)
    alike = get_close_matches(wanted, names, n=LISTED_COUNT)
    return [*alike, *(one for one in names if one not in alike)][:LISTED_COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of one path of an import: the problem that it holds, or why it is none. replaced: another one had its id. note: what
    has to be known of one that is kept, such as that it could not be checked."""

    path: Path
    problem: Problem | None = None
    reason: str = ""
    replaced: bool = False
    note: str = ""


def import_all(
    path: Path, *, format_name: str | None = None, precision: str | None = None, adjustments: Adjustments = UNCHANGED
) -> Iterator[Imported]:
    """Read every problem at or below path; `keep` puts one where `Problems.load` finds it.

    A wrong one is told and the others go on. ProblemInvalid where path is not there, format_name is not known, or no file has a constant
    that is to be set.
    """
    known = known_formats()
    formats = known if format_name is None else {format_name: known[format_name]} if format_name in known else {}
    if not formats:
        raise ProblemInvalid(str(path), f"format {format_name!r} is not known; take one of: {', '.join(known)}")
    try:
        there = path.exists()
    except OSError:  # such as a name that is too long
        there = False
    if not there:
        raise ProblemInvalid(str(path), "does not exist; check the path")
    seen: dict[str, Imported] = {}
    candidates = list(_candidates(path, formats, asked=True))
    wanted = AdjustedSet.of(path, candidates, formats, adjustments)
    for candidate in candidates:
        try:
            problem = _read(candidate, formats, precision, own_directory(path), wanted.of_file(candidate))
        except ProblemInvalid as invalid:
            yield Imported(path=candidate, reason=invalid.message)
            continue
        other = seen.get(problem.problem_id)
        if other is not None and other.problem is not None and other.problem.digest != problem.digest:
            yield Imported(path=candidate, reason=f"has the id {problem.problem_id!r}, as {other.path} has; rename one")
            continue
        seen[problem.problem_id] = Imported(path=candidate, problem=problem)
        yield seen[problem.problem_id]


def keep(problem: Problem, directory: Path) -> bool:
    """Write a problem into a directory, whole or not at all; True where another one of its id was there."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / f"{problem.problem_id}{_KEPT_SUFFIX}"
    data = _adapter().dump_json(problem)
    before = path.read_bytes() if path.is_file() else data
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(path)
    return before != data


def read_kept(path: Path) -> Problem:
    """A problem that `keep` wrote."""
    try:
        return _adapter().validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        text = f"is no imported problem of this version ({str(error).splitlines()[0]}); import it again, or remove the file"
        raise ProblemInvalid(str(path), text) from None


def _read(
    path: Path, formats: Mapping[str, ModuleType], precision: str | None, root: Path, adjustments: Adjustments = UNCHANGED
) -> Problem:
    plug_in = detect_format(path, formats)
    if plug_in is None:
        plug_in = next((one for one in formats.values() if getattr(one, "EXPLAINS_SUFFIX", None) == path.suffix), None)
    if plug_in is None:
        raise ProblemInvalid(str(path), f"is no problem of a known format ({', '.join(formats)})")
    if precision is not None and not getattr(plug_in, "ACCEPTS_PRECISION", False):
        taking = ", ".join(one.NAME for one in known_formats().values() if getattr(one, "ACCEPTS_PRECISION", False))
        raise ProblemInvalid(str(path), f"--precision is for the format {taking}; a problem in {plug_in.NAME} has its own dtypes")
    return load_adjusted(plug_in, path, root=root, precision=precision, adjustments=adjustments)


def _candidates(path: Path, formats: Mapping[str, ModuleType], *, asked: bool) -> Iterator[Path]:
    """What may be problems at or below path: what a format takes for its own, what a list names that a format knows, Python files, and path
    itself where it is a file."""
    listed = [one for plug_in in formats.values() if hasattr(plug_in, "members") for one in plug_in.members(path)]
    if listed:
        yield from listed
    elif detect_format(path, formats) is not None or (path.is_file() and (asked or path.suffix == ".py")):
        yield path
    elif path.is_dir() and (asked or not path.is_symlink()):
        try:
            children = sorted(path.iterdir(), key=_natural)
        except OSError as error:
            raise ProblemInvalid(str(path), f"can't be read: {error.strerror}; check its permissions") from None
        for below in children:
            if not below.name.startswith(".") and below.name not in _SKIPPED:
                yield from _candidates(below, formats, asked=False)


def _natural(path: Path) -> tuple[int, str]:
    """2_x before 10_x."""
    number = path.name.split("_", 1)[0]
    return (int(number) if number.isdecimal() and len(number) < 10 else 0, path.name)


@cache
def _adapter() -> TypeAdapter[Problem]:
    return TypeAdapter(Problem)
