"""`grader-cli problems import`: keeps problems of every format in the state directory, for every later command there.

One problem is checked first, as `problems check` does it. A whole level would take an hour, so that has to be asked for: of several only
their arguments are learned.
"""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rich.table import Table

from grader.cli.adjusting import adjustments
from grader.cli.check_options import AdjustOptions, CheckPlace
from grader.cli.exits import Exit, GraderFailed
from grader.cli.import_checks import checked_all, described_all
from grader.cli.progress import stdout_console
from grader.cli.text import one_line, plain
from grader.config import Settings, state_directory
from grader.problems.store import Imported, import_all, keep

CHECKED_UNASKED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How to import. check: admission before anything is kept; None: where there is one only; False: nothing is executed at all. force:
    keep what is refused, too.

    place: where the check runs the problem's code. changes: what is to be changed in each problem.
    """

    format_name: str | None = None
    precision: str | None = None
    check: bool | None = None
    force: bool = False
    place: CheckPlace = field(default_factory=CheckPlace)
    changes: AdjustOptions = field(default_factory=AdjustOptions)


async def import_(path: Path, state_dir: Path | None, wanted: ImportOptions, *, json: bool) -> Exit:
    """Import what lies at or below path, and print what became of each. MISUSE where nothing was imported."""
    into = Settings(state_dir=state_dir or state_directory()).imported_path
    try:
        changes = adjustments(wanted.changes)
        found = list(import_all(path, format_name=wanted.format_name, precision=wanted.precision, adjustments=changes))
        count = sum(one.problem is not None for one in found)
        checks = bool(count) and (wanted.check if wanted.check is not None else count <= CHECKED_UNASKED)
        if checks:
            found = await checked_all(found, wanted.place, partial(_kept, into), force=wanted.force, json=json)
        else:
            described = await described_all(found, wanted.place) if wanted.check is None else found
            found = [_kept(into, one) for one in described]
    except OSError as error:
        raise GraderFailed(f"the state directory's {into} can't be written: {error}; name another with --state-dir") from None
    if not checks and not json:
        print("none was checked for what a cheat could pass: `grader-cli problems check PATH` does it, or --check here")
    if json:
        print(json_module.dumps(_data(found), indent=2))
    else:
        _print(found, path)
    return Exit.DONE if any(one.problem for one in found) else Exit.MISUSE


def _kept(into: Path, one: Imported) -> Imported:
    return one if one.problem is None else replace(one, replaced=keep(one.problem, into))


def _print(found: Sequence[Imported], path: Path) -> None:
    table = Table("file", "problem", "", box=None, pad_edge=False)
    top = path if path.is_dir() else path.parent
    for one in found:
        shown = one.path.relative_to(top) if one.path != top else one.path
        done = ("replaces another" if one.replaced else "imported") + (f", {one.note}" if one.note else "")
        message = one.reason if one.problem is None else done
        table.add_row(
            plain(one_line(str(shown))),
            plain(one_line(one.problem.problem_id if one.problem else "-")),
            plain(one_line(message, most_chars=1000), "red" if one.problem is None else "yellow" if one.note else ""),
        )
    if found:
        stdout_console().print(table)
    count = sum(one.problem is not None for one in found)
    print(f"{count} of {len(found)} imported" if found else f"nothing here looks like a problem: {path}")
    if count:
        print("a server that runs already has to be started again to know them")


def _data(found: Sequence[Imported]) -> dict[str, object]:
    return {
        "imported": [
            {
                "path": str(one.path),
                "problem": one.problem.problem_id,
                "format": one.problem.spec.format,
                "digest": one.problem.digest,
                "note": one.note,
            }
            for one in found
            if one.problem is not None
        ],
        "refused": [{"path": str(one.path), "reason": one.reason} for one in found if one.problem is None],
    }
