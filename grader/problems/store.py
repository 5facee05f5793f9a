"""The store of problems that submissions may be made to.  Reads files, executes nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from threading import Lock

import structlog
from pydantic import TypeAdapter, ValidationError

from grader import extensions
from grader.errors import ProblemInvalid, ProblemNotFound
from grader.formats import detect_format, expected_layouts, formats, installation_hint, native
from grader.model import ID_LIMIT_CHARS, Problem
from grader.state_dir import FileStamp, stamp

log = structlog.get_logger()

# Imported problems: one file each in a directory of the state directory, written whole or not at all, and read again when one changes.

_SUFFIX = ".json"
# A file system's clock is coarse: a second change within one of its ticks leaves the time of the directory as it was.
_TICK_NS = 2_000_000_000

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
    if problem.spec.format not in formats():
        text = f"has the format {problem.spec.format!r}, which no installed package brings; install {extensions.PACKAGE}"
        raise ProblemInvalid(str(path), text)
    return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptFile:
    """A file at this stamp. problem: the last that could be read from it; None: none ever."""

    stamp: FileStamp
    problem: Problem | None
    broken: bool = False


class KeptProblems:
    """The imported problems of a directory, as they are now.

    A file that can't be read is reported once. Its problem stays what it was before; a new one is left out.
    """

    def __init__(self, directory: Path, report: Report) -> None:
        self._directory, self._report = directory, report
        self._seen: FileStamp | None = None  # of the directory, when every file in it had been read
        self._files: dict[str, _KeptFile] = {}
        self._problems: Mapping[str, Problem] = {}
        self._lock = Lock()  # large submissions are checked in threads

    def now(self) -> Mapping[str, Problem]:
        """The problems by id. Costs one system call where nothing has changed."""
        before = stamp(self._directory)
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
            current, before = stamp(self._directory / name), self._files.get(name)
            if current is not None:
                files[name] = before if before is not None and before.stamp == current else self._file(name, current, before)
        if files != self._files:
            self._files = files
            problems = (file.problem for file in files.values() if file.problem is not None)
            self._problems = {problem.problem_id: problem for problem in problems}  # a new one: others may be looking at the old

    def _file(self, name: str, current: FileStamp, before: _KeptFile | None) -> _KeptFile:
        try:
            return _KeptFile(stamp=current, problem=read_kept(self._directory / name))
        except ProblemInvalid as invalid:
            self._report(invalid)
            return _KeptFile(stamp=current, problem=None if before is None else before.problem, broken=True)


@cache
def _adapter() -> TypeAdapter[Problem]:
    return TypeAdapter(Problem)


LISTED_COUNT = 20  # names in an error
_UNREADABLE = "can't be read: what was imported is damaged, or of another version; import it again"


class Problems:
    """Problems by id and by digest. One id is one problem. What is imported while a server runs is found too, except in place of a pinned
    problem."""

    def __init__(self, imported: Path | None = None, report: Report = log_unreadable) -> None:
        self._by_id: dict[str, Problem] = {}
        self._paths: dict[str, Path] = {}
        self._pinned: dict[str, Problem] = {}
        self._kept = None if imported is None else KeptProblems(imported, report)

    @classmethod
    def load(cls, roots: Iterable[Path], imported: Path | None = None, report: Report = log_unreadable) -> Problems:
        """Read every problem at or directly below the roots; a wrong one raises ProblemInvalid. Those in the directory imported give way to
        the roots'; what can't be read there is reported."""
        store = cls(imported, report)
        for root in roots:
            if not root.is_dir() and not detect_format(root):
                raise ProblemInvalid(str(root), "is not a directory; name a problem's directory or file, or a directory that holds such")
            paths = [root] if detect_format(root) else [path for path in sorted(root.iterdir()) if path.is_dir() and detect_format(path)]
            if not paths:
                raise ProblemInvalid(str(root), f"holds no problem; looked for {expected_layouts(formats())}")
            for path in paths:
                store.add(path, root if root.is_dir() and not path.is_symlink() else (path if path.is_dir() else path.parent).resolve())
        return store

    def add(self, path: Path, root: Path | None = None, *, again: bool = False) -> Problem:
        """Read the problem at path, and no file outside root; None: outside the problem's directory. A problem.toml stands for that.

        The same problem twice is fine, two under one id are not. again: but one that was read at path before may have changed.
        """
        path = path.parent if path.name == native.FILE_NAME else path
        plug_in = detect_format(path)
        if plug_in is None:
            raise ProblemInvalid(str(path), f"is not a problem of a known format ({', '.join(formats())}){installation_hint()}")
        problem: Problem = plug_in.load(path, root=root)
        before = self._by_id.get(problem.problem_id)
        if before is not None and before.digest != problem.digest and not (again and self._paths[problem.problem_id] == path):
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
