"""The store of problems that submissions may be made to.  Reads files, executes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

from grader.errors import ProblemInvalid, ProblemNotFound
from grader.formats import FORMATS
from grader.model import Problem


class Problems:
    """Problems by id and by digest. One id is one problem."""

    def __init__(self, formats: Mapping[str, ModuleType] = FORMATS) -> None:
        self._formats = formats
        self._by_id: dict[str, Problem] = {}
        self._paths: dict[str, Path] = {}

    @classmethod
    def load(cls, roots: Iterable[Path]) -> Problems:
        """Read every problem at or directly below the roots; a wrong one raises ProblemInvalid."""
        store = cls()
        for root in roots:
            if not root.is_dir():
                raise ProblemInvalid(str(root), "is no directory; name a problem's directory, or one that holds such directories")
            found = [root] if store._format(root) else [path for path in sorted(root.iterdir()) if path.is_dir() and store._format(path)]
            if not found:
                raise ProblemInvalid(str(root), "holds no problem; a native one is a directory with problem.toml and reference.py")
            for path in found:
                store.add(path)
        return store

    def add(self, path: Path) -> Problem:
        """Read the problem at path. The same problem twice is fine, two under one id are not."""
        plug_in = self._format(path)
        if plug_in is None:
            raise ProblemInvalid(str(path), f"is no problem of a known format ({', '.join(self._formats)})")
        problem: Problem = plug_in.load(path)
        before = self._by_id.get(problem.problem_id)
        if before is not None and before.digest != problem.digest:
            raise ProblemInvalid(
                str(path), f"is another problem {problem.problem_id!r} than {self._paths[problem.problem_id]}; rename one, or leave one out"
            )
        self._by_id[problem.problem_id] = problem
        self._paths[problem.problem_id] = path
        return problem

    def get(self, problem_id: str) -> Problem:
        """The problem of that id, or ProblemNotFound."""
        try:
            return self._by_id[problem_id]
        except KeyError:
            raise ProblemNotFound(problem_id, sorted(self._by_id)[:20]) from None

    def by_digest(self, digest: str) -> Problem | None:
        """The problem of that digest, if it is still here."""
        return next((problem for problem in self._by_id.values() if problem.digest == digest), None)

    def all(self) -> tuple[Problem, ...]:
        """Every problem, by id."""
        return tuple(self._by_id[key] for key in sorted(self._by_id))

    def _format(self, path: Path) -> ModuleType | None:
        return next((one for one in self._formats.values() if one.matches(path)), None)
