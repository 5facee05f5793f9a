"""The store of problems that submissions may be made to, and the import of others.  Reads files, executes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import structlog
from pydantic import TypeAdapter, ValidationError

from grader import extensions
from grader.errors import ProblemInvalid, ProblemNotFound
from grader.formats import detect_format, expected_layouts, installation_hint
from grader.formats import formats as known_formats
from grader.formats.adjustments import UNCHANGED, Adjustments
from grader.model import ID_LIMIT_CHARS, Problem, problem_id_of

log = structlog.get_logger()

_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,31}")  # of ids


def load_adjusted(plug_in: ModuleType, path: Path, *, root: Path | None, adjustments: Adjustments, precision: str | None = None) -> Problem:
    """Read the problem at path. ProblemInvalid also where its format does not take the adjustments."""
    options: dict[str, Any] = {"root": root}
    if adjustments != UNCHANGED:
        if not _adjustable(plug_in):
            taking = ", ".join(module.NAME for module in known_formats().values() if _adjustable(module))
            options_text = "--set, --tolerance, --allow-lower-precision and --keep-weights"
            raise ProblemInvalid(str(path), f"{options_text} are for the format {taking}; edit this problem's own files")
        options["adjustments"] = adjustments
    problem: Problem = plug_in.load(path, **options) if precision is None else plug_in.load(path, precision, **options)
    return problem


def _adjustments_by_file(
    top: Path, paths: Sequence[Path], formats: Mapping[str, ModuleType], adjustments: Adjustments
) -> dict[Path, Adjustments]:
    """The adjustments without the constants that a file, one of several, does not have. ProblemInvalid where one is in none of several.

    A single file reports itself which it lacks.
    """
    if not adjustments.constants or len(paths) < 2:
        return dict.fromkeys(paths, adjustments)
    plug_ins = {path: detect_format(path, formats) for path in paths}
    by_file = {path: set() if plug_in is None else set(constants_of(plug_in, path)) for path, plug_in in plug_ins.items()}
    names = set().union(*by_file.values())
    if unknown := [name for name in adjustments.constants if name not in names]:
        there = ", ".join(sorted(names)) or "none"
        raise ProblemInvalid(str(top), f"no file here assigns a constant {unknown[0]!r} at its top level; the constants are: {there}")
    return {
        path: replace(adjustments, constants={name: value for name, value in adjustments.constants.items() if name in file_names})
        for path, file_names in by_file.items()
    }


def constants_of(problem_format: ModuleType, path: Path) -> dict[str, str]:
    """The constants of the problem at path that can be set, with their values; none where its format has no such thing."""
    try:
        return dict(problem_format.settable(path)) if _adjustable(problem_format) else {}
    except ProblemInvalid:  # reported when it is loaded
        return {}


def _adjustable(plug_in: ModuleType) -> bool:
    return bool(getattr(plug_in, "ACCEPTS_ADJUSTMENTS", False))


def distinct_names(paths: Sequence[Path]) -> list[str]:
    """For each path the name of the nearest directory by which it differs from all others, as part of an id; [] where there is none."""
    parents = [tuple(reversed(path.absolute().parts[:-1])) for path in paths]
    for names in zip(*parents, strict=False):
        slugs = [problem_id_of(name)[:32] for name in names]
        if len(set(slugs)) == len(slugs) and all(map(_PREFIX.fullmatch, slugs)):
            return slugs
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportCandidate:
    """File or directory that may be a problem. named_in: the list that names it; reason: why it can't be one, where known already."""

    path: Path
    named_in: Path | None = None
    reason: str = ""


def candidates(path: Path, formats: Mapping[str, ModuleType]) -> Iterator[ImportCandidate]:
    """Yield what a format takes for its own, what a list names that a format knows, and path itself where it is a file.

    A list and its directory may name the same problem; it comes once. A list that is wrong is a candidate with a reason.
    """
    visited: set[Path] = set()
    for candidate in _walk(path, formats, explicit=True):
        try:
            resolved = candidate.path.resolve()
        except (OSError, RuntimeError, ValueError):  # links in a circle, a name with NUL
            resolved = candidate.path.absolute()
        if resolved not in visited:
            visited.add(resolved)
            yield candidate


def _walk(path: Path, formats: Mapping[str, ModuleType], *, explicit: bool) -> Iterator[ImportCandidate]:
    listed = list(_listed(path, formats))
    yield from listed
    if detect_format(path, formats) is not None or (explicit and not listed and path.is_file()):
        yield ImportCandidate(path=path)
    elif path.is_dir() and (explicit or not path.is_symlink()):
        try:
            children = sorted(path.iterdir(), key=_natural)
        except OSError as error:
            yield ImportCandidate(path=path, reason=f"can't be read: {error.strerror}; check its permissions")
            return
        for below in children:
            if not below.name.startswith(".") and below.name != "__pycache__":
                yield from _walk(below, formats, explicit=False)


