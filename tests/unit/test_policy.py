"""What is taken for the use of a library, and what is not."""

from pathlib import Path
from subprocess import run

import pytest

from grader.policy import forbidden, used
from sandbox import wire
from sandbox.judge.policy import from_run, from_symbols

SOURCE = """
extern "C" void cublasSgemm_v2();
extern "C" void* dlopen(const char*, int);
namespace at { struct Tensor {}; namespace _ops {
struct matmul { static void call(const Tensor&); };
struct empty_memory_format { static void call(const Tensor&); };
struct add_Tensor { static void call(const Tensor&); };
} }
const char* text = "cudnnConvolutionForward";
extern "C" void solve(int which) {
    at::Tensor tensor;
    at::_ops::empty_memory_format::call(tensor);
#ifdef CHEATS
    at::_ops::matmul::call(tensor);
    at::_ops::add_Tensor::call(tensor);
    cublasSgemm_v2();
    dlopen(text, which);
#endif
}
"""


@pytest.mark.parametrize("cheats", [True, False])
def test_symbols_tell_what_an_artifact_calls(tmp_path: Path, cheats: bool) -> None:
    """Functions of libraries, not memory, not a name in a string; what could load more is a hint."""
    (tmp_path / "kernel.cpp").write_text(SOURCE)
    defines = ["-DCHEATS"] if cheats else []
    command = ["g++", "-shared", "-fPIC", *defines, str(tmp_path / "kernel.cpp"), "-o", str(tmp_path / "kernel.so")]
    run(command, check=True)
    imported, hints = from_symbols((tmp_path / "kernel.so").read_bytes())
    assert set(imported) == ({"at::matmul", "at::add", "cublasSgemm_v2"} if cheats else set())
    assert hints == (("dlopen",) if cheats else ())


def test_an_artifact_that_is_no_object_has_no_symbols() -> None:
    """A Python module, or hostile bytes."""
    assert from_symbols(b"\x7fELF\x02\x01" + b"\xff" * 64) == ((), ()) == from_symbols(b"import torch")


def test_a_run_tells_operators_that_compute_and_kernels_of_others() -> None:
    """What moves values as they are computes nothing, and a kernel whose name is in the artifact is its own."""
    observed = (
        "operator empty\noperator mm\noperator copy_\n"
        "kernel void at::native::vectorized_elementwise_kernel<4, at::native::Add<float> >(int, float)\n"
        "kernel my_matmul(float const*, float*)\nkernel void tiled<32, float>(float*)\nnonsense"
    )
    artifact = b"... _Z9my_matmulPKfPf ... _Z5tiledILi32EfEvPT0_ ..."
    assert from_run(observed, artifact) == ("torch.mm", "the kernel vectorized_elementwise_kernel")


def test_only_a_problem_that_forbids_disqualifies() -> None:
    """Labelled is told in the report; a hint decides nothing."""
    found = {"imported": ("at::matmul",), "seen": ("torch.mm",)}
    decision = forbidden(wire.Evidence(policy=wire.Libraries.FORBIDDEN, **found))
    assert decision is not None and decision[:2] == ("DISQUALIFIED", "POLICY") and "at::matmul" in decision[2]
    labelled = wire.Evidence(policy=wire.Libraries.LABELLED, **found)
    assert forbidden(labelled) is None and used(labelled) == ("at::matmul", "torch.mm")
    assert forbidden(wire.Evidence(policy=wire.Libraries.FORBIDDEN, hints=("dlopen",))) is None
    assert forbidden(None) is None and used(None) == ()
