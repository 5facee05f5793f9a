"""Which tests stay together on one worker."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.conftest import pytest_xdist_make_scheduler
from tests.scheduling import FIRST, MIXED, SPREAD, FileOrTestScheduling, places

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


def in_order(names: list[str]) -> list[str]:
    return [name for _, name in sorted(zip(places(names), names, strict=True), key=lambda pair: pair[0])]


def test_what_takes_longest_begins_first() -> None:
    """A compilation of minutes that begins last would leave the other workers idle."""
    names = ["tests/exploits/test_exploits.py::a", "tests/unit/test_wire.py::a", "tests/extensions/test_extensions.py::a"]
    assert in_order(names)[0] == names[2]


def test_what_waits_for_lanes_is_mixed_with_the_rest_evenly() -> None:
    """Files stay together, and no worker waits at the end for lanes that are taken."""
    attacks = [f"tests/exploits/test_exploits.py::test_a[{number}]" for number in range(9)]
    files = [f"tests/unit/test_{number}.py::test_{name}" for number in range(3) for name in "ab"]
    ordered = in_order([*attacks, *files])
    assert [[name in attacks for name in ordered[start : start + 5]].count(True) for start in (0, 5, 10)] == [3, 3, 3]
    assert [name for name in ordered if name in files] == files
    assert all(abs(ordered.index(one) - ordered.index(other)) == 1 for one, other in zip(files[::2], files[1::2], strict=True))


@pytest.mark.parametrize("path", [*FIRST, *MIXED, *SPREAD])
def test_what_is_spread_exists(path: str) -> None:
    """A directory that was renamed would silently be a critical path again."""
    assert (ROOT / path).exists()
