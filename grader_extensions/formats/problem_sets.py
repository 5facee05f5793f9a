"""Problem sets: every problem at or below a path, in every format, each under an id of its own.  Reads files, executes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

from grader.errors import ProblemInvalid
from grader.formats import detect_format, expected_layouts, installation_hint
from grader.formats import formats as known_formats
from grader.model import ID_LIMIT_CHARS, Problem, problem_id_of
from grader_extensions.formats.adjustments import UNCHANGED, Adjustments

_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,31}")  # of ids


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


def candidates(path: Path, formats: Mapping[str, ModuleType]) -> Iterator[Imported]:
    """Yield what a format takes for its own, what a list names that a format knows, and path itself where it is a file.

    A list and its directory may name the same problem; it comes once. What is known to be wrong has a reason.
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


def _walk(path: Path, formats: Mapping[str, ModuleType], *, explicit: bool) -> Iterator[Imported]:
    listed = list(_listed(path, formats))
    yield from listed
    if detect_format(path, formats) is not None or (explicit and not listed and path.is_file()):
        yield Imported(path=path)
    elif path.is_dir() and (explicit or not path.is_symlink()):
        try:
            children = sorted(path.iterdir(), key=_natural)
        except OSError as error:
            yield _unreadable(path, error)
            return
        for below in children:
            if not below.name.startswith(".") and below.name != "__pycache__":
                yield from _walk(below, formats, explicit=False)


def _listed(path: Path, formats: Mapping[str, ModuleType]) -> Iterator[Imported]:
    for plug_in in formats.values():
        if not hasattr(plug_in, "members"):
            continue
        try:
            for member in plug_in.members(path):
                there = os.path.exists(member)  # noqa: PTH110  a name may be too long
                yield Imported(path=member, reason="" if there else f"does not exist; {path.name} names it")
        except ProblemInvalid as invalid:
            yield Imported(path=path, reason=invalid.message)
        except OSError as error:
            yield _unreadable(path, error)


def _unreadable(path: Path, error: OSError) -> Imported:
    return Imported(path=path, reason=f"can't be read: {error.strerror}; check its permissions")


def _natural(path: Path) -> tuple[int, str]:
    """2_x before 10_x."""
    number = path.name.split("_", 1)[0]
    return (int(number) if number.isdecimal() and len(number) < 10 else 0, path.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Result of one path of an import: the problem that it holds, or the reason that it holds none; neither: it is to be read.

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


def import_all(path: Path, *, format_name: str | None = None, prefix: str = "", adjustments: Adjustments = UNCHANGED) -> Iterator[Imported]:
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
    roots = {candidate.path: None if candidate.path == path else root for candidate in listed}  # None: a problem named by itself
    imports = [entry if entry.reason else _import(entry.path, formats, roots[entry.path], by_file[entry.path]) for entry in listed]
    yield from _named_apart(imports, prefix)


def _import(path: Path, formats: Mapping[str, ModuleType], root: Path | None, adjustments: Adjustments) -> Imported:
    try:
        plug_in = detect_format(path, formats)
        if plug_in is None:
            plug_in = next((module for module in formats.values() if getattr(module, "EXPLAINS_SUFFIX", None) == path.suffix), None)
        if plug_in is None:
            raise ProblemInvalid(str(path), f"is not a problem of a known format; looked for {expected_layouts(formats)}")
        if adjustments != UNCHANGED and not _adjustable(plug_in):
            taking = ", ".join(module.NAME for module in known_formats().values() if _adjustable(module))
            options = "--precision, --set, --tolerance, --allow-lower-precision and --keep-weights"
            raise ProblemInvalid(str(path), f"{options} are for the format {taking}; edit this problem's own files")
        changes = {} if adjustments == UNCHANGED else {"adjustments": adjustments}
        problem: Problem = plug_in.load(path, root=root, **changes)
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
