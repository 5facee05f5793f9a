"""Triton's interpreter is quicker, and computes what it computed before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.languages.emulated_triton import _once_a_launch

ROOT = Path(__file__).parents[2]


PROGRAM = """
import sys
import torch
import triton
import triton.language as tl
from sandbox.languages import emulated_triton

@triton.jit
def kernel(numbers, halves, out, N: tl.constexpr):
    at = tl.arange(0, N)
    number, half = tl.load(numbers + at), tl.load(halves + at)
    wide = (number * number + at - 7).to(tl.float32)
    tl.store(out + at, wide + tl.sum(half.to(tl.float32)) * tl.max(number, axis=0))

if sys.argv[1] == "quicker":
    emulated_triton.speed_up_interpreter()
numbers = torch.tensor([2**31 - 1, -(2**31), 46341, 3], dtype=torch.int32)  # three squares need more than 32 bits
out = torch.empty(4)
kernel[(1,)](numbers, torch.tensor([0.5, 1.5, -2.0, 4.0], dtype=torch.float16), out, N=4)
checks = []
semantic = triton.runtime.interpreter.interpreter_semantic
cast = type(semantic).cast
type(semantic).cast = lambda self, *arguments: checks.append(arguments) or cast(self, *arguments)
kernel[(1,)](numbers, torch.zeros(4, dtype=torch.float16), torch.empty(4), N=4)
print(out.tolist(), len(checks))
"""

FLOATS = """
import sys
import torch
import triton
import triton.language as tl
from sandbox.languages import emulated_triton

@triton.jit
def kernel(halves, out, scale, fixed: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    wide = tl.load(halves + at) * scale
    tl.store(out + at, wide + scale.to(tl.float32) * fixed)

if sys.argv[1] == "as compiled":
    emulated_triton.speed_up_interpreter()
out = torch.empty(4)
kernel[(1,)](torch.full((4,), 1025.0, dtype=torch.float16), out, 1.001, fixed=2.0, N=4)
print(out.tolist()[0])
"""


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
            self._patch = _once_a_launch(self._count, lambda: Scope(self.restored))

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


class Block:
    """A block of elements of a type."""

    def __init__(self, element: Scalar) -> None:
        self.element_ty = element


class Scalar:
    """A type."""

    def __init__(self, name: str) -> None:
        self.name = name


def ran(place: Path, program: str, how: str) -> subprocess.CompletedProcess[str]:
    """A program that defines kernels; Triton reads its source."""
    pytest.importorskip("triton")
    place.write_text(program)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, place, how], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_a_float_is_a_float32_to_a_kernel(tmp_path: Path) -> None:
    """As where it is compiled: it can be cast, and a float16 times it is no float16. To the control, as Triton comes, it is Python's."""
    done = ran(tmp_path / "kernel.py", FLOATS, "as compiled")
    assert float(done.stdout) == pytest.approx(1025 * 1.001 + 2.002, abs=1e-3), done.stderr  # in float16 it would be a multiple of 1
    assert "'float' object has no attribute 'to'" in ran(tmp_path / "kernel.py", FLOATS, "as it is").stderr


@pytest.mark.slow
def test_results_are_the_same(tmp_path: Path) -> None:
    """Of integers that overflow, too; the control, as Triton comes, casts more often, to see whether they do."""
    ended = [ran(tmp_path / "kernel.py", PROGRAM, how) for how in ("quicker", "as it is")]
    (results, _, count), (control, _, most) = (one.stdout.strip().rpartition(" ") for one in ended)
    assert results == control and len(results) > 20, ended
    assert int(count) < int(most)
