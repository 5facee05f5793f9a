"""`grader-cli competitions check` and `new`: a competition's file, before a server reads it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from grader.cli.exits import Exit, UsageError
from grader.cli.output import print_line, print_note
from grader.cli.session import EXAMPLES
from grader.config import IMPORTED_NAME, state_directory
from grader.errors import ProblemNotFound
from grader.problems.store import Problems
from grader.views.sanitize import one_line
from grader_extensions.competitions.competition_file import CompetitionIdentifier
from grader_extensions.competitions.file_check import FILE_NAME, read_competition, template
from grader_extensions.competitions.store import Competitions

_OTHERS = 0o077


def check(path: Path, problem_dirs: Sequence[Path], state_dir: Path | None) -> Exit:
    """Print every mistake, or what the competition is."""
    file = path / FILE_NAME if path.is_dir() else path
    problems = _problems(problem_dirs, state_dir)
    _, mistakes = read_competition(file, problems)
    for mistake in mistakes:
        print_line(one_line(str(mistake.error), most_chars=1000))
    if mistakes:
        print_line(f"{len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}; a server does not start with this file")
        return Exit.OTHER_VERDICT
    (competition,) = Competitions.load([file], problems).all()
    count = sum(len(workloads) for workloads in competition.secret_workloads.values())
    text = f"{file}: ok: {competition.competition_id}, problems: {', '.join(competition.problem_ids)}, secret workloads: {count}"
    print_line(one_line(f"{text}, {competition.start_time:%Y-%m-%d %H:%M} to {competition.end_time:%Y-%m-%d %H:%M} UTC"))
    if competition.secret_seed and file.stat().st_mode & _OTHERS:
        warning = f"{file} holds secrets, and other users of this host can read it; run: chmod 600 {file}"
        print_note(one_line(warning), "yellow")
    return Exit.DONE


def new(name: str, problem_ids: Sequence[str], problem_dirs: Sequence[Path], state_dir: Path | None) -> Exit:
    """Write NAME/competition.toml."""
    try:
        TypeAdapter(CompetitionIdentifier).validate_python(name)
    except ValidationError:
        text = "is not a name; write at most 63 lower case letters, digits, _ and -, beginning with a letter"
        raise UsageError(f"{name[:80]!r} {text}") from None
    problems = _problems(problem_dirs, state_dir)
    file = Path(name) / FILE_NAME
    if not (available := problems.all()):
        raise UsageError("there are no problems here; name their directories with --problems DIR")
    try:
        chosen = [problems.get(problem_id) for problem_id in dict.fromkeys(problem_ids)] or [available[0]]
    except ProblemNotFound as error:
        raise UsageError(f"--problem: {error}; name its directory with --problems DIR if it is elsewhere") from None
    text = template(name, chosen, datetime.now(UTC), secrets.token_hex(16), file)
    try:
        file.parent.mkdir(exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{file} is there already; take another name, or remove it") from None
    except OSError as error:
        raise UsageError(f"{file} can't be written: {error.strerror}; go to a directory where this user may write") from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    print_line(f"{file}: edit it, then: grader-cli competitions check {file}")
    return Exit.DONE


def _problems(problem_dirs: Sequence[Path], state_dir: Path | None) -> Problems:
    """Those of the directories, or the examples; and those that were imported."""
    roots = tuple(problem_dirs) or ((EXAMPLES,) if EXAMPLES.is_dir() else ())
    return Problems.load(roots, (state_dir or state_directory()) / IMPORTED_NAME)
