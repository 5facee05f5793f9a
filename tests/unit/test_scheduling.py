"""Which tests stay together on one worker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.conftest import pytest_xdist_make_scheduler
from tests.scheduling import FIRST, LAST, SPREAD, FileOrTestScheduling, rank

ROOT = Path(__file__).parents[2]


@pytest.fixture
def scheduling(monkeypatch: pytest.MonkeyPatch) -> FileOrTestScheduling:
    """One that has no workers."""
    monkeypatch.setattr(LoadScopeScheduling, "__init__", lambda *_: None)
    return FileOrTestScheduling(None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("nodeid", "scope"),
    [
        ("tests/unit/test_wire.py::test_a", "tests/unit/test_wire.py"),
        ("tests/unit/test_wire.py::Class::test_a[1]", "tests/unit/test_wire.py"),
        ("tests/exploits/test_controls.py::test_a", "tests/exploits/test_controls.py"),
        ("tests/exploits/test_exploits.py::test_a[docker-x]", "tests/exploits/test_exploits.py::test_a[docker-x]"),
        ("tests/honest/test_honest_kernels.py::test_a[x::y]", "tests/honest/test_honest_kernels.py::test_a[x::y]"),
    ],
)
def test_a_file_stays_together_unless_it_is_spread(scheduling: FileOrTestScheduling, nodeid: str, scope: str) -> None:
    """The scope is what one worker runs as a whole."""
    assert scheduling._split_scope(nodeid) == scope


def test_only_one_way_to_distribute_is_replaced() -> None:
    """A user's `--dist load` stays xdist's own."""
    config = SimpleNamespace(getoption=lambda _: "load")
    assert pytest_xdist_make_scheduler(config, None) is None  # type: ignore[arg-type]


def test_what_takes_longest_begins_first_and_what_is_short_ends_the_run() -> None:
    """A compilation of minutes that begins last would leave the other workers idle."""
    names = ["tests/exploits/test_exploits.py::a", "tests/unit/test_wire.py::a", "tests/extensions/test_extensions.py::a"]
    assert sorted(names, key=rank) == names[::-1]


@pytest.mark.parametrize("path", [*FIRST, *LAST, *SPREAD])
def test_what_is_spread_exists(path: str) -> None:
    """A directory that was renamed would silently be a critical path again."""
    assert (ROOT / path).exists()
