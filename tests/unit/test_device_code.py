"""Which kernels are an artifact's own: those that its device code defines, by names as kernel_name makes them on an H100."""

from pathlib import Path
from subprocess import run

import pytest

from sandbox.judge.library_use import from_run, from_symbols, source_name
from sandbox.protocol import elf, python_archive
from tests.unit.fat_objects import ELF, PTX, cubin, fat_binary, fat_object, with_section

OF_LIBRARIES = (
    "at::native::vectorized_elementwise_kernel",
    "at::native::reduce_kernel",
    "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas",
    "ampere_sgemm_128x64_nn",
    "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNT",
    "cublasLt::splitKreduce_kernel",
    "cutlass::Kernel2",
)


def archive(place: Path, source: str, **extensions: bytes) -> bytes:
    """The artifact of a Python module."""
    for name, content in extensions.items():
        (place / "extensions").mkdir(exist_ok=True)
        (place / "extensions" / f"{name}.so").write_bytes(content)
    return python_archive.pack({"kernel.py": source.encode()}, place)


@pytest.mark.parametrize("name", [*OF_LIBRARIES, "gemmSN_TN_kernel"])
def test_text_acquits_no_kernel(tmp_path: Path, name: str) -> None:
    """A comment, a string, the name of a function for the host. Control: each has the name in its bytes, which once was enough."""
    last = name.rpartition("::")[2]
    source = f"# {name}\ntext = '{name}'\n'''\n@triton.jit\ndef {last}(): pass\n'''\ndef {last}(): pass\n"
    host = with_section(b"", section=".other", source=f'const char* text = ".entry {name}"; void {last}(void) {{}}')
    for artifact in (archive(tmp_path, source), host):
        assert last.encode() in artifact
        assert from_run(f"kernel {name}", artifact) == (f"the kernel {name}",)


@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_an_artifact_can_not_define_a_librarys_kernel(tmp_path: Path, name: str) -> None:
    """A collision of names counts as a library. Control: the same device code acquits a kernel of its own."""
    last = name.rpartition("::")[2]
    for artifact in (fat_object(last, "_Z4minePf"), archive(tmp_path, f"@triton.jit\ndef {last}(): pass\n@triton.jit\ndef mine(): pass\n")):
        assert from_run(f"kernel {name}\nkernel mine", artifact) == (f"the kernel {name}",)


def test_a_name_without_the_librarys_namespace_is_free() -> None:
    """One's own vectorized_elementwise_kernel is not PyTorch's."""
    artifact = fat_object("_Z29vectorized_elementwise_kernelPf")
    assert from_run("kernel vectorized_elementwise_kernel", artifact) == ()
    assert from_run("kernel at::native::vectorized_elementwise_kernel", artifact) != ()


SOURCE = """
import triton
from numba import cuda

@triton.autotune(configs=[], key=["n"])
@triton.jit
def add_kernel(x): pass

@cuda.jit("void(float32[:])", fastmath=True)
def scale(x): pass

def later(x): pass
kernel = cuda.jit(later)

def host(x): pass
"""


def test_device_code_of_a_python_module_is_its_own(tmp_path: Path) -> None:
    """Triton's and Numba's functions, and the kernels of the extensions that were compiled from its strings."""
    artifact = archive(tmp_path, SOURCE, mine=fat_object("_ZN4mine5tiledILi32EEEvPf"))
    kernels = ("add_kernel", "add_kernel_0d1d2de", "cudapy::submission::scale", "later", "mine::tiled")
    assert from_run("\n".join(f"kernel {name}" for name in kernels), artifact) == ()
    assert from_run("kernel host\nkernel tile\nkernel iled", artifact) == ("the kernel host", "the kernel tile", "the kernel iled")


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("plain", "plain"),
        ("_Z3addPf", "add"),
        ("_Z3add4halfPf", "add"),  # half is the type of a parameter
        ("_ZL3addPf", "add"),
        ("_ZN4mine5tiledILi32EEEvPf", "tiled"),
        ("_ZN53_GLOBAL__N__1225b5db_20_without_libraries_cu_aeaf26186scaledEfPKfPfl", "scaled"),  # the namespace ends with a digit
        ("_ZN53_GLOBAL__N__1225b5db_20_without_libraries_cu_aeaf26185addedILi1EEEvPKfPfl", "added"),
        ("_ZN4mineL3addEPf", "add"),
        ("_ZN6cudapy10submission5scaleB2v1Ev", "scale"),
        ("_Z", "_Z"),
        ("_Z99999add", "add"),
    ],
)
def test_the_source_name_of_a_symbol(symbol: str, name: str) -> None:
    """As nvcc 13.0 and Numba write them."""
    assert source_name(symbol) == name


