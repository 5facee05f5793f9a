"""Which worker of xdist runs what: a file's tests stay together and share its fixtures; the tests of slow files are spread.

tests/conftest.py puts it in the place of `--dist loadfile`; the other values are xdist's own.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

# Their tests take seconds each and share nothing that is expensive to make. They come last: one by one they fill all workers to the end.
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


class FileOrTestScheduling(LoadScopeScheduling):
    """Hands out whole files, the largest first, and then the tests of SPREAD one by one."""

    def __init__(self, config: pytest.Config, log: Producer, spread: Sequence[str] = SPREAD) -> None:
        super().__init__(config, log)
        self._spread = tuple(spread)

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if nodeid.startswith(self._spread) else nodeid.partition("::")[0]