def _listed(path: Path, formats: Mapping[str, ModuleType]) -> Iterator[ImportCandidate]:
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


def _natural(path: Path) -> tuple[int, str]:
    """2_x before 10_x."""
    number = path.name.split("_", 1)[0]
    return (int(number) if number.isdecimal() and len(number) < 10 else 0, path.name)


# Imported problems: one file each in a directory of the state directory, written whole or not at all, and read again when one changes.

_SUFFIX = ".json"
# A file system's clock is coarse: a second change within one of its ticks leaves the time of the directory as it was.
_TICK_NS = 2_000_000_000

_Stamp = tuple[int, int, int]
Report = Callable[[ProblemInvalid], None]


def log_unreadable(invalid: ProblemInvalid) -> None:
    """Log that the file of an imported problem can't be read."""
    log.error("imported_problem_not_read", path=invalid.path, detail=invalid.message)


def keep(problem: Problem, directory: Path) -> bool:
    """Write a problem into a directory, whole or not at all; True where another one of its id was there."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = directory / f"{problem.problem_id}{_SUFFIX}"
    data = _adapter().dump_json(problem)
    before = path.read_bytes() if path.is_file() else data
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(path)
    return before != data


def read_kept(path: Path) -> Problem:
    """A problem that `keep` wrote."""
    try:
        problem = _adapter().validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        text = f"is not an imported problem of this version ({str(error).splitlines()[0]}); import it again, or remove the file"
        raise ProblemInvalid(str(path), text) from None
    if problem.spec.format not in known_formats():
        text = f"has the format {problem.spec.format!r}, which no installed package brings; install {extensions.PACKAGE}"
        raise ProblemInvalid(str(path), text)
    return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptFile:
    """A file at this stamp. problem: the last that could be read from it; None: none ever."""

    stamp: _Stamp
    problem: Problem | None
    broken: bool = False


class KeptProblems:
    """The imported problems of a directory, as they are now.

    A file that can't be read is reported once. Its problem stays what it was before; a new one is left out.
    """

    def __init__(self, directory: Path, report: Report) -> None:
        self._directory, self._report = directory, report
        self._seen: _Stamp | None = None  # of the directory, when every file in it had been read
        self._files: dict[str, _KeptFile] = {}
        self._problems: Mapping[str, Problem] = {}
        self._lock = Lock()  # large submissions are checked in threads

    def now(self) -> Mapping[str, Problem]:
        """The problems by id. Costs one system call where nothing has changed."""
        before = _stamp(self._directory)
        if before is None or before != self._seen:
            with self._lock:
                self._read()
                settled = before is not None and time.time_ns() - before[0] > _TICK_NS
                self._seen = before if settled and not any(file.broken for file in self._files.values()) else None
        return self._problems

    def unreadable(self) -> frozenset[str]:
        """The names of the files that can't be read, without their ending: the ids of problems."""
        self.now()
        return frozenset(name.removesuffix(_SUFFIX) for name, file in self._files.items() if file.broken)

    def _read(self) -> None:
        files = {}
        for name in sorted(path.name for path in self._directory.glob(f"[!.]*{_SUFFIX}")):
            stamp = _stamp(self._directory / name)
            before = self._files.get(name)
            if stamp is not None:
                files[name] = before if before is not None and before.stamp == stamp else self._file(name, stamp, before)
        if files != self._files:
            self._files = files
            problems = (file.problem for file in files.values() if file.problem is not None)
            self._problems = {problem.problem_id: problem for problem in problems}  # a new one: others may be looking at the old

    def _file(self, name: str, stamp: _Stamp, before: _KeptFile | None) -> _KeptFile:
        try:
            return _KeptFile(stamp=stamp, problem=read_kept(self._directory / name))
        except ProblemInvalid as invalid:
            self._report(invalid)
            return _KeptFile(stamp=stamp, problem=None if before is None else before.problem, broken=True)


