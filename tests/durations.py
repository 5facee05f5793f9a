"""Reports how long the tests of a run took, from the JUnit files that pytest wrote: `python -m tests.durations build/junit --wall-s 60`.

Prints the slowest tests, the seconds of each directory beside its budget, and last, like pytest, one line for all files together.
"""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests import tiers

BUDGETS = Path(__file__).with_name("budgets.toml")
SLOWEST_COUNT = 20
WARNING_FACTOR = 1.5
TAGS = {"failure": "failed", "error": "error", "skipped": "skipped"}  # of JUnit; without one a test has passed
OUTCOMES = ("failed", "passed", "skipped", "error")
WIDTH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One test: its setup, call and teardown together. outcome: one of OUTCOMES."""

    name: str
    directory: str
    duration_s: float
    outcome: str


def read(files: Iterable[Path]) -> list[Timing]:
    """Read what pytest's --junitxml wrote."""
    return [_timing(case) for file in files for case in ElementTree.parse(file).iter("testcase")]


def _timing(case: ElementTree.Element) -> Timing:
    places = case.get("classname", "").split(".")
    module = next((index for index, place in enumerate(places, 1) if place.startswith("test_")), len(places))
    return Timing(
        name="::".join(("/".join(places[:module]) + ".py", *places[module:], case.get("name", ""))),
        directory="/".join(places[:2]),
        duration_s=float(case.get("time", "0")),
        outcome=next((outcome for tag, outcome in TAGS.items() if case.find(tag) is not None), "passed"),
    )


def budgets(kind: str, path: Path = BUDGETS) -> Mapping[str, float]:
    """The seconds of each directory in this kind of run: 'all' or 'reduced'."""
    return {directory: float(seconds) for directory, seconds in tomllib.loads(path.read_text("utf-8"))[kind].items()}


def slowest(timings: Sequence[Timing]) -> Iterator[str]:
    """The lines of the slowest tests."""
    yield f" {SLOWEST_COUNT} slowest tests ".center(WIDTH, "=")
    for timing in sorted(timings, key=lambda timing: -timing.duration_s)[:SLOWEST_COUNT]:
        yield f"{timing.duration_s:8.1f} s  {timing.name}"


def directories(timings: Sequence[Timing], budget_s: Mapping[str, float], extended: frozenset[str] = frozenset()) -> Iterator[str]:
    """The lines of the table. extended: directories of which more ran than in other runs of this kind: they have no budget."""
    counts = Counter(timing.directory for timing in timings)
    seconds = {directory: sum(timing.duration_s for timing in timings if timing.directory == directory) for directory in counts}
    yield " seconds in each directory ".center(WIDTH, "=")
    yield f"{'directory':<22}{'tests':>8}{'seconds':>10}{'budget':>10}"
    for directory, spent_s in sorted(seconds.items(), key=lambda pair: -pair[1]):
        allowed_s = None if directory in extended else budget_s.get(directory)
        note = ""
        if allowed_s is not None and spent_s >= WARNING_FACTOR * allowed_s:
            note = f"  WARNING: over its budget by {100 * (spent_s / allowed_s - 1):.0f} %"
        yield f"{directory:<22}{counts[directory]:>8}{spent_s:>10.1f}{'' if allowed_s is None else f'{allowed_s:.0f}':>10}{note}"
    yield f"{'all':<22}{counts.total():>8}{sum(seconds.values()):>10.1f}"


def failures(timings: Sequence[Timing]) -> Iterator[str]:
    """The lines of what failed, which pytest may have printed long before."""
    for timing in timings:
        if timing.outcome in ("failed", "error"):
            yield f"{timing.outcome.upper()} {timing.name}"


def total(timings: Sequence[Timing], wall_s: float) -> str:
    """The counts of all runs in one line, as pytest prints those of one."""
    counts = Counter(timing.outcome for timing in timings)
    said = ", ".join(f"{counts[kind]} {kind}" for kind in OUTCOMES if counts[kind])
    minutes, seconds = divmod(int(wall_s), 60)
    clock = f" ({minutes // 60}:{minutes % 60:02}:{seconds:02})" if wall_s >= 60 else ""
    return f" {said or 'no tests ran'} in {wall_s:.2f}s{clock} ".center(WIDTH, "=")


def main(arguments: Sequence[str]) -> int:
    """Print the report on a directory of JUnit files; 1 where no test is in them."""
    parser = argparse.ArgumentParser(description="Print how long the tests of a run took.")
    parser.add_argument("junit", type=Path, help="the directory of JUnit files")
    parser.add_argument("--wall-s", type=float, required=True, help="how long all of it took")
    parser.add_argument("--all-cases", action="store_true", help="budgets do not apply: they are for samples")
    given = parser.parse_args(arguments)
    timings = read(sorted(given.junit.glob("*.xml")))
    scope = tiers.Scope.parse(os.environ.get(tiers.SCOPE_VARIABLE) or tiers.EVERYTHING)
    budget_s = {} if given.all_cases else budgets(scope.kind)
    tables = (*slowest(timings), *directories(timings, budget_s, scope.extended))
    print("\n".join((*tables, *failures(timings), total(timings, given.wall_s))))
    return 0 if timings else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
