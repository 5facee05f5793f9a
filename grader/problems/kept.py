"""Imported problems: one file each in a directory of the state directory, written whole or not at all, and read again when one changes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock

import structlog
from pydantic import TypeAdapter, ValidationError

from grader import extensions
from grader.errors import ProblemInvalid
from grader.formats import formats
from grader.model import Problem

log = structlog.get_logger()

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
    if problem.spec.format not in formats():
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
