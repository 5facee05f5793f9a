"""`grader-cli competitions check`: a competition's file, before a server reads it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from grader.cli.exits import Exit
from grader.cli.output import print_line, print_note
from grader.cli.session import EXAMPLES
from grader.config import IMPORTED_NAME, state_directory
from grader.problems.store import Problems
from grader.views.sanitize import one_line
from grader_extensions.competitions.store import FILE_NAME, Competitions, read_competition

_OTHERS = 0o077


def check(path: Path, problem_dirs: Sequence[Path], state_dir: Path | None) -> Exit:
    """Print every mistake, or what the competition is. problem_dirs: the examples where there are none."""
    file = path / FILE_NAME if path.is_dir() else path
    roots = problem_dirs or ([EXAMPLES] if EXAMPLES.is_dir() else [])
    problems = Problems.load(roots, (state_dir or state_directory()) / IMPORTED_NAME)
    _, mistakes = read_competition(file, problems)
    for mistake in mistakes:
        print_line(one_line(str(mistake), most_chars=1000))
    if mistakes:
        print_line(f"{len(mistakes)} mistake{'s' if len(mistakes) > 1 else ''}; a server does not start with this file")
        return Exit.OTHER_VERDICT
    (competition,) = Competitions.load([file], problems).all()
    count = sum(len(workloads) for workloads in competition.secret_workloads.values())
    text = f"{file}: ok: {competition.competition_id}, problems: {', '.join(competition.problem_ids)}, secret workloads: {count}"
    over = ", which is over" if competition.end_time <= datetime.now(UTC) else ""
    print_line(one_line(f"{text}, {competition.start_time:%Y-%m-%d %H:%M} to {competition.end_time:%Y-%m-%d %H:%M} UTC{over}"))
    if competition.secret_seed and file.stat().st_mode & _OTHERS:
        print_note(one_line(f"{file} holds secrets, and other users of this host can read it; run: chmod 600 {file}"), "yellow")
    return Exit.DONE