def _stamp(path: Path) -> _Stamp | None:
    """Return what changes with a file or directory; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


@cache
def _adapter() -> TypeAdapter[Problem]:
    return TypeAdapter(Problem)


LISTED_COUNT = 20  # names in an error
_UNREADABLE = "can't be read: what was imported is damaged, or of another version; import it again"


class Problems:
    """Problems by id and by digest. One id is one problem. What is imported while a server runs is found too, except in place of a pinned
    problem."""

    def __init__(
        self, formats: Mapping[str, ModuleType] | None = None, imported: Path | None = None, report: Report = log_unreadable
    ) -> None:
        self._formats = known_formats() if formats is None else formats
        self._by_id: dict[str, Problem] = {}
        self._paths: dict[str, Path] = {}
        self._pinned: dict[str, Problem] = {}
        self._kept = None if imported is None else KeptProblems(imported, report)

    @classmethod
    def load(cls, roots: Iterable[Path], imported: Path | None = None, report: Report = log_unreadable) -> Problems:
        """Read every problem at or directly below the roots; a wrong one raises ProblemInvalid. Those in the directory imported give way to
        the roots'; what can't be read there is reported."""
        store = cls(imported=imported, report=report)
        for root in roots:
            if not root.is_dir() and not store._format(root):
                raise ProblemInvalid(str(root), "is not a directory; name a problem's directory or file, or a directory that holds such")
            paths = [root] if store._format(root) else [path for path in sorted(root.iterdir()) if path.is_dir() and store._format(path)]
            if not paths:
                raise ProblemInvalid(str(root), f"holds no problem; looked for {expected_layouts(known_formats())}")
            for path in paths:
                store.add(path, root if root.is_dir() and not path.is_symlink() else None)
        return store

    def add(self, path: Path, root: Path | None = None) -> Problem:
        """Read the problem at path, and no file outside root; None: outside the problem's directory.

        The same problem twice is fine, two under one id are not.
        """
        plug_in = self._format(path)
        if plug_in is None:
            raise ProblemInvalid(str(path), f"is not a problem of a known format ({', '.join(self._formats)}){installation_hint()}")
        problem = load_adjusted(plug_in, path, root=root, adjustments=UNCHANGED)
        before = self._by_id.get(problem.problem_id)
        if before is not None and before.digest != problem.digest:
            other_path = self._paths[problem.problem_id]
            raise ProblemInvalid(str(path), f"is another problem {problem.problem_id!r} than {other_path}; rename one, or leave one out")
        self._by_id[problem.problem_id], self._paths[problem.problem_id] = problem, path
        return problem

    def pin(self, problem_id: str) -> Problem:
        """The problem of that id, or ProblemNotFound; from now on an import does not replace it in this store."""
        return self._pinned.setdefault(problem_id, self.get(problem_id))

    def get(self, problem_id: str) -> Problem:
        """The problem of that id, or ProblemNotFound."""
        problem = self._by_id.get(problem_id) or self._pinned.get(problem_id) or self._imported().get(problem_id)
        if problem is None:
            fault = _UNREADABLE if self._kept is not None and problem_id in self._kept.unreadable() else ""
            names = [problem.problem_id for problem in self.all()]
            alike = get_close_matches(problem_id[:ID_LIMIT_CHARS], names, n=LISTED_COUNT)
            nearest = [*alike, *(name for name in names if name not in alike)][:LISTED_COUNT]
            raise ProblemNotFound(problem_id, tuple(nearest), fault)
        return problem

    def all(self) -> tuple[Problem, ...]:
        """Every problem, by id."""
        by_id = {**self._imported(), **self._pinned, **self._by_id}
        return tuple(by_id[key] for key in sorted(by_id))

    def _imported(self) -> Mapping[str, Problem]:
        return {} if self._kept is None else self._kept.now()

    def _format(self, path: Path) -> ModuleType | None:
        return detect_format(path, self._formats)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Result of one path of an import: the problem that it holds, or the reason that it holds none.

    replaced: another one had its id. same_as: the path of this import that holds the same problem. unusable: why no judge here can run it.
    """

    path: Path
    problem: Problem | None = None
    reason: str = ""
    replaced: bool = False
    same_as: Path | None = None
    warnings: tuple[str, ...] = ()
    unusable: str = ""

    @property
    def fresh(self) -> bool:
        """Return whether it holds a problem that no earlier path of the import held."""
        return self.problem is not None and self.same_as is None


def import_all(
    path: Path, *, format_name: str | None = None, precision: str | None = None, prefix: str = "", adjustments: Adjustments = UNCHANGED
) -> Iterator[Imported]:
    """Read every problem at or below path; `keep` puts one where `Problems.load` finds it.

    What is wrong is an Imported with a reason, and the others go on. ProblemInvalid where path is not there, an argument is not known, or
    no file has a constant that is to be set.
    """
    by_name = known_formats()
    formats = by_name if format_name is None else {format_name: by_name[format_name]} if format_name in by_name else {}
    if not formats:
        raise ProblemInvalid(str(path), f"format {format_name!r} is not known; take one of: {', '.join(by_name)}{installation_hint()}")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ProblemInvalid(str(path), f"prefix {prefix!r} can't begin an id; write lower case letters, digits and '_', first a letter")
    if not os.path.exists(path):  # noqa: PTH110  a name may be too long
        raise ProblemInvalid(str(path), "does not exist; check the path")
    listed = list(candidates(path, formats))
    by_file = _adjustments_by_file(path, [candidate.path for candidate in listed], formats, adjustments)
    root = path if path.is_dir() else path.parent
    imports = [_import(candidate, formats, precision, root, by_file[candidate.path]) for candidate in listed]
    yield from _named_apart(imports, prefix)


