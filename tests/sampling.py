"""Selects the part of the tests that a run takes. Parts rotate with the commit count, so that a few consecutive runs take all.

A test marked `sampled(n)` is taken by one of n consecutive parts; where several such marks meet, by the largest n. The tests of a file
that have one n take turns in the order of the file, so that parts are about as long as each other; `sampled(n, turn=k)` names the turn.
This module is a pytest plugin too: tests/conftest.py loads it.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import tiers

PART_VARIABLE = "GRADER_TEST_PART"  # set by the controller for its workers: all of them have to select the same tests
PART_KEY, SCOPE_KEY = pytest.StashKey["Part"](), pytest.StashKey[tiers.Scope]()


@dataclass(frozen=True, slots=True)
class Sample:
    """One of nth consecutive parts takes a test. turn: which of them; None leaves it to the test's place in its file."""

    nth: int
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Which part a run takes, and where the number comes from."""

    number: int
    source: str

    def takes(self, samples: Sequence[tuple[str, Sample]]) -> list[bool]:
        """Whether this part has each of these tests: the file of each, and its sample; in the order of the collection."""
        before: Counter[tuple[str, int]] = Counter()
        taken = []
        for file, sample in samples:
            turn = sample.turn
            if turn is None:
                turn = zlib.crc32(file.encode()) + before[file, sample.nth]
                before[file, sample.nth] += 1
            taken.append((turn + self.number) % sample.nth == 0)
        return taken


def every(nth: int, cases: Iterable[tuple[str, Any]], marks: Iterable[pytest.MarkDecorator] = ()) -> list[Any]:
    """Parameters of these names, of which one of nth consecutive runs takes each."""
    return [pytest.param(case, id=name, marks=[*marks, pytest.mark.sampled(nth)]) for name, case in cases]


def current_part(chosen: int | None, root: Path) -> Part:
    """The part asked for by `--part`, else by the environment, else the commit count."""
    if chosen is not None:
        return Part(number=chosen, source="--part")
    if PART_VARIABLE in os.environ:
        try:
            return Part(number=int(os.environ[PART_VARIABLE]), source=PART_VARIABLE)
        except ValueError:
            raise pytest.UsageError(f"{PART_VARIABLE} is {os.environ[PART_VARIABLE]!r}; write a number") from None
    try:
        count = subprocess.run(
            ["git", "rev-list", "--count", "HEAD"], cwd=root, capture_output=True, text=True, check=True, timeout=30
        ).stdout
        return Part(number=int(count), source="the commit count")
    except (OSError, subprocess.SubprocessError, ValueError):
        return Part(number=0, source="without git")


def sample_of(item: pytest.Item) -> Sample:
    """What the test's mark `sampled(n)` asks for, of several the one with the largest n; every part where it has none."""
    sample = Sample(1)
    for mark in item.iter_markers("sampled"):
        turn = mark.kwargs.get("turn")
        numbers = (*mark.args, turn or 0)
        if len(mark.args) != 1 or mark.kwargs.keys() - {"turn"} or not all(isinstance(one, int) for one in numbers) or mark.args[0] < 1:
            raise pytest.UsageError(f"{item.nodeid}: write the mark as sampled(n) or sampled(n, turn=k), with n at least 1")
        if mark.args[0] > sample.nth:
            sample = Sample(mark.args[0], turn)
    return sample


def named(arguments: Sequence[str], directory: Path, root: Path) -> tuple[str, ...]:
    """The ids of tests among a command line's arguments, as pytest writes them."""
    ids = []
    for argument in arguments:
        path, separator, test = argument.partition("::")
        if separator:
            file = Path(os.path.normpath(directory / path))
            ids.append(f"{file.relative_to(root).as_posix() if file.is_relative_to(root) else path}::{test}")
    return tuple(ids)


def is_named(nodeid: str, ids: Sequence[str]) -> bool:
    """Whether one of these ids is the test's, its class's, or its own without the parameters."""
    return any(nodeid == one or nodeid.startswith((f"{one}[", f"{one}::")) for one in ids)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that choose the part."""
    group = parser.getgroup("sampling")
    group.addoption("--part", type=int, help="which part of the sampled tests to take (otherwise the commit count)")
    group.addoption("--all-cases", action="store_true", help="take all sampled tests, and those of all directories")


def pytest_configure(config: pytest.Config) -> None:
    """Settle on the part once for this process and its workers."""
    part = current_part(config.getoption("part"), config.rootpath)
    if not hasattr(config, "workerinput"):
        os.environ[PART_VARIABLE] = str(part.number)
    config.stash[PART_KEY] = part
    scope = os.environ.get(tiers.SCOPE_VARIABLE) or tiers.EVERYTHING
    try:
        config.stash[SCOPE_KEY] = tiers.Scope.parse(tiers.EVERYTHING if config.getoption("all_cases") else scope)
    except ValueError as error:
        raise pytest.UsageError(f"{tiers.SCOPE_VARIABLE}: {error}") from None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what this run takes."""
    if config.getoption("all_cases"):
        return ["sampled tests: all"]
    part, scope = config.stash[PART_KEY], config.stash[SCOPE_KEY]
    return [
        f"sampled tests: part {part.number} ({part.source}); a test marked sampled(n) runs in one of n consecutive parts",
        f"scope: {scope} ({os.environ.get(tiers.REASON_VARIABLE) or 'the default'})",
    ]


@pytest.hookimpl(tryfirst=True)  # xdist appends the group to a test's id
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what other parts take, but for tests whose id is on the command line."""
    if config.getoption("all_cases"):
        return
    part, scope = config.stash[PART_KEY], config.stash[SCOPE_KEY]
    ids = named(config.args, config.invocation_params.dir, config.rootpath)
    samples = [(item.nodeid.partition("::")[0], sample_in(scope, item)) for item in items]
    taken: list[pytest.Item] = []
    deselected: list[pytest.Item] = []
    for item, has_turn in zip(items, part.takes(samples), strict=True):
        (taken if has_turn or is_named(item.nodeid, ids) else deselected).append(item)
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = taken


def sample_in(scope: tiers.Scope, item: pytest.Item) -> Sample:
    """What the test's marks ask for, or the scope where that takes fewer."""
    sample, least = sample_of(item), scope.sample_of(item.nodeid, slow=item.get_closest_marker("slow") is not None)
    return sample if sample.nth >= least else Sample(least)
