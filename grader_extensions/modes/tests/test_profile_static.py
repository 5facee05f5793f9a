"""PTX, SASS and resources of real kernels, compiled for sm_90 in the way that profile mode's box does it; nothing is run."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.protocol import wire
from sandbox.protocol.wire import ToolOutcome
from tests.harness.build_jobs import write_job

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
KERNELS = ROOT / "kernels_examples"
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
needs_numba = pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")


def tensor(name, *shape):
    return wire.TensorSpec(name=name, dtype="float32", shape=shape)


SOFTMAX = wire.EntryCall(inputs=(tensor("x", "rows", "cols"),), outputs=(tensor("y", "rows", "cols"),), sizes={"rows": 4, "cols": 100})
MATMUL = wire.EntryCall(inputs=(tensor("a", "n", "n"), tensor("b", "n", "n")), outputs=(tensor("c", "n", "n"),), sizes={"n": 32})


class Profiled:
    """The files that the box left."""

    def __init__(self, out: Path) -> None:
        self.out = out
        note = wire.decode((out / "profile.json").read_bytes())
        assert isinstance(note, wire.ProfileNote)
        self.profile, self.files = note.profile, note.files

    def text(self, name: str) -> str:
        return (self.out / name).read_text()

    @property
    def outcomes(self) -> dict[str, ToolOutcome]:
        return {tool.name: tool.outcome for tool in self.profile.tools}


@pytest.fixture
def profiled(tmp_path):
    def make(language: str, call: wire.EntryCall | None = None, entry: str = "solve", environment=None, **files: str) -> Profiled:
        source, out = tmp_path / "src", tmp_path / "out"
        write_job(source, files, language=language, entry=entry, call=call)
        out.mkdir()
        command = [sys.executable, "-m", "grader_extensions.modes.box.static_profile", str(source), str(out)]
        assert subprocess.run(command, cwd=ROOT, check=False, timeout=480, env=environment).returncode == 0
        return Profiled(out)

    return make


def example(path: str) -> dict[str, str]:
    return {Path(path).name: (KERNELS / path).read_text()}


@needs_nvcc
def test_cuda_gives_ptx_sass_and_resources_with_lines(profiled):
    """Of a raw kernel, for sm_90, whatever device it is graded on."""
    result = profiled("cuda", entry="tril_matmul", **example("tril_matmul/naive.cu"))
    assert result.outcomes["nvcc"] is result.outcomes["ptxas"] is ToolOutcome.RAN
    assert ".target sm_90a" in result.text("naive.ptx") and ".loc" in result.text("naive.ptx")
    (use,) = result.profile.kernels
    assert use.registers > 0 and use.name.startswith("tril_matmul(") and "Used" in result.text("ptxas.txt")
    if result.outcomes["nvdisasm"] is ToolOutcome.RAN:
        assert re.search(r"naive\.cu\", line \d+", result.text("naive.sass")) and "FFMA" in result.text("naive.sass")
    assert result.files["naive.ptx"] == "nvcc" and set(result.files) >= {"naive.ptx", "naive.cubin", "ptxas.txt"}


@needs_nvcc
def test_what_nvcc_refuses_is_a_failed_tool_with_its_log(profiled):
    """The emulated device may take what a GPU's compiler does not; the profile goes on."""
    result = profiled("cuda", **{"a.cu": "__global__ void k() { this is no code; }"})
    assert result.outcomes == {"nvcc": ToolOutcome.FAILED} and "error" in result.text("nvcc.log")


@needs_triton
def test_triton_gives_every_form_of_what_was_launched(profiled):
    """Without a driver: TTIR, TTGIR, LLIR, PTX and machine code, for the entry's own arguments."""
    result = profiled("python", SOFTMAX, **example("row_softmax/triton_row.py"))
    assert result.outcomes["Triton"] is ToolOutcome.RAN
    for form, sign in (("ttir", "tt.func"), ("ttgir", "ttg."), ("llir", "define"), ("ptx", ".target sm_90a")):
        assert sign in result.text(f"softmax_kernel.{form}")
    assert (result.out / "softmax_kernel.cubin").read_bytes()[:4] == b"\x7fELF"
    (use,) = result.profile.kernels
    assert use.registers > 0 and use.shared_bytes > 0


@needs_triton
def test_an_autotuner_takes_its_first_configuration_and_says_so(profiled):
    """Nothing is timed, and only one is compiled."""
    text = (KERNELS / "row_softmax/triton_row.py").read_text().replace("@triton.jit", """@triton.autotune(
    [triton.Config({}, num_warps=warps) for warps in (4, 8)], key=["cols"])
@triton.jit""").replace(", num_warps=8", "")  # fmt: skip
    result = profiled("python", SOFTMAX, **{"k.py": text})
    assert [name for name in result.files if name.endswith(".ptx")] == ["softmax_kernel.ptx"]
    assert "first configuration" in " ".join(result.profile.remarks)


@needs_numba
@pytest.mark.parametrize(("name", "doubles"), [("numba_typed_accumulator", False), ("numba_untyped_accumulator", True)])
def test_numba_gives_ptx_with_float64_counts(profiled, name, doubles):
    """The lecture's pair: the accumulator that is a plain 0.0 computes in float64."""
    result = profiled("python", MATMUL, entry="solution", **example(f"matmul_4092/{name}.py"))
    (use,) = result.profile.kernels
    assert (use.double_instruction_count > 0) is doubles is (".f64" in result.text("matmul.ptx"))
    assert any("accumulates in float64" in remark for remark in result.profile.remarks) is doubles


@needs_triton
def test_a_module_can_not_speak_for_the_box(profiled):
    """A module may end its process, or forge a report in its own; either way there is a note, and its names are there or refused later."""
    ended = profiled("python", SOFTMAX, **{"k.py": "import os, triton\nos._exit(0)\n"})
    assert list(ended.outcomes.values()) == [ToolOutcome.FAILED] and ended.files == {}


@needs_nvcc
def test_cuda_inside_of_python_is_compiled_and_not_run(profiled):
    """Sources for `load_inline` are compiled under the extension's name; a module that calls it at its import does not fail the box."""
    result = profiled("python", SOFTMAX, entry="solution", **example("row_softmax/inline_block_per_row.py"))
    assert result.outcomes["nvcc"] is ToolOutcome.RAN and ".target sm_90a" in result.text("row_softmax.ptx")
    (use,) = result.profile.kernels
    assert use.registers > 0 and use.shared_bytes > 0 and use.name.startswith("softmax(")
