"""Lists what the tests protect: every attack with its gradings and controls, the containment suite, honest kernels and their wrong twins.

    python -m tools.protections [--root DIR] [--against DIR]

One line for each test of tests/exploits, tests/containment and tests/honest with its isolations, whatever part of the tests a
run takes. --root: another checkout of this project, run by this Python. --against: print what differs from that checkout, and exit with 1
where something is missing.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIRECTORIES = ("tests/exploits", "tests/containment", "tests/honest")
ISOLATIONS = ("docker", "bubblewrap")
ANYWHERE = re.compile(r"^(?://|#) isolation: any$", re.MULTILINE)
Protections = dict[str, set[str]]  # the ids of tests without their isolation, each with its isolations


class CollectionFailed(Exception):
    """pytest could not list a checkout's tests; the message is what it printed."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the list, or the difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args(arguments)
    try:
        here = protections(given.root.resolve())
        there = protections(given.against.resolve()) if given.against else here
    except CollectionFailed as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if given.against is None:
        sys.stdout.writelines(f"{line(name, here)}\n" for name in sorted(here))
        sys.stdout.write(f"{len(here)} in all\n")
        return 0
    missing, new = lacking(here, there), lacking(there, here)
    sys.stdout.writelines(f"missing: {line(name, there)}\n" for name in missing)
    sys.stdout.writelines(f"new: {line(name, here)}\n" for name in new)
    sys.stdout.write(f"{len(there)} there, {len(here)} here: {len(missing)} missing, {len(new)} new\n")
    return int(bool(missing))


def lacking(some: Protections, others: Protections) -> list[str]:
    """The others that are not among some, or are there on fewer isolations."""
    return sorted(name for name, isolations in others.items() if name not in some or not isolations <= some[name])


def line(name: str, found: Protections) -> str:
    """A protection as it is printed."""
    return f"{name}  ({', '.join(sorted(found[name]))})" if any(found[name]) else name


def protections(root: Path) -> Protections:
    """Those of one checkout."""
    anywhere = {path.stem for path in (root / "tests" / "exploits" / "attacks").iterdir() if is_anywhere(path)}
    isolations: Protections = {}
    for nodeid in collected(root):
        name, isolation = without_isolation(nodeid)
        any_one = name.startswith("tests/exploits/") and attack_of(name) in anywhere
        isolations.setdefault(name, set()).add("any isolation" if any_one else isolation)
    return isolations


def collected(root: Path) -> list[str]:
    """The ids of a checkout's tests, all parts."""
    words = ["--collect-only", "-q", "-p", "no:cacheprovider", "--all-cases", *DIRECTORIES]
    done = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CollectionFailed(f"pytest ended with exit code {done.returncode} in {root}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return [line for line in done.stdout.splitlines() if "::" in line]


def without_isolation(nodeid: str) -> tuple[str, str]:
    """A test's id without the isolation among its parameters, and that isolation or ""."""
    test, _, parameters = nodeid.partition("[")
    words = parameters.removesuffix("]")
    for isolation in ISOLATIONS:
        if words == isolation:
            return test, isolation
        if words.startswith(f"{isolation}-"):
            return f"{test}[{words.removeprefix(f'{isolation}-')}]", isolation
        if words.endswith(f"-{isolation}"):
            return f"{test}[{words.removesuffix(f'-{isolation}')}]", isolation
    return nodeid, ""


def attack_of(name: str) -> str:
    """The stem of the attack's file in a test's id."""
    return name.partition("[")[2].removesuffix("]").partition("-")[0]


def is_anywhere(path: Path) -> bool:
    """Whether the attack is on the judge, so that any isolation will do."""
    return path.suffix in (".cu", ".py") and ANYWHERE.search(path.read_text("utf-8")) is not None


if __name__ == "__main__":
    sys.exit(main())
