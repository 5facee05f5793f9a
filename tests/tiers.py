"""Decides by the changed paths which tests a run takes. The rule is the table in tests/tiers.toml.

Needs nothing but the standard library: `.ci/run` asks before there is an environment, with `python3 -m tests.tiers`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_suffix(".toml")
SCOPE_VARIABLE = "GRADER_TEST_SCOPE"
REASON_VARIABLE = "GRADER_TEST_SCOPE_REASON"
BASE_VARIABLE = "CI_BASE"
EVERYTHING, REDUCED = "all", "reduced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a change of these paths asks for. whole: the directories whose tests all run; None means every directory."""

    name: str
    paths: tuple[str, ...]
    whole: frozenset[str] | None

    def covers(self, path: str) -> bool:
        """Whether one of the patterns matches. A star matches slashes too."""
        return any(fnmatchcase(path, pattern) for pattern in self.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rules, the first that covers a path decides; and one in how many tests of a directory runs where no rule asks for all.

    slow: one in how many of the tests marked slow runs in any case, by how their paths begin.
    """

    rules: tuple[Rule, ...]
    parts: Mapping[str, int]
    slow: Mapping[str, int]

    def rule(self, path: str) -> Rule | None:
        """The rule that decides on this path."""
        return next((rule for rule in self.rules if rule.covers(path)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which tests a run takes: all but those that the parts leave out.

    kind: 'all' or 'reduced'. parts: one in how many tests of a directory. slow: one in how many of the tests marked slow, by how their
    paths begin. whole: the directories that a reduced scope does not take in parts. files: changed files of tests, of which neither leaves
    anything out.
    """

    kind: str
    parts: Mapping[str, int]
    slow: Mapping[str, int]
    whole: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, table: Table | None = None) -> Scope:
        """The scope of a decision: 'all', or 'reduced' with the directories that run whole all the same; then changed files of tests.

        Such as 'reduced:tests/e2e,tests/honest+tests/unit/test_wire.py'.
        """
        table = table or read_table()
        text, _, listed = text.partition("+")
        files = frozenset(listed.split(",")) if listed else frozenset()
        if text == EVERYTHING:
            return cls(kind=EVERYTHING, parts={}, slow=table.slow, files=files)
        kind, _, directories = text.partition(":")
        if kind != REDUCED:
            raise ValueError(f"unknown scope {text!r}; write 'all', 'reduced' or 'reduced:tests/e2e,tests/honest'")
        whole = frozenset(directories.split(",")) if directories else frozenset()
        if unknown := whole - table.parts.keys():
            raise ValueError(f"{min(unknown)!r} is not one of the directories in {TABLE.name}: {', '.join(table.parts)}")
        parts = {directory: nth for directory, nth in table.parts.items() if directory not in whole}
        return cls(kind=REDUCED, parts=parts, slow=table.slow, whole=whole, files=files)

    @property
    def extended(self) -> frozenset[str]:
        """The directories of which more tests run than in other scopes of this kind."""
        return self.whole | {path.rpartition("/")[0] for path in self.files}

    def __str__(self) -> str:
        changed = f"; all of {len(self.files)} changed files of tests" if self.files else ""
        if not self.parts:
            return f"all directories, of some a part of the slow tests{changed}"
        numbers = sorted(set(self.parts.values()))
        listed = (f"1 in {nth} of {', '.join(name for name in self.parts if self.parts[name] == nth)}" for nth in numbers)
        return "; ".join((*listed, f"all other directories, of some a part of the slow tests{changed}"))

    def sample_of(self, nodeid: str, *, slow: bool) -> int:
        """One in how many tests like this one runs. slow: whether it has that mark."""
        if nodeid.partition("::")[0] in self.files:
            return 1
        numbers = [nth for directory, nth in self.parts.items() if nodeid.startswith(f"{directory}/")]
        numbers += [nth for beginning, nth in self.slow.items() if slow and nodeid.startswith(beginning)]
        return max(numbers, default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A scope as text, and why."""

    scope: str
    reason: str


def read_table(path: Path = TABLE) -> Table:
    """Read the table."""
    content = tomllib.loads(path.read_text("utf-8"))
    rules = tuple(
        Rule(name=rule["name"], paths=tuple(rule["paths"]), whole=None if rule["whole"] == EVERYTHING else frozenset(rule["whole"]))
        for rule in content["rule"]
    )
    return Table(rules=rules, parts=content["parts"], slow=content["slow"])


def is_tests(path: str) -> bool:
    """Whether this is a file of tests."""
    return fnmatchcase(path, "tests/*/test_*.py")


def decide(changed: Iterable[str], table: Table) -> Decision:
    """The smallest scope that covers all changed paths; everything, where no rule names one of them."""
    paths = sorted(set(changed))
    files = [path for path in paths if is_tests(path)]
    ending = f"+{','.join(files)}" if files else ""
    whole: set[str] = set()
    for path in paths:
        rule = table.rule(path)
        if rule is None:
            return Decision(scope=f"{EVERYTHING}{ending}", reason=f"{path} changed, which no rule names")
        if rule.whole is None:
            return Decision(scope=f"{EVERYTHING}{ending}", reason=f"{path} changed ({rule.name})")
        whole |= rule.whole
    names = sorted({rule.name for path in paths if (rule := table.rule(path))})
    reason = f"{len(paths)} changed {'path' if len(paths) == 1 else 'paths'} ({', '.join(names)})" if paths else "nothing changed"
    listed = ",".join(directory for directory in table.parts if directory in whole)
    return Decision(scope=f"{REDUCED}{':' if listed else ''}{listed}{ending}", reason=reason)


def git(*words: str, root: Path = ROOT) -> str:
    """What a git command prints."""
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True, timeout=60).stdout


def changed_paths(base: str, root: Path = ROOT) -> list[str]:
    """What differs between a commit and the working tree, with both names of what was renamed."""
    tracked = git("diff", "--name-only", "--no-renames", "-z", base, "--", root=root)
    untracked = git("ls-files", "--others", "--exclude-standard", "-z", root=root)
    return [path for path in (tracked + untracked).split("\0") if path]


def is_ancestor(commit: str, root: Path = ROOT) -> bool:
    """Whether HEAD has this commit in its history."""
    done = subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=root, capture_output=True, check=False, timeout=60)
    return done.returncode == 0


def last_passed(passed: Path, root: Path = ROOT) -> str | None:
    """The newest commit in a list, oldest first, that HEAD has in its history.

    Each passed with the scope that its own changes since an earlier one asked for, so no change before it is untested.
    """
    commits = passed.read_text("utf-8").split() if passed.exists() else []
    return next((commit for commit in reversed(commits) if is_ancestor(commit, root)), None)


def decide_here(base: str | None, passed: Path | None, root: Path = ROOT) -> Decision:
    """The scope of the working tree's changes since `base`, or since the last commit that passed here."""
    try:
        if base and not is_ancestor(base, root):
            return Decision(scope=EVERYTHING, reason=f"{base} ({BASE_VARIABLE}) is not in the history of HEAD")
        since = base or (last_passed(passed, root) if passed else None)
        if since is None:
            return Decision(scope=EVERYTHING, reason="no earlier commit is known to have passed")
        decision = decide(changed_paths(since, root), read_table())
    except (OSError, subprocess.SubprocessError) as error:
        return Decision(scope=EVERYTHING, reason=f"git does not say what changed: {error}")
    return Decision(scope=decision.scope, reason=f"{decision.reason}; compared with {since[:12]}")


def main(arguments: Sequence[str]) -> None:
    """Print the scope, and the reason on a second line."""
    parser = argparse.ArgumentParser(description="Print which tests the changes ask for, and why.")
    parser.add_argument("--base", default=os.environ.get(BASE_VARIABLE), help=f"the commit to compare with (default: {BASE_VARIABLE})")
    parser.add_argument("--passed", type=Path, help="a list of commits that passed on this machine, oldest first")
    given = parser.parse_args(arguments)
    decision = decide_here(given.base, given.passed)
    print(decision.scope)
    print(decision.reason)


if __name__ == "__main__":
    main(sys.argv[1:])
