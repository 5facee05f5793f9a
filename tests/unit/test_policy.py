"""Uses of a library, and what is none."""

import time
from dataclasses import replace
from pathlib import Path
from subprocess import run

import pytest

from grader.verdict.fold import forbidden_libraries, used_libraries
from sandbox.judge.library_use import NAME_LIMIT, ON_HIDDEN, UNREADABLE, LibraryUse, from_run, from_symbols
from sandbox.protocol import elf, wire
from sandbox.protocol.gate import Answer, Status
from tests import fakes
from tests.unit.fat_objects import fat_object

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
    """Functions of libraries; not memory, not a name in a string, nor what could load more."""
    (tmp_path / "kernel.cpp").write_text(SOURCE)
    defines = ["-DCHEATS"] if cheats else []
    command = ["g++", "-shared", "-fPIC", *defines, str(tmp_path / "kernel.cpp"), "-o", str(tmp_path / "kernel.so")]
    run(command, check=True)
    imported = from_symbols((tmp_path / "kernel.so").read_bytes())
    assert set(imported) == ({"at::matmul", "at::add", "cublasSgemm_v2"} if cheats else set())


def built(place: Path, names: list[str]) -> bytes:
    """Return what the linker makes of an object that wants these, if they are there."""
    (place / "kernel.s").write_text("".join(f".weak {name}\n.quad {name}\n" for name in names))
    run(["gcc", "-shared", "-nostdlib", "kernel.s", "-o", "kernel.so"], cwd=place, check=True)
    return (place / "kernel.so").read_bytes()


def test_an_artifact_that_is_no_object_has_no_symbols() -> None:
    assert from_symbols(b"") == () == from_symbols(b"import torch")


@pytest.mark.parametrize(
    "artifact", [elf.MAGIC + b"\xff" * 64, elf.MAGIC + bytes(64), elf.MAGIC], ids=["nonsense", "no sections", "a beginning"]
)
def test_an_object_whose_symbols_can_not_be_read_is_not_acquitted(artifact: bytes) -> None:
    """No linker wrote it, and it was loaded: what it may hide counts as found."""
    imported = from_symbols(artifact)
    assert imported == (UNREADABLE,)
    assert forbidden_libraries(wire.Evidence(policy=wire.Libraries.FORBIDDEN, imported=imported)) is not None


def test_names_of_megabytes_fit_into_a_fact(tmp_path: Path) -> None:
    names = [f"cublas{letter}{letter * (4 << 20)}" for letter in "abc"]
    artifact = built(tmp_path, names)
    imported = from_symbols(artifact)
    assert sorted(imported) == [f"{name[:NAME_LIMIT]}..." for name in names]
    fact = wire.Evidence(policy=wire.Libraries.FORBIDDEN, imported=imported)
    assert wire.decode(wire.encode(fact)) == fact and len(wire.encode(fact)) < 1000


def test_a_name_of_digits_takes_no_time(tmp_path: Path) -> None:
    """They end where no other digit follows, so there is one way only to read them."""
    names = [f"_ZN2at4_ops{index}{'1' * 4000}" for index in range(100)]
    artifact = built(tmp_path, names)
    begun = time.process_time()
    assert from_symbols(artifact) == () and time.process_time() - begun < 1.0


def test_a_run_tells_operators_that_compute_and_kernels_of_others() -> None:
    """Operators that move values compute nothing, and a kernel that its device code defines is the artifact's own."""
    observed = "operator empty\noperator mm\noperator copy_\nkernel vectorized_elementwise_kernel\nkernel my_matmul\nkernel tiled\nnonsense"
    artifact = fat_object("_Z9my_matmulPKfPf", "_Z5tiledILi32EfEvPT0_")
    assert from_run(observed, artifact) == ("torch.mm", "the kernel vectorized_elementwise_kernel")


@pytest.mark.parametrize("hidden", [True, False])
def test_no_name_that_a_runner_made_up_on_a_hidden_workload_is_told(hidden: bool) -> None:
    """Only that there is one which public workloads did not show; of a public one the name is shown."""

    def libraries_seen(answer: str, public: str = "") -> tuple[str, ...]:
        libraries = LibraryUse(replace(fakes.problem().spec, libraries=wire.Libraries.LABELLED), b"no elf")
        libraries.add(Answer(status=Status.OK, message=public), hidden=False)
        libraries.add(Answer(status=Status.OK, message=answer), hidden=hidden)
        return libraries.evidence().seen

    assert libraries_seen("operator sizes_1000003") == ((ON_HIDDEN,) if hidden else ("torch.sizes_1000003",))
    assert libraries_seen("operator mm", "operator mm") == ("torch.mm",)
    assert libraries_seen("operator empty") == ()


def test_only_a_problem_that_forbids_disqualifies() -> None:
    """A label is shown in the report."""
    libraries = {"imported": ("at::matmul",), "seen": ("torch.mm",)}
    decision = forbidden_libraries(wire.Evidence(policy=wire.Libraries.FORBIDDEN, **libraries))
    assert decision is not None and decision[:2] == ("DISQUALIFIED", "POLICY") and "at::matmul" in decision[2]
    labelled = wire.Evidence(policy=wire.Libraries.LABELLED, **libraries)
    assert forbidden_libraries(labelled) is None and used_libraries(labelled) == ("at::matmul", "torch.mm")
