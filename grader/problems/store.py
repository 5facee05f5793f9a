"""The store of problems that submissions may be made to, and the import of others.  Reads files, executes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from grader.errors import ProblemInvalid, ProblemNotFound
from grader.formats import detect_format, expected_layouts
from grader.formats import formats as known_formats
from grader.formats.adjustments import UNCHANGED, Adjustments
from grader.formats.inside import own_directory
from grader.model import ID_LIMIT_CHARS, Problem
from grader.problems.adjusted import AdjustedSet, load_adjusted
from grader.problems.candidates import ImportCandidate, candidates
from grader.problems.kept import KeptProblems, Report, log_unreadable
from grader.problems.renaming import distinct_names, is_prefix, with_prefix

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
            found = [root] if store._format(root) else [path for path in sorted(root.iterdir()) if path.is_dir() and store._format(path)]
            if not found:
                raise ProblemInvalid(str(root), "holds no problem; a native one is a directory with problem.toml and reference.py")
            for path in found:
                store.add(path, root if root.is_dir() and not path.is_symlink() else None)
        return store

    def add(self, path: Path, root: Path | None = None) -> Problem:
        """Read the problem at path, and no file outside root; None: outside the problem's directory.

        The same problem twice is fine, two under one id are not.
        """
        plug_in = self._format(path)
        if plug_in is None:
            raise ProblemInvalid(str(path), f"is not a problem of a known format ({', '.join(self._formats)})")
        problem = load_adjusted(plug_in, path, root=root, adjustments=UNCHANGED)
        before = self._by_id.get(problem.problem_id)
        if before is not None and before.digest != problem.digest:
            raise ProblemInvalid(
                str(path), f"is another problem {problem.problem_id!r} than {self._paths[problem.problem_id]}; rename one, or leave one out"
            )
        self._by_id[problem.problem_id], self._paths[problem.problem_id] = problem, path
        return problem

    def pin(self, problem_id: str) -> Problem:
        """The problem of that id, or ProblemNotFound; from now on an import does not replace it in this store."""
        return self._pinned.setdefault(problem_id, self.get(problem_id))

    def get(self, problem_id: str) -> Problem:
        """The problem of that id, or ProblemNotFound."""
        found = self._by_id.get(problem_id) or self._pinned.get(problem_id) or self._imported().get(problem_id)
        if found is None:
            fault = _UNREADABLE if self._kept is not None and problem_id in self._kept.unreadable() else ""
            raise ProblemNotFound(problem_id, tuple(_nearest(problem_id, [problem.problem_id for problem in self.all()])), fault)
        return found

    def by_digest(self, digest: str) -> Problem | None:
        """The problem of that digest, if it is still here."""
        return next((problem for problem in self.all() if problem.digest == digest), None)

    def all(self) -> tuple[Problem, ...]:
        """Every problem, by id."""
        found = {**self._imported(), **self._pinned, **self._by_id}
        return tuple(found[key] for key in sorted(found))

    def _imported(self) -> Mapping[str, Problem]:
        return {} if self._kept is None else self._kept.now()

    def _format(self, path: Path) -> ModuleType | None:
        return detect_format(path, self._formats)


def _nearest(wanted: str, known: Iterable[str]) -> list[str]:
    """The names of at most LISTED_COUNT problems, those most like the one that was asked for first."""
    names = sorted(known)
    alike = get_close_matches(wanted[:ID_LIMIT_CHARS], names, n=LISTED_COUNT)
    return [*alike, *(one for one in names if one not in alike)][:LISTED_COUNT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of one path of an import: the problem that it holds, or why it is none.

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
        """Whether it holds a problem that no earlier path of the import held."""
        return self.problem is not None and self.same_as is None


def import_all(
    path: Path,
    *,
    format_name: str | None = None,
    precision: str | None = None,
    prefix: str = "",
    adjustments: Adjustments = UNCHANGED,
) -> Iterator[Imported]:
    """Read every problem at or below path; `keep` puts one where `Problems.load` finds it.

    What is wrong is an Imported with a reason, and the others go on. ProblemInvalid where path is not there, an argument is not known, or
    no file has a constant that is to be set.
    """
    known = known_formats()
    formats = known if format_name is None else {format_name: known[format_name]} if format_name in known else {}
    if not formats:
        raise ProblemInvalid(str(path), f"format {format_name!r} is not known; take one of: {', '.join(known)}")
    if prefix and not is_prefix(prefix):
        raise ProblemInvalid(str(path), f"prefix {prefix!r} can't begin an id; write lower case letters, digits and '_', first a letter")
    if not _exists(path):
        raise ProblemInvalid(str(path), "does not exist; check the path")
    listed = list(candidates(path, formats))
    wanted = AdjustedSet.of(path, [one.path for one in listed], formats, adjustments)
    found = [_import(one, formats, precision, own_directory(path), wanted.of_file(one.path)) for one in listed]
    yield from _named_apart(found, prefix)


def _import(
    candidate: ImportCandidate, formats: Mapping[str, ModuleType], precision: str | None, root: Path, adjustments: Adjustments
) -> Imported:
    path = candidate.path
    if candidate.reason:
        return Imported(path=path, reason=candidate.reason)
    if candidate.named_in is not None and not _exists(path):
        return Imported(path=path, reason=f"does not exist; {candidate.named_in.name} names it")
    try:
        problem = _read(path, formats, precision, root, adjustments)
    except ProblemInvalid as invalid:
        where = Path(invalid.path).name
        is_named = where == path.name or invalid.message.startswith(where)
        return Imported(path=path, reason=invalid.message if is_named else f"{where}: {invalid.message}")
    plug_in = formats[problem.spec.format]
    warnings: tuple[str, ...] = plug_in.warnings(problem) if hasattr(plug_in, "warnings") else ()
    unusable: str = plug_in.unusable(problem) if hasattr(plug_in, "unusable") else ""
    return Imported(path=path, problem=problem, warnings=warnings, unusable=unusable)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such as a name that is too long
        return False


def _named_apart(found: Sequence[Imported], prefix: str) -> Iterator[Imported]:
    """Every problem under an id of its own: where several have the same, the names of their directories go in front."""
    by_id: dict[str, dict[str, Imported]] = {}
    for one in found:
        if one.problem is not None:
            by_id.setdefault(one.problem.problem_id, {}).setdefault(one.problem.digest, one)
    names = {
        one.path: name
        for alike in by_id.values()
        if len(alike) > 1
        for one, name in zip(alike.values(), distinct_names([one.path for one in alike.values()]), strict=False)
    }
    done: dict[Path, Imported] = {}
    taken: dict[str, Path] = {}
    for one in found:
        if one.problem is None:
            yield one
            continue
        first = by_id[one.problem.problem_id][one.problem.digest]
        if first is not one:
            yield replace(done[first.path], path=one.path, same_as=first.path)
            continue
        done[one.path] = _named(one, [name for name in (names.get(one.path), prefix) if name], taken)
        yield done[one.path]


def _named(one: Imported, prefixes: Sequence[str], taken: dict[str, Path]) -> Imported:
    """With these in front of its id, the last of them first; or refused, where the id is too long or taken."""
    problem = one.problem
    assert problem is not None
    try:
        for prefix in prefixes:
            problem = with_prefix(problem, prefix)
    except ValueError as wrong:
        return Imported(path=one.path, reason=str(wrong))
    if (other := taken.setdefault(problem.problem_id, one.path)) != one.path:
        text = f"has the id {problem.problem_id!r}, as {other} has; import one by itself with --prefix, or rename one"
        return Imported(path=one.path, reason=text)
    return replace(one, problem=problem)


def _read(
    path: Path, formats: Mapping[str, ModuleType], precision: str | None, root: Path, adjustments: Adjustments = UNCHANGED
) -> Problem:
    plug_in = detect_format(path, formats)
    if plug_in is None:
        plug_in = next((one for one in formats.values() if getattr(one, "EXPLAINS_SUFFIX", None) == path.suffix), None)
    if plug_in is None:
        raise ProblemInvalid(str(path), f"is not a problem of a known format; looked for {expected_layouts(formats)}")
    if precision is not None and not getattr(plug_in, "ACCEPTS_PRECISION", False):
        taking = ", ".join(one.NAME for one in known_formats().values() if getattr(one, "ACCEPTS_PRECISION", False))
        raise ProblemInvalid(str(path), f"--precision is for the format {taking}; a problem in {plug_in.NAME} has its own dtypes")
    return load_adjusted(plug_in, path, root=root, precision=precision, adjustments=adjustments)
