"""Which worker of xdist runs what: a file's tests stay together and share its fixtures; the tests of slow files are spread.

tests/conftest.py puts it in the place of `--dist loadfile`; the other values are xdist's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# The tests that take longest begin first, so that none of them still runs when everything else has ended; the spread ones that take
# seconds come last, and one by one they keep all workers busy to the end.
FIRST = ("tests/extensions/", "tests/builds/", "tests/e2e/", "tests/judge/")
LAST = ("tests/conformance/", "tests/honest/", "tests/exploits/")
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


def rank(nodeid: str) -> int:
    """When a test has its turn: the lower, the sooner."""
    return int(nodeid.startswith(LAST)) - int(nodeid.startswith(FIRST))


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
        return nodeid if nodeid.startswith(self._spread) else nodeid.partition("::")[0]
