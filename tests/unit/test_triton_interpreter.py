"""Triton's interpreter puts its functions into the language once a launch."""

from __future__ import annotations

import pytest

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.languages.triton_interpreter import _remembering


class Scope:
    """What a call of `_patch_lang` has to put back."""

    def __init__(self, restored: list[str], name: str = "nothing") -> None:
        self._restored, self._name = restored, name

    def restore(self) -> None:
        self._restored.append(self._name)


class Interpreter:
    """Patches and launches as Triton's does: a launch restores the scope that it began with, a device function's call restores none."""

    def __init__(self, *, remembers: bool) -> None:
        self.patched: list[str] = []
        self.restored: list[str] = []
        self._patch = self._count
        if remembers:
            self._patch = _remembering(self._count, lambda: Scope(self.restored))

    def _count(self, name: str) -> Scope:
        self.patched.append(name)
        return Scope(self.restored, name)

    def launch(self, programs: int, *, fails: bool = False) -> None:
        """A kernel that calls two functions in each program."""
        scope = self._patch("kernel")
        try:
            for _ in range(programs):
                self._patch("max")
                self._patch("sum")
                if fails:
                    raise ZeroDivisionError
        finally:
            scope.restore()


def test_a_launch_patches_once_for_each_function() -> None:
    """The next launch does so again, for the one before has put everything back; the control patches in each program."""
    one, control = Interpreter(remembers=True), Interpreter(remembers=False)
    for interpreter in (one, control):
        interpreter.launch(64)
        interpreter.launch(2)
        assert interpreter.restored == ["kernel", "kernel"]
    assert one.patched == ["kernel", "max", "sum"] * 2
    assert len(control.patched) == 2 + 2 * 66


def test_a_launch_that_fails_ends_too() -> None:
    """What it has patched is put back, and forgotten."""
    one = Interpreter(remembers=True)
    with pytest.raises(ZeroDivisionError):
        one.launch(3, fails=True)
    assert one.restored == ["kernel"]
    one.launch(1)
    assert one.patched == ["kernel", "max", "sum"] * 2
