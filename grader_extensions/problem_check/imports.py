"""`grader-cli problems import`: keeps problems of every format in the state directory, for every later command there.

It checks a single problem before, and more only where that is requested, since a whole level would take an hour. Needs the extras `server`
and `judge`: only `grader/cli/extras.py` loads this.
"""

from __future__ import annotations

import json as json_module
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.table import Table

from grader.cli.exits import Exit, GraderFailed, UsageError
from grader.cli.output import open_console, plain, print_line, print_note
from grader.config import Settings, state_directory
from grader.errors import JudgeBroken
from grader.formats import expected_layouts, formats
from grader.model import Problem
from grader.problems.store import keep
from grader.views.sanitize import one_line
from grader_extensions.formats.adjustments import Adjustments, literal
from grader_extensions.formats.data_sets import located, unpacked
from grader_extensions.formats.problem_sets import Imported, constants_of, import_all
from grader_extensions.problem_check.admission import Admission, AdmissionOutcome, describe
from grader_extensions.problem_check.check_box import CheckBox, open_box
from grader_extensions.problem_check.checks import check_names, check_problem
from sandbox.protocol.wire import Described

UNREQUESTED_CHECKS = 1  # so many problems are checked without --check
IMPORT_BUDGET_S = 30.0  # of the problem that an import checks
DESCRIBE_BUDGET_S = 120.0  # of all problems together
REASONS_SHOWN, REASON_CHARS, SHOWN_CONSTANTS = 12, 300, 6
_UNCHECKED = re.compile(r"not checked(?: to the end)?: ")
_HOW_TO_CHECK = "none was checked for what a cheat could pass: `grader-cli problems check PATH` does it, or --check here"


async def import_problems(
    path: Path,
    state_dir: Path | None,
    adjustments: Adjustments,
    format_name: str | None,
    prefix: str,
    *,
    check: bool | None,
    sandbox: str,
    trusted: bool,
    force: bool,
    json: bool,
) -> Exit:
    """Import the problems at or below a path, and print the outcome of each. MISUSE where nothing was imported.

    check: check problems before they are stored; None: a single problem only; False: execute nothing at all. sandbox, trusted: where their
    code runs. force: store refused problems, too. prefix: put in front of every id.
    """
    into = Settings(state_dir=state_dir or state_directory()).imported_path
    try:
        with unpacked(path) as (directory, refused):
            entries = import_all(directory, format_name=format_name, prefix=prefix, adjustments=adjustments)
            imports: Sequence[Imported] = [*refused, *(entry if force else _refuse_unusable(entry) for entry in entries)]
            count = sum(entry.fresh for entry in imports)
            checks = count > 0 and (count <= UNREQUESTED_CHECKS if check is None else check)
            if checks:
                async with open_box(sandbox, trusted=trusted) as box:  # each is stored at once
                    imports = [_store(into, await _checked(entry, box, force=force, json=json)) for entry in imports]
            else:
                described = imports if trusted or check is False else await _describe_all(imports, sandbox)
                imports = [_store(into, entry) for entry in described]
            if directory != path:
                imports = [located(entry, directory, path) for entry in imports]
    except OSError as error:
        raise GraderFailed(f"the state directory's {into} can't be written: {error}; name another with --state-dir") from None
    layouts = expected_layouts({name: layout for name, layout in formats().items() if format_name in (None, name)})
    empty = f"nothing here looks like a problem: {path}; looked for {layouts}"
    if json:
        print(json_module.dumps(_to_data(imports, empty), indent=2))
    elif imports:
        _print(imports, path, "" if checks else _HOW_TO_CHECK)
    else:
        print(empty)
    return Exit.DONE if any(entry.problem for entry in imports) else Exit.MISUSE


def _refuse_unusable(entry: Imported) -> Imported:
    if not entry.fresh or not entry.unusable:
        return entry
    return Imported(path=entry.path, reason=f"can't be judged here: {entry.unusable}; --force imports it all the same")


def read_adjustments(set_constants: Sequence[str] | None, tolerance: float | None, **adjustments: Any) -> Adjustments:
    """Read `--set` and `--tolerance`; the others are as in `Adjustments`. Raises UsageError."""
    constants: dict[str, str] = {}
    for text in set_constants or ():
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name.isidentifier():
            raise UsageError(f"--set {text!r} is not NAME=VALUE; write it as batch_size=4")
        if name in constants:
            raise UsageError(f"--set {name} is given twice; give it once")
        try:
            constants[name] = literal(value)
        except ValueError as error:
            raise UsageError(f"--set {name}: {error}") from None
    try:
        return Adjustments(constants=constants, tolerance=tolerance, **adjustments)
    except ValueError as error:
        raise UsageError(f"--tolerance: {error}") from None


def _store(into: Path, entry: Imported) -> Imported:
    return replace(entry, replaced=keep(entry.problem, into)) if entry.fresh and entry.problem is not None else entry


def _print(imports: Sequence[Imported], path: Path, unchecked: str) -> None:
    table = Table("file", "problem", "", box=None, pad_edge=False)
    for entry in imports:
        style = "red" if entry.problem is None else "yellow" if entry.warnings else ""
        problem_id = entry.problem.problem_id if entry.problem else "-"
        outcome = one_line(_outcome(entry, path), most_chars=1000)
        table.add_row(plain(one_line(_relative(entry.path, path))), plain(one_line(problem_id)), plain(outcome, style))
    open_console().print(table)
    counts = _counts(imports)
    duplicates = f", {counts['same']} found twice" if counts["same"] else ""
    print(f"{counts['imported']} imported, {counts['refused']} refused{duplicates}")
    for reason, count in _reasons(imports).most_common(REASONS_SHOWN):
        print_line(f"  {count} refused: {one_line(reason)}")
    if counts["imported"]:
        if unchecked:
            print(unchecked)
        print("a running server of this state directory finds them too; problems of its competitions change when it starts again")


