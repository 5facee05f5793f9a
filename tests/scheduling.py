"""Which worker of xdist runs what: a file's tests stay together and share its fixtures; the tests of slow files are spread.

tests/conftest.py puts it in the place of `--dist loadfile`; the other values are xdist's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# The tests that take longest begin first, so that none of them still runs when everything else has ended. Those graded by the service
# wait for its lanes half of the time, so they are mixed with the others, evenly: then no core is idle.
FIRST = ("tests/extensions/", "tests/builds/", "tests/e2e/", "tests/judge/")
MIXED = ("tests/conformance/", "tests/honest/", "tests/exploits/")
# Their tests share nothing that is expensive to make.
SPREAD = (
    "tests/builds/test_build.py",
    "tests/builds/test_build_nvcc.py",
    "tests/builds/test_corpus_by_nvcc.py",
    "tests/builds/test_python_parts.py",
    "tests/conformance/",
    "tests/e2e/test_admission_check.py",
    "tests/e2e/test_cli_alone.py",
    "tests/e2e/test_crash.py",
    "tests/exploits/test_controls_meaning.py",
    "tests/exploits/test_exploits.py",
    "tests/extensions/",
    "tests/honest/",
)


def scope_of(nodeid: str, spread: Sequence[str] = SPREAD) -> str:
    """What stays together: a file, or a test of its own."""
    return nodeid if nodeid.startswith(tuple(spread)) else nodeid.partition("::")[0]


def places(nodeids: Sequence[str]) -> list[float]:
    """When each test has its turn: the lower, the sooner. Those of FIRST have a negative place, all others one from 0 to 1."""
    groups = [nodeid.startswith(MIXED) for nodeid in nodeids]
    seen: tuple[dict[str, int], dict[str, int]] = ({}, {})
    numbers = [
        -1 if nodeid.startswith(FIRST) else seen[group].setdefault(scope_of(nodeid), len(seen[group]))
        for nodeid, group in zip(nodeids, groups, strict=True)
    ]
    return [number if number < 0 else number / len(seen[group]) for number, group in zip(numbers, groups, strict=True)]


class FileOrTestScheduling(LoadScopeScheduling):
    """Hands out whole files, and the tests of SPREAD one by one, in the order of the collection."""

    def __init__(self, config: pytest.Config, log: Producer, spread: Sequence[str] = SPREAD) -> None:
        super().__init__(config, log)
        self._spread = tuple(spread)

    def schedule(self) -> None:
        """As collected, and not by the number of tests in a scope."""
        self.config.option.loadscopereorder = False
        super().schedule()

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid, self._spread)
