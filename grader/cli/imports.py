"""`grader-cli problems import`: keeps problems of every format in the state directory, for every later command there.

One problem is checked first, as `problems check` does it. A whole level would take an hour, so that has to be asked for: of several only
their arguments are learned.
"""

from __future__ import annotations

import json as json_module
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rich.table import Table

from grader.cli.adjusting import adjustments
from grader.cli.check_options import AdjustOptions, CheckPlace
from grader.cli.exits import Exit, GraderFailed
from grader.cli.import_checks import checked_all, described_all, usable
from grader.cli.output import plain, print_line, stdout_console
from grader.config import Settings, state_directory
from grader.formats import expected_layouts, formats
from grader.problems.kept import keep
from grader.problems.store import Imported, import_all
from grader.views.sanitize import one_line

CHECKED_UNASKED = 1
REASONS_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How to import. check: admission before anything is kept; None: where there is one only; False: nothing is executed at all. force:
    keep what is refused, too.

    prefix: put in front of every id. place: where the check runs the problem's code. changes: what is to be changed in each problem.
    """

    format_name: str | None = None
    precision: str | None = None
    prefix: str = ""
    check: bool | None = None
    force: bool = False
    place: CheckPlace = field(default_factory=CheckPlace)
    changes: AdjustOptions = field(default_factory=AdjustOptions)


async def import_(path: Path, state_dir: Path | None, wanted: ImportOptions, *, json: bool) -> Exit:
    """Import what lies at or below path, and print what became of each. MISUSE where nothing was imported."""
    into = Settings(state_dir=state_dir or state_directory()).imported_path
    try:
        changes = adjustments(wanted.changes)
        read = import_all(path, format_name=wanted.format_name, precision=wanted.precision, prefix=wanted.prefix, adjustments=changes)
        found = [one if wanted.force else usable(one) for one in read]
        count = sum(one.fresh for one in found)
        checks = bool(count) and (wanted.check if wanted.check is not None else count <= CHECKED_UNASKED)
        if checks:
            found = await checked_all(found, wanted.place, partial(_kept, into), force=wanted.force, json=json)
        else:
            described = await described_all(found, wanted.place) if wanted.check is None else found
            found = [_kept(into, one) for one in described]
    except OSError as error:
        raise GraderFailed(f"the state directory's {into} can't be written: {error}; name another with --state-dir") from None
    if json:
        print(json_module.dumps(_data(found, _nothing(path, wanted.format_name)), indent=2))
    else:
        _print(found, path, checked=checks, nothing=_nothing(path, wanted.format_name))
    return Exit.DONE if any(one.problem for one in found) else Exit.MISUSE


def _kept(into: Path, one: Imported) -> Imported:
    return replace(one, replaced=keep(one.problem, into)) if one.fresh and one.problem is not None else one


def _print(found: Sequence[Imported], path: Path, *, checked: bool, nothing: str) -> None:
    if not found:
        print(nothing)
        return
    table = Table("file", "problem", "", box=None, pad_edge=False)
    for one in found:
        table.add_row(
            plain(one_line(_shown(one.path, path))),
            plain(one_line(one.problem.problem_id if one.problem else "-")),
            plain(one_line(_outcome(one, path), most_chars=1000), "red" if one.problem is None else "yellow" if one.warnings else ""),
        )
    stdout_console().print(table)
    summary = _summary(found)
    again = f", {summary['same']} found twice" if summary["same"] else ""
    print(f"{summary['imported']} imported, {summary['refused']} refused{again}")
    for reason, count in Counter(_without_line(one.reason) for one in found if one.problem is None).most_common(REASONS_SHOWN):
        print_line(f"  {count} refused: {one_line(reason)}")
    if summary["imported"]:
        if not checked:
            print("none was checked for what a cheat could pass: `grader-cli problems check PATH` does it, or --check here")
        print("a running server of this state directory finds them too; problems of its competitions change when it starts again")


def _outcome(one: Imported, top: Path) -> str:
    if one.problem is None:
        return one.reason
    if one.same_as is not None:
        return f"the same as {_shown(one.same_as, top)}"
    return "; ".join(("replaces another of this id; --prefix keeps both" if one.replaced else "imported", *one.warnings))


def _shown(one: Path, path: Path) -> str:
    top = path if path.is_dir() else path.parent
    return str(one.relative_to(top)) if one != top and one.is_relative_to(top) else str(one)


def _nothing(path: Path, format_name: str | None) -> str:
    among = {name: one for name, one in formats().items() if format_name in (None, name)}
    return f"nothing here looks like a problem: {path}; looked for {expected_layouts(among)}"


def _without_line(reason: str) -> str:
    """So that the same reason of several files is one: without the line, and without a competition's or problem's own name."""
    return re.sub(r"^(line \d+: |\S+:\d+: )", "", reason)


def _summary(found: Sequence[Imported]) -> dict[str, int]:
    return {
        "imported": sum(one.problem is not None and one.same_as is None for one in found),
        "refused": sum(one.problem is None for one in found),
        "same": sum(one.same_as is not None for one in found),
    }


def _data(found: Sequence[Imported], nothing: str) -> dict[str, object]:
    return {
        "imported": [
            {
                "path": str(one.path),
                "problem": one.problem.problem_id,
                "format": one.problem.spec.format,
                "digest": one.problem.digest,
                "warnings": list(one.warnings),
            }
            for one in found
            if one.problem is not None and one.same_as is None
        ],
        "refused": [{"path": str(one.path), "reason": one.reason} for one in found if one.problem is None],
        "same": [
            {"path": str(one.path), "problem": one.problem.problem_id, "same_as": str(one.same_as)}
            for one in found
            if one.problem is not None and one.same_as is not None
        ],
        "counts": _summary(found),
        "reasons": dict(Counter(_without_line(one.reason) for one in found if one.problem is None).most_common()),
        "message": "" if found else nothing,
    }