def _outcome(entry: Imported, top: Path) -> str:
    if entry.problem is None:
        return entry.reason
    if entry.same_as is not None:
        return f"the same as {_relative(entry.same_as, top)}"
    return "; ".join(("replaces another of this id; --prefix keeps both" if entry.replaced else "imported", *entry.warnings))


def _relative(file: Path, path: Path) -> str:
    top = path if path.is_dir() else path.parent
    return str(file.relative_to(top)) if file != top and file.is_relative_to(top) else str(file)


def _reasons(imports: Sequence[Imported]) -> Counter[str]:
    """Count the reasons of refusals, without the line or file that each begins with."""
    return Counter(re.sub(r"^(line \d+: |\S+:\d+: )", "", entry.reason) for entry in imports if entry.problem is None)


def _counts(imports: Sequence[Imported]) -> Counter[str]:
    return Counter("refused" if entry.problem is None else "imported" if entry.fresh else "same" for entry in imports)


def _to_data(imports: Sequence[Imported], empty: str) -> dict[str, object]:
    counts = _counts(imports)
    return {
        "imported": [
            {
                "path": str(entry.path),
                "problem": entry.problem.problem_id,
                "format": entry.problem.spec.format,
                "digest": entry.problem.digest,
                "warnings": list(entry.warnings),
            }
            for entry in imports
            if entry.problem is not None and entry.fresh
        ],
        "refused": [{"path": str(entry.path), "reason": entry.reason} for entry in imports if entry.problem is None],
        "same": [
            {"path": str(entry.path), "problem": entry.problem.problem_id, "same_as": str(entry.same_as)}
            for entry in imports
            if entry.problem is not None and entry.same_as is not None
        ],
        "counts": {name: counts[name] for name in ("imported", "refused", "same")},
        "reasons": dict(_reasons(imports).most_common()),
        "message": "" if imports else empty,
    }


async def _describe_all(imports: Sequence[Imported], sandbox: str) -> Sequence[Imported]:
    """Learn the arguments of the entry of each problem where only its own code has them. Where that fails they stay as they are."""
    waiting = [entry.problem for entry in imports if entry.fresh and entry.problem is not None and _is_described(entry.problem)]
    if not waiting:
        return imports
    print_note(f"learning the arguments of {len(waiting)} problems in a sandbox, at most {DESCRIBE_BUDGET_S:.0f} s (not with --no-check)")
    try:
        async with open_box(sandbox) as box:
            assert box is not None
            descriptions = await describe(waiting, box, DESCRIBE_BUDGET_S)
    except (GraderFailed, JudgeBroken) as error:
        print_note(f"not learned: {one_line(str(error))}")
        return imports
    return [_described(entry, descriptions.get(entry.problem.digest) if entry.problem else None) for entry in imports]


def _is_described(problem: Problem) -> bool:
    """Return whether only the problem's own code knows its arguments."""
    return hasattr(formats().get(problem.spec.format), "with_description")


def _described(entry: Imported, description: Described | None) -> Imported:
    if entry.problem is None or description is None or not _is_described(entry.problem):
        return entry
    return replace(entry, problem=formats()[entry.problem.spec.format].with_description(entry.problem, description))


async def _checked(entry: Imported, box: CheckBox | None, *, force: bool, json: bool) -> Imported:
    """Check a problem. Without the memory or time for it the problem is stored unchecked, as it is in a set."""
    if entry.problem is None or not entry.fresh or entry.unusable:
        return entry
    admission = await check_problem(entry.problem, None, IMPORT_BUDGET_S, box, json=json)
    match admission.outcome:
        case AdmissionOutcome.ADMITTED:
            warnings = entry.warnings
        case AdmissionOutcome.WARNED:
            warnings = (*entry.warnings, f"a wrong kernel could pass ({check_names(admission.warnings)})")
        case AdmissionOutcome.UNCHECKED:
            warnings = (*entry.warnings, f"not checked: {_unchecked_reason(entry, admission)}")
        case AdmissionOutcome.REFUSED if force:
            warnings = (*entry.warnings, f"although refused ({check_names(admission.refusals)})")
        case AdmissionOutcome.REFUSED:
            reason = f"refused ({check_names(admission.refusals)}): {one_line(admission.refusals[0].message, most_chars=REASON_CHARS)}"
            return Imported(path=entry.path, reason=f"{reason}; --force imports it all the same")
    return _described(replace(entry, warnings=warnings), admission.described)


def _unchecked_reason(entry: Imported, admission: Admission) -> str:
    """The first reason, and the constants that make the problem smaller."""
    assert entry.problem is not None
    reason = _UNCHECKED.sub("", admission.left_out[0].message) if admission.left_out else "nothing was found"
    constants = constants_of(formats()[entry.problem.spec.format], entry.path)
    listed = ", ".join(f"{name} = {value}" for name, value in list(constants.items())[:SHOWN_CONSTANTS])
    return one_line(reason, most_chars=REASON_CHARS) + (f"; its constants: {listed}" if listed else "")
