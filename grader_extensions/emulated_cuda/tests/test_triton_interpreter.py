"""Triton's interpreter is quicker, and computes what it computed before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import emulated_triton

ROOT = Path(__file__).parents[3]


TUNED = """
@triton.autotune(configs={configs}, key=["n"]{option})
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    place = x + at
    value = tl.load(place, mask=at < n)
    {write}
"""


@pytest.mark.parametrize(
    ("write", "configs", "option", "named"),
    [
        ("tl.store(place, value)", "[A, B]", "", "['x']"),
        ("tl.store(x + at, value)", "tuned()", "", "['x']"),
        ("tl.atomic_add(y, value)", "[A, B]", "", "['y']"),
        ("tl.store(y + at, value)", "[A, B]", "", None),
        ("tl.store(place, value)", "[A]", "", None),
        ("tl.store(place, value)", "[A, B]", ", restore_value=['x']", None),
        ("tl.store(place, value)", "[A, B]", ", reset_to_zero=['x']", None),
    ],
)
def test_a_kernel_that_the_autotuner_runs_on_its_own_answers_is_named(write: str, configs: str, option: str, named: str | None) -> None:
    """The first call computes from what tuning left; one that reads nothing that it writes is right however often it runs."""
    sentences = [*emulated_triton.tuned_in_place(TUNED.format(write=write, configs=configs, option=option))]
    assert [sentence.rpartition("restore_value=")[2] for sentence in sentences] == ([] if named is None else [named])


def test_pointers_that_follow_each_other_end() -> None:
    """As those of a loop."""
    text = TUNED.format(configs="[A, B]", option="", write="x = x + n\n    y = x\n    x = y\n    tl.store(x, value)")
    assert len([*emulated_triton.tuned_in_place(text)]) <= 1


HEADER = """import sys
import torch
import triton
import triton.language as tl
from grader_extensions.emulated_cuda import emulated_triton
"""
PROGRAM = """
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


def ran(place: Path, program: str, how: str) -> subprocess.CompletedProcess[str]:
    """A program that defines kernels; Triton reads its source."""
    pytest.importorskip("triton")
    place.write_text(HEADER + program)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, place, how], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.slow
def test_a_parent_of_boxes_imports_the_interpreter() -> None:
    """So that no box does: Triton's own functions are interpreted, too, as in a box that imports it. For C++ nothing is imported."""
    pytest.importorskip("triton")
    program = "import sys; from grader_extensions.emulated_cuda import toolchain; toolchain.preload(sys.argv[1]); "
    program += "print('triton' in sys.modules and type(sys.modules['triton.language'].cdiv).__name__)"
    for language, kind in (("sandbox.languages.python", "InterpretedFunction"), ("sandbox.languages.cuda", "False")):
        result = subprocess.run([sys.executable, "-c", program, language], capture_output=True, text=True, check=False, cwd=ROOT)
        assert result.stdout.strip() == kind, result.stderr


@pytest.mark.slow
def test_what_is_imported_early_is_interpreted_where_torch_is_made_for_cuda() -> None:
    """On the emulated device alone: `tl.sum` is a function of Triton's library, which is made when it is imported."""
    pytest.importorskip("triton")
    program = "import sys, torch; torch.version.cuda = '12.8'; from sandbox.runner import run; run.preload(sys.argv[1:]); "
    program += "import triton.language as tl; print(type(tl.sum).__name__, 'triton.testing' in sys.modules)"
    options = ("--language", "sandbox.languages.python", "--preload", "torch", "--import-device")
    for device, words in (("emulated", "InterpretedFunction"), ("cuda", "JITFunction True")):
        result = subprocess.run([sys.executable, "-c", program, *options, device], capture_output=True, text=True, check=False, cwd=ROOT)
        assert result.stdout.strip().startswith(words), result.stderr


@pytest.mark.slow
def test_a_float_is_a_float32_to_a_kernel(tmp_path: Path) -> None:
    """As where it is compiled: it can be cast, and a float16 times it is no float16. To the control, as Triton comes, it is Python's."""
    result = ran(tmp_path / "kernel.py", FLOATS, "as compiled")
    assert float(result.stdout) == pytest.approx(1025 * 1.001 + 2.002, abs=1e-3), result.stderr  # in float16 it would be a multiple of 1
    assert "'float' object has no attribute 'to'" in ran(tmp_path / "kernel.py", FLOATS, "as it is").stderr


@pytest.mark.slow
def test_results_are_the_same(tmp_path: Path) -> None:
    """Of integers that overflow, too; the control, as Triton comes, casts more often, to see whether they do."""
    ended = [ran(tmp_path / "kernel.py", PROGRAM, how) for how in ("quicker", "as it is")]
    (results, _, count), (control, _, control_count) = (run.stdout.strip().rpartition(" ") for run in ended)
    assert results == control and len(results) > 20, ended
    assert int(count) < int(control_count)