def test_a_kernel_in_an_anonymous_namespace_is_its_own() -> None:
    """Whatever the hash in the namespace's name ends with. Control: a kernel that is called as its namespace, or as the end of it."""
    artifact = fat_object("_ZN11_GLOBAL__N86scaledEf")
    assert from_run("kernel scaled", artifact) == ()
    assert from_run("kernel _GLOBAL__N8\nkernel caled", artifact) == ("the kernel _GLOBAL__N8", "the kernel caled")


def test_ptx_and_cubins_define_their_entries_only() -> None:
    """Not their device functions."""
    ptx = b".visible .entry plain(\n.func helper(\n"
    artifact = with_section(fat_binary((PTX, ptx), (ELF, cubin("_Z3addPf", functions=("_Z4calcPf",)))))
    names = "kernel plain\nkernel add\nkernel helper\nkernel calc"
    assert from_run(names, artifact) == ("the kernel helper", "the kernel calc")


def test_damaged_device_code_acquits_nobody() -> None:
    """Each is what no tool writes. Control: whole, it acquits."""
    image = cubin("_Z3addPf")
    whole = fat_binary((ELF, image))
    assert from_run("kernel add", with_section(whole)) == ()
    longer = whole[:8] + (1 << 40).to_bytes(8, "little") + whole[16:]
    longer_entry = whole[:24] + (1 << 40).to_bytes(8, "little") + whole[32:]
    no_header = whole[:20] + bytes(4) + whole[24:]
    cut = fat_binary((ELF, image[:-100]))
    for damaged in (longer, longer_entry, no_header, cut, bytes(1000), b"", fat_binary((ELF, b""))):
        assert from_run("kernel add", with_section(damaged)) == ("the kernel add",)
    linked = with_section(whole)
    for artifact in (linked[:-200], linked[:64], elf.MAGIC + b"\xff" * 100, b"", bytes(1024)):
        assert from_run("kernel add", artifact) == ("the kernel add",)


def test_names_that_share_their_text_are_refused() -> None:
    """Symbols without number, all of one long name: the work stays in proportion to the file."""
    image = bytearray(cubin("_Z" + "a" * 4000, *(f"f{index}" for index in range(200))))
    for index in range(1, 202):
        image[64 + 24 * index : 68 + 24 * index] = (1).to_bytes(4, "little")
    with pytest.raises(elf.Damaged, match="share"):
        list(elf.kernel_names(bytes(image)))


def test_extensions_of_a_python_module_are_looked_at_as_well(tmp_path: Path) -> None:
    """Symbols tell which functions of libraries an extension calls, in any thread. Control: a name in the source says nothing."""
    (tmp_path / "wanting.s").write_text(".weak cublasSgemm_v2\n.quad cublasSgemm_v2\n")
    run(["gcc", "-shared", "-nostdlib", "wanting.s", "-o", "wanting.so"], cwd=tmp_path, check=True)
    assert from_symbols(archive(tmp_path, "cublasSgemm_v2")) == ()
    assert from_symbols(archive(tmp_path, "pass", mine=(tmp_path / "wanting.so").read_bytes())) == ("cublasSgemm_v2",)
