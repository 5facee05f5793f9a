"""`grader-cli problems import`: keeps problems of every format in the state directory, for every later command there.

An installed package may run their code before (`ProblemCheck` in `grader/extensions.py`): it checks a single problem, and more only where
that is requested, since a whole level would take an hour. Needs the extras `server` and `judge`: only `grader/cli/extras.py` loads this.
"""

from __future__ import annotations

import json as json_module
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.table import Table

from grader import extensions
from grader.cli.exits import Exit, GraderFailed, UsageError
from grader.cli.output import plain, print_line, stdout_console
from grader.config import Settings, state_directory
from grader.formats import expected_layouts, formats
from grader.formats.adjustments import Adjustments, literal
from grader.problems.store import Imported, import_all, keep
from grader.views.sanitize import one_line

UNREQUESTED_CHECKS = 1  # so many problems are checked without --check
REASONS_SHOWN = 12
_HOW_TO_CHECK = "`grader-cli problems check PATH` does it, or --check here"
_NOT_INSTALLED = f"no installed package checks problems; {extensions.HOW_TO_INSTALL}"


async def import_problems(
    path: Path,
    state_dir: Path | None,
    adjustments: Adjustments,
    format_name: str | None,
    precision: str | None,
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
    checks_of_packages = () if check is False else (line.problem_check() for line in extensions.command_lines())
    examine = next(filter(None, checks_of_packages), None)
    if check and examine is None:
        raise UsageError(f"--check: {_NOT_INSTALLED}")
    into = Settings(state_dir=state_dir or state_directory()).imported_path
    try:
        entries = import_all(path, format_name=format_name, precision=precision, prefix=prefix, adjustments=adjustments)
        imports: Sequence[Imported] = [entry if force else _refuse_unusable(entry) for entry in entries]
        count = sum(entry.fresh for entry in imports)
        checks = examine is not None and bool(count) and (count <= UNREQUESTED_CHECKS if check is None else check)
        if examine is None:
            imports = [_store(into, entry) for entry in imports]
        else:  # each is stored at once
            examined = examine(imports, check=checks, sandbox=sandbox, trusted=trusted, force=force, json=json)
            imports = [_store(into, entry) async for entry in examined]
    except OSError as error:
        raise GraderFailed(f"the state directory's {into} can't be written: {error}; name another with --state-dir") from None
    layouts = expected_layouts({name: layout for name, layout in formats().items() if format_name in (None, name)})
    empty = f"nothing here looks like a problem: {path}; looked for {layouts}"
    if json:
        print(json_module.dumps(_to_data(imports, empty), indent=2))
    elif imports:
        how_to_check = _HOW_TO_CHECK if check is False or examine else _NOT_INSTALLED
        _print(imports, path, "" if checks else f"none was checked for what a cheat could pass: {how_to_check}")
    else:
        print(empty)
    return Exit.DONE if any(entry.problem for entry in imports) else Exit.MISUSE


def _refuse_unusable(entry: Imported) -> Imported:
    if not entry.fresh or not entry.unusable:
        return entry
    return Imported(path=entry.path, reason=f"can't be judged here: {entry.unusable}; --force imports it all the same")


def read_adjustments(
    set_constants: Sequence[str] | None, tolerance: float | None, allow_lower_precision: bool, keep_weights: bool
) -> Adjustments:
    """Read `--set`, `--tolerance`, `--allow-lower-precision` and `--keep-weights`. Raises UsageError."""
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
        return Adjustments(constants=constants, tolerance=tolerance, allow_lower_precision=allow_lower_precision, keep_weights=keep_weights)
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
    stdout_console().print(table)
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