def _import(
    candidate: ImportCandidate, formats: Mapping[str, ModuleType], precision: str | None, root: Path, adjustments: Adjustments
) -> Imported:
    path = candidate.path
    if candidate.reason:
        return Imported(path=path, reason=candidate.reason)
    if candidate.named_in is not None and not os.path.exists(path):  # noqa: PTH110
        return Imported(path=path, reason=f"does not exist; {candidate.named_in.name} names it")
    try:
        plug_in = detect_format(path, formats)
        if plug_in is None:
            plug_in = next((module for module in formats.values() if getattr(module, "EXPLAINS_SUFFIX", None) == path.suffix), None)
        if plug_in is None:
            raise ProblemInvalid(str(path), f"is not a problem of a known format; looked for {expected_layouts(formats)}")
        if precision is not None and not getattr(plug_in, "ACCEPTS_PRECISION", False):
            taking = ", ".join(module.NAME for module in known_formats().values() if getattr(module, "ACCEPTS_PRECISION", False))
            raise ProblemInvalid(str(path), f"--precision is for the format {taking}; a problem in {plug_in.NAME} has its own dtypes")
        problem = load_adjusted(plug_in, path, root=root, precision=precision, adjustments=adjustments)
    except ProblemInvalid as invalid:
        where = Path(invalid.path).name
        is_named = where == path.name or invalid.message.startswith(where)
        return Imported(path=path, reason=invalid.message if is_named else f"{where}: {invalid.message}")
    plug_in = formats[problem.spec.format]
    warnings: tuple[str, ...] = plug_in.warnings(problem) if hasattr(plug_in, "warnings") else ()
    unusable: str = plug_in.unusable(problem) if hasattr(plug_in, "unusable") else ""
    return Imported(path=path, problem=problem, warnings=warnings, unusable=unusable)


def _named_apart(imports: Sequence[Imported], prefix: str) -> Iterator[Imported]:
    """Every problem under an id of its own: where several have the same, the names of their directories go in front."""
    by_id: dict[str, dict[str, Imported]] = {}
    for imported in imports:
        if imported.problem is not None:
            by_id.setdefault(imported.problem.problem_id, {}).setdefault(imported.problem.digest, imported)
    names: dict[Path, str] = {}
    for alike in by_id.values():
        paths = [imported.path for imported in alike.values()]
        names |= zip(paths, distinct_names(paths), strict=False) if len(paths) > 1 else ()
    named: dict[Path, Imported] = {}
    paths_by_id: dict[str, Path] = {}
    for imported in imports:
        if imported.problem is None:
            yield imported
            continue
        first = by_id[imported.problem.problem_id][imported.problem.digest]
        if first is not imported:
            yield replace(named[first.path], path=imported.path, same_as=first.path)
            continue
        named[imported.path] = _named(imported, [name for name in (names.get(imported.path), prefix) if name], paths_by_id)
        yield named[imported.path]


def _named(imported: Imported, prefixes: Sequence[str], paths_by_id: dict[str, Path]) -> Imported:
    """With these in front of its id, the last of them first; or refused, where the id is too long or taken."""
    problem = imported.problem
    assert problem is not None
    for prefix in prefixes:
        problem_id = f"{prefix.rstrip('_')}_{problem.problem_id}"
        if len(problem_id) > ID_LIMIT_CHARS:
            text = f"has the id {problem_id!r}, which is over {ID_LIMIT_CHARS} characters; take a shorter prefix"
            return Imported(path=imported.path, reason=text)
        # The digest follows: a submission is to one problem of one id.
        digest = hashlib.sha256(json.dumps([problem.digest, problem_id]).encode()).hexdigest()
        problem = replace(problem, problem_id=problem_id, spec=replace(problem.spec, problem_id=problem_id, digest=digest))
    if (other_path := paths_by_id.setdefault(problem.problem_id, imported.path)) != imported.path:
        text = f"has the id {problem.problem_id!r}, as {other_path} has; import one by itself with --prefix, or rename one"
        return Imported(path=imported.path, reason=text)
    return replace(imported, problem=problem)
