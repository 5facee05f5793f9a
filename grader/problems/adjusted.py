"""Reads problems with what an import changes in them.  Executes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from grader.errors import ProblemInvalid
from grader.formats import detect_format
from grader.formats import formats as known_formats
from grader.formats.adjustments import Adjustments
from grader.model import Problem


def load_adjusted(plug_in: ModuleType, path: Path, *, root: Path | None, adjustments: Adjustments, precision: str | None = None) -> Problem:
    """Read the problem at path. ProblemInvalid also where its format does not take the adjustments."""
    options: dict[str, Any] = {"root": root}
    if adjustments.any:
        if not _adjustable(plug_in):
            taking = ", ".join(one.NAME for one in known_formats().values() if _adjustable(one))
            options_text = "--set, --tolerance, --allow-lower-precision and --keep-weights"
            raise ProblemInvalid(str(path), f"{options_text} are for the format {taking}; edit this problem's own files")
        options["adjustments"] = adjustments
    problem: Problem = plug_in.load(path, **options) if precision is None else plug_in.load(path, precision, **options)
    return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class AdjustedSet:
    """The adjustments of several files: of the constants that are to be set, each file has its own."""

    adjustments: Adjustments
    by_file: Mapping[Path, frozenset[str]]

    @classmethod
    def of(cls, top: Path, paths: Sequence[Path], formats: Mapping[str, ModuleType], adjustments: Adjustments) -> AdjustedSet:
        """Look which file has which constant; ProblemInvalid where one is in none of several. A single file says itself what it lacks."""
        if not adjustments.constants or len(paths) < 2:
            return cls(adjustments=adjustments, by_file={})
        by_file = {path: _names(path, formats) for path in paths}
        known = frozenset().union(*by_file.values())
        if unknown := [name for name in adjustments.constants if name not in known]:
            there = ", ".join(sorted(known)) or "none"
            raise ProblemInvalid(str(top), f"no file here assigns a constant {unknown[0]!r} at its top level; the constants are: {there}")
        return cls(adjustments=adjustments, by_file=by_file)

    def of_file(self, path: Path) -> Adjustments:
        """The adjustments without the constants that this file, one of several, does not have."""
        if (own := self.by_file.get(path)) is None:
            return self.adjustments
        return replace(self.adjustments, constants={name: value for name, value in self.adjustments.constants.items() if name in own})


def constants_of(problem_format: ModuleType, path: Path) -> dict[str, str]:
    """The constants of the problem at path that can be set, with their values; none where its format has no such thing."""
    try:
        return dict(problem_format.settable(path)) if _adjustable(problem_format) else {}
    except ProblemInvalid:  # reported when it is loaded
        return {}


def _names(path: Path, formats: Mapping[str, ModuleType]) -> frozenset[str]:
    plug_in = detect_format(path, formats)
    return frozenset() if plug_in is None else frozenset(constants_of(plug_in, path))


def _adjustable(plug_in: ModuleType) -> bool:
    return bool(getattr(plug_in, "ACCEPTS_ADJUSTMENTS", False))
