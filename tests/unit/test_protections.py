"""The list of protections: what it makes of tests' ids, and how it tells that one is gone."""

from __future__ import annotations

import pytest

from tools import protections


@pytest.mark.parametrize(
    ("nodeid", "name", "isolation"),
    [
        ("t.py::test_a[docker-replay-1]", "t.py::test_a[replay-1]", "docker"),
        ("t.py::test_a[replay-bubblewrap]", "t.py::test_a[replay]", "bubblewrap"),
        ("t.py::test_a[docker]", "t.py::test_a", "docker"),
        ("t.py::test_a[dockerless]", "t.py::test_a[dockerless]", ""),
        ("t.py::test_a", "t.py::test_a", ""),
    ],
)
def test_an_isolation_is_taken_out_of_an_id(nodeid: str, name: str, isolation: str) -> None:
    """Wherever pytest puts it among the parameters."""
    assert protections.without_isolation(nodeid) == (name, isolation)


def test_an_attack_on_the_judge_counts_on_any_isolation(monkeypatch: pytest.MonkeyPatch) -> None:
    """One on a box needs both."""
    base = "tests/exploits/test_exploits.py::test_an_attack_is_not_accepted"
    ids = [f"{base}[docker-fork_bomb]", f"{base}[bubblewrap-fork_bomb]", f"{base}[docker-replay_output]"]
    monkeypatch.setattr(protections, "collected", lambda _: ids)
    assert protections.protections(protections.ROOT) == {
        f"{base}[fork_bomb]": {"bubblewrap", "docker"},
        f"{base}[replay_output]": {"any isolation"},
    }


ONE, BOTH = {"docker"}, {"docker", "bubblewrap"}


@pytest.mark.parametrize(
    ("here", "there", "code"),
    [
        ({"a": ONE, "b": ONE}, {"a": ONE}, 0),
        ({"a": ONE}, {"a": ONE, "b": ONE}, 1),
        ({"b": ONE}, {"b": BOTH}, 1),
        ({"b": BOTH}, {"b": ONE}, 0),
    ],
)
def test_a_missing_protection_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], here: dict[str, set[str]], there: dict[str, set[str]], code: int
) -> None:
    """A new one is not."""
    monkeypatch.setattr(protections, "protections", lambda root: here if root == protections.ROOT else there)
    assert protections.main(["--against", "/elsewhere"]) == code
    assert ("missing: b" in capsys.readouterr().out) is bool(code)
