"""Grades an accepted, a wrong and a cheating kernel on the emulated device, and writes their HTML reports.

    .venv/bin/python -m tools.report_fixtures [--out build/reports] [--sandbox auto|docker|bubblewrap|process] [--state-dir DIR]

Each kernel is submitted with `grader-cli submit`, its report written with `grader-cli show --html`. The exit code is 1 where a verdict is
not the expected one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXAMPLES, EXPLOITS = ROOT / "kernels_examples", ROOT / "tests" / "exploits"
LIMIT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFixture:
    """A kernel whose report is written. problem: its id and its directory; None where the kernel lies next to its problem."""

    name: str
    files: tuple[Path, ...]
    verdict: str
    problem: tuple[str, Path] | None = None


FIXTURES = (
    ReportFixture(name="accepted", files=(EXAMPLES / "vector_add" / "grid_stride.cu",), verdict="ACCEPTED"),
    ReportFixture(name="wrong", files=(EXAMPLES / "vector_add" / "off_by_one.cu",), verdict="WRONG_ANSWER"),
    ReportFixture(
        name="cheating",
        files=tuple(EXPLOITS / "attacks" / name for name in ("idles_in_do_bench.cu", "attack.h", "gate_page.h")),
        verdict="DISQUALIFIED",
        problem=("scale_add_fixture", EXPLOITS / "problem"),
    ),
)


def main() -> int:
    """Grade and write; 1 where a verdict is not the expected one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "reports")
    parser.add_argument("--sandbox", default="auto", choices=("auto", "docker", "bubblewrap", "process"))
    parser.add_argument("--state-dir", type=Path, help="where submissions are stored; a directory that is removed afterwards without it")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="grader-reports-", ignore_cleanup_errors=True) as scratch:
        state_dir = given.state_dir or Path(scratch)
        wrong = [one.name for one in FIXTURES if not write_report(one, given.out / f"{one.name}.html", given.sandbox, state_dir)]
    for name in wrong:
        sys.stderr.write(f"{name}: the verdict is not the expected one\n")
    return 1 if wrong else 0


def write_report(fixture: ReportFixture, path: Path, sandbox: str, state_dir: Path) -> bool:
    """Whether the verdict is the expected one. RuntimeError where a command of grader-cli failed."""
    words: list[str] = []
    if fixture.problem is not None:
        name, directory = fixture.problem
        grader_cli(["problems", "import", str(directory), "--no-check"], state_dir)
        words = ["--problem", name]
    options = ["--device", "emulated", "--sandbox", sandbox, "--json"]
    submission = json.loads(grader_cli(["submit", *map(str, fixture.files), *words, *options], state_dir))
    grader_cli(["show", submission["name"], "--html", str(path)], state_dir)
    verdict = submission["report"]["verdict"].removeprefix("VERDICT_")
    sys.stdout.write(f"{path}: {verdict}\n")
    return bool(verdict == fixture.verdict)


def grader_cli(words: Sequence[str], state_dir: Path) -> str:
    """What grader-cli prints. RuntimeError unless it ends with 0, or with 1 for a verdict that is not ACCEPTED."""
    done = subprocess.run(
        [sys.executable, "-m", "grader.cli.main", *words],
        env={**os.environ, "GRADER_STATE_DIR": str(state_dir)}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LIMIT_S, check=False,
    )  # fmt: skip
    if done.returncode not in (0, 1) or (not done.stdout and words[0] == "submit"):
        raise RuntimeError(f"grader-cli {' '.join(words)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


if __name__ == "__main__":
    raise SystemExit(main())
