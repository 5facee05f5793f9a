"""Fuzzes for a given time: runs the tests of tests/fuzz, with more examples and other ones each time.

    .venv/bin/python -m tools.fuzz --minutes 30 [--target wire] [--target gate]

Targets take turns, one process at a time. A test that has failed is a finding: it is shown at once, and left out from then on.
The exit code is 1 where there is one. Every finding becomes a test with the example that is shown.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "tests" / "fuzz"
PREFIX = "test_fuzz_"
TARGETS = tuple(sorted(path.stem.removeprefix(PREFIX) for path in PLACE.glob(f"{PREFIX}*.py")))
EXAMPLES_VARIABLE = "GRADER_FUZZ_EXAMPLES"
TURN_S = 60.0
FIRST_COUNT, LARGEST_COUNT = 200, 200_000
SPARE_S = 600.0  # beyond a turn, for shrinking what was found
_COUNTED = re.compile(r"- (\d+) passing[^,]*, (\d+) failing")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_SHOWN_LINES = 60


@dataclass(slots=True)
class Target:
    """What has become of one target so far."""

    name: str
    examples: int = 0
    spent_s: float = 0.0
    count: int = FIRST_COUNT
    findings: list[str] = field(default_factory=list)
    deaths: int = 0

    def turn(self, limit_s: float) -> str:
        """Run it once; what it printed, where it found something."""
        left_out = [option for finding in self.findings for option in ("--deselect", finding)]
        words = ("-q", "-p", "no:cacheprovider", "--tb=short", "--hypothesis-show-statistics", f"--hypothesis-seed={secrets.randbits(32)}")
        command = [
            sys.executable,
            "-m",
            "pytest",
            *words,
            f"--timeout={limit_s + SPARE_S:.0f}",
            *left_out,
            str(PLACE / f"{PREFIX}{self.name}.py"),
        ]
        begun = time.monotonic()
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, EXAMPLES_VARIABLE: str(self.count)},
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        took_s = time.monotonic() - begun
        self.spent_s += took_s
        self.examples += sum(int(passing) + int(failing) for passing, failing in _COUNTED.findall(done.stdout))
        self.count = min(LARGEST_COUNT, max(FIRST_COUNT, round(self.count * min(4.0, TURN_S / took_s))))
        found = [one for one in _FAILED.findall(done.stdout) if one not in self.findings]
        self.findings += found
        if done.returncode not in (0, 1, 5):  # 5: nothing is left to be run
            self.deaths += 1
        return f"{done.stdout}\n{done.stderr}" if found or done.returncode not in (0, 1, 5) else ""


def main() -> int:
    """Fuzz, then print what came of it."""
    parser = argparse.ArgumentParser(description="Fuzzes the grader's readers.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--target", action="append", choices=TARGETS, help="one of them, or several; all of them where none is named")
    given = parser.parse_args()
    targets = [Target(name) for name in given.target or TARGETS]
    end = time.monotonic() + given.minutes * 60
    while time.monotonic() < end:
        for target in targets:
            if (left_s := end - time.monotonic()) <= 0:
                break
            if shown := target.turn(min(TURN_S, left_s)):
                sys.stdout.write(f"--- {target.name}\n{cut(shown)}\n")
            sys.stdout.write(f"{target.name}: {target.examples} examples in {target.spent_s:.0f} s, {len(target.findings)} findings\n")
            sys.stdout.flush()
    sys.stdout.write(table(targets))
    return int(any(target.findings or target.deaths for target in targets))


def cut(text: str) -> str:
    """The end of a report, with lines that fit a screen."""
    lines = [line[:300] for line in text.splitlines() if line.strip()]
    failures = [index for index, line in enumerate(lines) if "Falsifying example" in line or line.lstrip().startswith("E ")]
    first = max(0, (failures[0] if failures else len(lines)) - 20)
    return "\n".join(lines[first : first + _SHOWN_LINES])


def table(targets: list[Target]) -> str:
    """Target, examples, findings."""
    rows = [f"{'target':<12} {'examples':>10} {'seconds':>8}  findings"]
    for one in targets:
        names = [finding.split("::")[-1] for finding in one.findings] + ["the process died"] * one.deaths
        rows.append(f"{one.name:<12} {one.examples:>10} {one.spent_s:>8.0f}  {', '.join(names) or 'none'}")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
