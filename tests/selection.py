"""Prints which tests a change runs, as paths for pytest. tests/packages.toml has the rules.

Needs the standard library only: `.ci/run` calls it before there is an environment.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
TABLE = tomllib.loads(Path(__file__).with_name("packages.toml").read_text("utf-8"))


def matches(path: str, pattern: str) -> bool:
    """Test whether a path is in a folder, or matches a pattern."""
    return path.startswith(pattern) if pattern.endswith("/") else PurePosixPath(f"/{path}").match(f"/{pattern}")


def tests_of(path: str) -> list[str]:
    """List the folders and patterns of the tests that one changed path needs."""
    packages = [package for package in TABLE["package"].values() if any(matches(path, source) for source in package["sources"])]
    tests = [test for package in packages for test in package["tests"]]
    folder = "/".join(path.split("/")[:2])
    if path.startswith("tests/") and any((ROOT / folder).glob("**/test_*.py")):
        return [*tests, folder, *([path] if PurePosixPath(path).match("test_*.py") else [])]
    return tests if packages and not any(matches(path, source) for source in TABLE["shared"]) else [*tests, *TABLE["everything"]]


def select(paths: Iterable[str]) -> list[str]:
    """List the folders and files that pytest runs for these changed paths."""
    tests = {*TABLE["always"], *(test for path in paths for test in tests_of(path))}
    return sorted(str(path.relative_to(ROOT)) for test in tests for path in ROOT.glob(test))


def git(*words: str) -> str:
    """Run a git command here and return its output; raise CalledProcessError if it fails."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def is_ancestor(commit: str) -> bool:
    """Test whether HEAD has this commit in its history."""
    command = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 0


def main() -> None:
    """Print the paths on one line, and the reason on the standard error stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", action="append", default=[], help="the commit to compare with")
    parser.add_argument("--passed", type=Path, help="a list of commits that passed on this machine, oldest first")
    options = parser.parse_args()
    commits = options.base or (options.passed.read_text().split() if options.passed and options.passed.exists() else [])
    base = next((commit for commit in reversed(commits) if is_ancestor(commit)), None)
    # Both names of a renamed file, and what is not committed.
    changed = git("diff", "--name-only", "--no-renames", base).split("\n")[:-1] if base else ["no commit that has passed"]
    print(*select(changed))
    print(f"{len(changed)} changed paths since {base}" if base else changed[0], file=sys.stderr)


if __name__ == "__main__":
    main()
