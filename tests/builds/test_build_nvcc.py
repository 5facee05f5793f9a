"""nvcc is taken apart as it says itself, and left alone where what it says is not understood."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox.builder import build
from sandbox.compilers import host_compiler, nvcc, steps
from sandbox.compilers.headers import Headers
from sandbox.languages import cuda, implementation
from sandbox.protocol import elf, wire
from sandbox.protocol.toolkit import CUTLASS_VARIABLE
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge.library_use import DeviceCode, from_symbols

NVCC = shutil.which("nvcc")


def needs_nvcc(test):
    """Skip the test without nvcc; compiling takes a second or more each, so it is not in `make check`."""
    return pytest.mark.slow(pytest.mark.skipif(NVCC is None, reason="nvcc is not on PATH")(test))


ANSWER = f"""
#$ TOP=/opt/cuda dir/bin/..
#$ CICC_PATH=/opt/cuda dir/nvvm/bin
#$ NVVMIR_LIBRARY_DIR=/opt/cuda dir/nvvm/libdevice
#$ _SPACE_=\x20
#$ INCLUDES="-I/opt/cuda dir/include"\x20\x20
nvcc warning : architectures before this one are old
#$ gcc -E -x c++ "-I$TOP/include" "{nvcc.SOURCE}" -o "{nvcc.FOLDER}/{nvcc.STEM}.cpp4.ii"
#$ cudafe++ --orig_src_path_name "/tmp/{nvcc.SOURCE}" --gen_c_file_name "{nvcc.FOLDER}/{nvcc.STEM}.cudafe1.cpp" \
--stub_file_name "{nvcc.STEM}.stub.c" --gen_module_id_file --module_id_file_name "{nvcc.FOLDER}/{nvcc.MODULE_ID}" \
"{nvcc.FOLDER}/{nvcc.STEM}.cpp4.ii"
#$ gcc -E -x c++ "{nvcc.SOURCE}" -o "{nvcc.FOLDER}/{nvcc.STEM}.cpp1.ii"
#$ "$CICC_PATH/cicc" --include_file_name "{nvcc.STEM}.fatbin.c" --module_id_file_name "{nvcc.FOLDER}/{nvcc.MODULE_ID}" \
--stub_file_name "{nvcc.FOLDER}/{nvcc.STEM}.stub.c" "{nvcc.FOLDER}/{nvcc.STEM}.cpp1.ii" -o "{nvcc.FOLDER}/{nvcc.STEM}.ptx"
#$ ptxas -v "{nvcc.FOLDER}/{nvcc.STEM}.ptx" -o "{nvcc.FOLDER}/{nvcc.STEM}.cubin"
#$ fatbinary --cmdline="-v " "--image3=kind=elf,sm=90,file={nvcc.FOLDER}/{nvcc.STEM}.cubin" \
--embedded-fatbin="{nvcc.FOLDER}/{nvcc.STEM}.fatbin.c"
#$ rm {nvcc.FOLDER}/{nvcc.STEM}.fatbin
#$ gcc -c -x c++ "{nvcc.FOLDER}/{nvcc.STEM}.cudafe1.cpp" -o "{nvcc.FOLDER}/{steps.OBJECT}"
"""
TEXT = '__global__ void work(float* a) { a[threadIdx.x] = 1; }\nextern "C" void solve(float* a) { work<<<1, 32>>>(a); }\n'


def planned(tmp_path, path="a dir/my kernel.cu"):
    dryrun = nvcc.parse(ANSWER)
    (tmp_path / "files" / path).parent.mkdir(parents=True)
    (tmp_path / "files" / path).write_text("")
    headers = Headers(include_dirs=("/headers",), defines=("NAME=1",))
    return nvcc.Parallel(files=tmp_path / "files", dryrun=dryrun).compile(path, 3, headers, tmp_path)


def test_host_and_device_pass_need_nothing_of_each_other(tmp_path):
    """Only the object needs both, so that ninja may run them side by side."""
    host, front, device, cicc, ptxas, fatbinary, objects = planned(tmp_path)
    assert front.inputs == ("3/my_kernel.module_id", *host.outputs)
    assert cicc.inputs == ("3/my_kernel.module_id", *device.outputs)
    # Where it finds no source it notes no time of one.
    assert ptxas.directory == tmp_path / "3" and cicc.directory == tmp_path / "files"
    assert ptxas.inputs == ("3/my_kernel.ptx",) and fatbinary.inputs == ptxas.outputs
    assert objects.outputs == (steps.object_name(3),)
    assert {*front.outputs, *cicc.outputs, *fatbinary.outputs} <= set(objects.inputs)


def test_the_commands_are_nvcc_s_with_the_job_s_names(tmp_path):
    """Variables filled in, the source called as submitted, headers only where they are read."""
    host, front, _, cicc, *_, objects = planned(tmp_path)
    assert host.command[:3] == ("gcc", "-I.", "-DNAME=1") and host.command[3:5] == ("-isystem", "/headers")
    assert "-I/opt/cuda dir/bin/../include" in host.command and "a dir/my kernel.cu" in host.command
    assert front.command[2] == "a dir/my kernel.cu" and nvcc.MAKES_MODULE_ID not in front.command
    assert "my_kernel.stub.c" in front.command
    assert cicc.command[0] == "/opt/cuda dir/nvvm/bin/cicc"
    assert ("NVVMIR_LIBRARY_DIR", "/opt/cuda dir/nvvm/libdevice") in cicc.environment
    assert "-DNAME=1" not in objects.command


@pytest.mark.parametrize(
    ("old", "replacement"),
    [
        (ANSWER, ""),
        ("--gen_module_id_file", "--module_id_by_other_means"),
        ("cudafe++", "cudafe+++"),
        ("$CICC_PATH", "$CICC_DIRECTORY"),
        ("#$ ptxas -v", '#$ ptxas "-v'),
        (f"{nvcc.FOLDER}/{steps.OBJECT}", "kernel.o"),
        (f'-o "{nvcc.FOLDER}/{nvcc.STEM}.ptx"', f'-o "{nvcc.FOLDER}"'),
    ],
    ids=["nothing", "no module id", "other tools", "unknown variable", "open quote", "no object", "a folder"],
)
def test_an_answer_of_another_shape_is_not_taken(old, replacement):
    """Then nvcc is asked to do it all."""
    assert nvcc.parse(ANSWER) is not None
    assert nvcc.parse(ANSWER.replace(old, replacement)) is None


def test_every_source_of_a_job_has_an_identifier_of_its_own():
    """And the same in every build."""
    ids = {nvcc.module_id(path, content) for path, content in (("a.cu", b"1"), ("b.cu", b"1"), ("a.cu", b"2"), ("x/a.cu", b"1"))}
    assert len(ids) == 4
    assert nvcc.module_id("a b.cu", b"1") == nvcc.module_id("a b.cu", b"1")
    assert nvcc.module_id("a b.cu", b"1")[10:17] == "6_a_b_c"


@pytest.fixture
def builder(built):
    """Build sources for a GPU."""
    return lambda files, find=implementation, **fields: built(files, find, device_kind="cuda", **fields)


@needs_nvcc
def test_an_artifact_carries_device_code_and_its_runtime(builder):
    """Nothing but the system's libraries is looked for when it is loaded."""
    artifact = builder({"kernel.cu": TEXT}).artifact
    assert b".nv_fatbin" in artifact and b"libcudart" not in artifact.replace(b"libcudart_static", b"")
    assert "cudaLaunchKernel" not in elf.undefined_names(artifact)


@needs_nvcc
def test_the_log_says_what_each_kernel_uses(builder):
    """Registers, shared memory and spills, for those who tune; also of a build that did."""
    tile = TEXT.replace(
        "work(float* a) {", "work(float* a) { __shared__ float tile[64]; tile[threadIdx.x] = a[1]; __syncthreads(); a[2] = tile[9];"
    )
    compiled = builder({"kernel.cu": tile})
    assert compiled.code == build.BUILT
    log = compiled.log
    assert "_Z4workPf" in log and "registers" in log and "256 bytes smem" in log and "0 bytes spill stores" in log


@needs_nvcc
@pytest.mark.parametrize(("name", "some"), [("double_accumulator", True), ("float_accumulator", False)])
def test_the_report_counts_instructions_in_float64(tmp_path, name, some):
    """The cost of an accumulator without a type can be read off the build."""
    source = (Path(__file__).parents[2] / "kernels_examples" / "matmul_4092" / f"{name}.cu").read_text("utf-8")
    for directory in ("files", "place"):
        (tmp_path / directory).mkdir()
    (tmp_path / "files" / "k.cu").write_text(source, "utf-8")
    job = wire.BuildJob(language="cuda", entry="solve", device_kind="cuda", sources=("k.cu",), architecture="sm_90a")
    tried, note = build.compile_sources(job, implementation("cuda"), tmp_path / "files", tmp_path / "place", tmp_path)
    assert tried.artifact is not None and len(note.kernels) == 1
    assert (note.kernels[0].double_instruction_count > 0) == some


@needs_nvcc
def test_the_architecture_is_the_job_s(builder):
    """A job that names none gets the default."""
    assert "for 'sm_80'" in builder({"kernel.cu": TEXT}, architecture="sm_80").log
    assert f"for '{nvcc.target(nvcc.ARCHITECTURE)}'" in builder({"kernel.cu": TEXT}).log


@pytest.mark.parametrize(
    ("device", "target"),
    [("sm_75", "sm_75"), ("sm_89", "sm_89"), ("sm_90", "sm_90a"), ("sm_90a", "sm_90a"), ("sm_100", "sm_100a"), ("sm_100f", "sm_100f")],
)
def test_from_hopper_on_all_that_the_device_has_may_be_used(device, target):
    """wgmma exists on sm_90a only; what runs nowhere else is built for nowhere else."""
    assert nvcc.target(device) == target


@pytest.mark.parametrize("architecture", ["90", "compute_90", "sm_", "sm_90a,code=sm_80", "sm_90 -o x", "sm_90\n"])
def test_an_architecture_that_is_none_is_our_fault(architecture):
    """The architecture comes from the judge, never from the submission."""
    with pytest.raises(ValueError, match="write it as nvcc does"):
        nvcc.target(architecture)


@needs_nvcc
def test_instructions_that_only_this_device_has_are_built(builder):
    """setmaxnreg, as warp-specialized kernels of Hopper have it."""
    asm = 'asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); a['
    source = TEXT.replace("void work", "void __launch_bounds__(384, 1) work").replace("a[", asm, 1)
    compiled = builder({"kernel.cu": source}, architecture="sm_90")
    assert compiled.code == build.BUILT, compiled.log


@needs_nvcc
def test_the_artifact_knows_the_user_s_lines(builder, tmp_path):
    """For profilers; the same bytes whenever and wherever the sources were written."""
    first, second = builder({"kernel.cu": TEXT}), builder({"kernel.cu": TEXT})
    source, again = second.out.parent / "src", tmp_path / "again"
    os.utime(source / "files/kernel.cu", (1, 1))
    again.mkdir()
    assert build.build(source, again) == build.BUILT
    assert b"/proc/self/cwd" in first.artifact and str(tmp_path).encode() not in first.artifact
    assert first.artifact == second.artifact == (again / "artifact").read_bytes()


@needs_nvcc
def test_names_that_a_shell_would_read_are_files_like_others(builder):
    """With the same static names in two of them."""
    compiled = builder(
        {"it's $HOME (1).cu": TEXT.replace("__global__", "static __global__"), "b c.cu": f"static {TEXT}".replace("solve", "other")}
    )
    assert compiled.code == build.BUILT, compiled.log
    assert {"solve", "other"} <= set(elf.exported_names(compiled.artifact))


def put_unknown_nvcc(directory, monkeypatch):
    """Put an nvcc on the PATH that answers a dry run as no nvcc does."""
    program = directory / "nvcc"
    directory.mkdir()
    program.write_text(f'#!/bin/sh\ncase "$*" in *--dryrun*) echo "#$ compile it all" >&2; exit 0;; esac\nexec {NVCC} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")


@needs_nvcc
@pytest.mark.parametrize(("source", "code"), [(TEXT, build.BUILT), (TEXT + "int x = typo;", build.REJECTED)])
def test_nvcc_of_an_unknown_kind_compiles_by_itself(builder, tmp_path, monkeypatch, source, code):
    """All in one step."""
    put_unknown_nvcc(tmp_path / "bin", monkeypatch)
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers/value.h").write_text("const int value = VALUE;")
    headers = Headers(include_dirs=(str(tmp_path / "headers"),), defines=("VALUE=1",))
    fake = SimpleNamespace(headers=lambda *_: [headers], libraries=cuda.libraries, check=cuda.check)
    addition = "#include <value.h>\nint more() { return value; }"
    compiled = builder({"kernel.cu": f"{source}\n{addition}", "more.cpp": addition.replace("more", "much")}, lambda *_: fake)
    assert compiled.code == code
    assert ("kernel.cu(3): error" in compiled.log) is (code == build.REJECTED) and ("registers" in compiled.log) is (code == build.BUILT)


# -- kernels that launch kernels ------------------------------------------------------------------------------------------

NESTED = """
#include "step.cuh"
__global__ void parent(float* a) { step<<<1, 32>>>(a); }
extern "C" void solve(float* a) { parent<<<1, 1>>>(a); }
"""
STEP = {
    "step.cuh": "__global__ void step(float* a);\n",
    "step.cu": '#include "step.cuh"\n__global__ void step(float* a) { a[threadIdx.x] += 1; }\n',
}


def missing_from(artifact):
    """Return the device code and runtime that an artifact would look for when it is loaded."""
    return [name for name in elf.undefined_names(artifact) if name.startswith(("cuda", "__cuda", "__fatbin", "_Z4step"))]


@needs_nvcc
def test_device_code_that_launches_is_linked(builder):
    """Across files, to the same bytes each time, and with nothing left to look for."""
    artifact, again = (builder({"kernel.cu": NESTED, **STEP}).artifact for _ in range(2))
    assert artifact == again and not missing_from(artifact)
    assert DeviceCode(artifact).defines("parent") and DeviceCode(artifact).defines("step")


@needs_nvcc
def test_only_what_launches_is_linked_so(tmp_path):
    """The others are compiled as before: the same commands."""
    job = wire.BuildJob(language="cuda", entry="solve", device_kind="cuda", sources=("kernel.cu",))
    plans = {}
    for name, text in (("host", TEXT), ("nested", NESTED)):
        (tmp_path / name).mkdir()
        plans[name] = nvcc.prepare(job, {"kernel.cu": text}, tmp_path, tmp_path / name)
    assert isinstance(plans["host"], nvcc.Parallel) and plans["host"].device_link == ()
    assert len(plans["host"].link(["0/object.o"], [nvcc.STATIC_RUNTIME], "artifact", tmp_path)) == 2
    first, *_ = plans["nested"].link(["0/object.o"], [nvcc.STATIC_RUNTIME], "artifact", tmp_path)
    assert first.outputs == (nvcc.DEVICE_LINKED,)
    commands = {name: " ".join(word for command in plan.dryrun.commands for word in command) for name, plan in plans.items()}
    assert "-D__CUDACC_RDC__" in commands["nested"] and "RDC" not in commands["host"] and "--device-c" not in commands["host"]


@needs_nvcc
def test_nvcc_of_an_unknown_kind_links_device_code_too(builder, tmp_path, monkeypatch):
    """A launch that a macro hides is not seen, and nvcc says no: the control."""
    put_unknown_nvcc(tmp_path / "bin", monkeypatch)
    assert not missing_from(builder({"kernel.cu": NESTED, **STEP}).artifact)
    hidden = NESTED.replace("__global__", "#define STEP step<<<1, 32>>>\n__global__").replace("{ step<<<1, 32>>>(", "{ STEP(")
    assert builder({"kernel.cu": hidden, **STEP}).code == build.REJECTED


def test_a_box_without_nvcc_is_our_fault(tmp_path, monkeypatch):
    """The error says what to install; the submission gets no verdict of it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    job = wire.BuildJob(language="cuda", entry="solve", device_kind="cuda", sources=())
    with pytest.raises(nvcc.NoCompiler, match="install the CUDA toolkit"):
        nvcc.prepare(job, {}, Path(tmp_path), Path(tmp_path))


# -- what is wrong, in the user's names ------------------------------------------------------------------------------------

BAD_PTX = """// a comment
template <typename T>
__device__ __forceinline__ T square(T x) {
    T y;
    asm("mul.f33 %0, %1, %1;" : "=f"(y) : "f"(x));
    return y;
}
__global__ void work(float* a) {
    a[threadIdx.x] = square(a[1]);
    asm volatile("no_such_instruction;");
}
extern "C" void solve(float* a) { work<<<1, 32>>>(a); }
"""
OURS = re.compile(r"/tmp|/proc|attempt-|__source__|__folder__|_GLOBAL__N__|\.ptx|\.cudafe|\.ii\b|object\.o|\b\d+/|sandbox|ptxas info")


@needs_nvcc
def test_a_typo_is_told_of_by_file_and_line(builder):
    """Of a raw kernel among others, with its text, and with no name of ours."""
    typo = TEXT.replace("{ a[", "{\n  a[").replace("= 1", "= missing_name")
    rejected = builder({"good.cu": TEXT.replace("solve", "other"), "my kernel.cu": f"// a comment\n{typo}"})
    assert (rejected.code, rejected.artifact) == (build.REJECTED, None)
    assert rejected.log.startswith('my kernel.cu(3): error: identifier "missing_name" is undefined\n    a[threadIdx.x] = missing_name; }\n')
    assert OURS.search(rejected.log) is None


@needs_nvcc
def test_bad_inline_ptx_is_told_of_by_file_and_line(builder, tmp_path):
    """ptxas knows a file of ours only; its lines lead to the user's, also out of an inlined template. Nothing is said of kernels that were
    built, and the errors of other files stay."""
    rejected = builder({"good.cu": TEXT.replace("solve", "other"), "kernel.cu": BAD_PTX, "host.cpp": "int x = nothing;\n"})
    log = rejected.log
    assert (rejected.code, rejected.artifact, rejected.note) == (build.REJECTED, None, wire.BuildNote())
    errors = [line for line in log.splitlines() if line.startswith("kernel.cu(")]
    assert errors[0] == "kernel.cu(5): error: Unknown modifier '.f33'"
    assert errors[-1] == "kernel.cu(10): error: Not a name of any known instruction: 'no_such_instruction'"
    assert "    no_such_instruction;\n" in log and "\nhost.cpp:1:9: error:" in log
    assert OURS.search(log) is None and "bytes stack frame" not in log and str(tmp_path) not in log


# -- libraries and headers of the toolkit ----------------------------------------------------------------------------------


def make_library(path, soname, function):
    """Put a library with one function somewhere."""
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text(f"int {function}() {{ return 0; }}")
    subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{soname}", source, "-o", path], check=True)


def dynamic_section(path):
    """The libraries that a shared object needs, and where they are looked for."""
    listing = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
    return {kind: re.findall(rf"\({kind}\).*\[(.*)\]", listing) for kind in ("NEEDED", "RPATH")}


@pytest.fixture
def toolkit(tmp_path):
    """A toolkit's directories of libraries, with the driver's and cuBLAS's names in the stubs, as nvcc lists them."""
    make_library(tmp_path / "lib/stubs/libcuda.so", "libcuda.so.1", "cuInit")
    make_library(tmp_path / "lib/stubs/libcublas.so", "libcublas.so.99", "cublasCreate_v2")
    make_library(tmp_path / "lib/libcublas.so", "libcublas.so.99", "cublasCreate_v2")
    make_library(tmp_path / "lib/libcufft.so", "libcufft.so.99", "cufftCreate")
    return [tmp_path / "lib/stubs", tmp_path / "lib"]


@pytest.mark.parametrize(
    ("called", "needed"),
    [("", []), ("cuInit", ["libcuda.so.1"]), ("cublasCreate_v2", ["libcublas.so.99"]), ("curandCreateGenerator", [])],
)
def test_an_artifact_needs_the_libraries_that_it_calls(tmp_path, toolkit, called, needed):
    """And says where they lie, which is never where the stubs are. One that is not there is left out."""
    text = (
        f'extern "C" int {called}(); extern "C" int solve() {{ return {called}(); }}' if called else 'extern "C" int solve() { return 0; }'
    )
    (tmp_path / "kernel.cpp").write_text(text)
    compiled = host_compiler.compile_step(tmp_path / "kernel.cpp", "kernel.cpp", 0, [], tmp_path, tmp_path)
    linked = host_compiler.link_steps(compiled.outputs, nvcc.libraries_in(toolkit), "artifact", tmp_path)
    (tmp_path / "0").mkdir()
    result = steps.run([compiled, *linked], tmp_path)
    assert result.succeeded, result.log
    section = dynamic_section(tmp_path / "artifact")
    assert [name for name in section["NEEDED"] if name.startswith("libcu")] == needed and section["RPATH"] == [str(tmp_path / "lib")]
    imported = from_symbols((tmp_path / "artifact").read_bytes())
    assert imported == tuple(name for name in [called] if name.startswith(("cublas", "curand")))  # what forbidden libraries are refused by


def test_without_stubs_the_driver_is_named_by_its_own_library(tmp_path, monkeypatch):
    """But an artifact is not told to look for it there."""
    monkeypatch.setattr(nvcc, "DRIVER_PLACES", (tmp_path,))
    make_library(tmp_path / "libcuda.so.1", "libcuda.so.1", "cuInit")
    words = nvcc.libraries_in([])
    assert "-l:libcuda.so.1" in words and f"-L{tmp_path}" in words and not any("rpath" in word for word in words)


def test_a_toolkit_without_libraries_adds_no_word(tmp_path, monkeypatch):
    """Nor do packages that are not there."""
    monkeypatch.setattr(nvcc, "toolkit_packages", lambda part: [])
    monkeypatch.setattr(nvcc, "DRIVER_PLACES", ())
    assert nvcc.libraries_in([tmp_path, tmp_path / "missing"]) == []


CALLS_PACKAGES = """
#include <cute/value.h>
#include <cutlass/util/other.h>
#include <cublas_v2.h>
extern "C" void solve(float* a) { cublasCreate_v2(); }
int total = VALUE + OTHER;
"""


@needs_nvcc
@pytest.mark.parametrize("home", [True, False], ids=["CUTLASS_HOME", "package"])
@pytest.mark.parametrize("unknown", [True, False], ids=["by nvcc itself", "side by side"])
def test_packages_add_headers_and_libraries(builder, tmp_path, monkeypatch, home, unknown):
    """CUTLASS by its variable or its package, and cuBLAS as PyTorch brings it; without them the source is rejected."""
    if unknown:
        put_unknown_nvcc(tmp_path / "bin", monkeypatch)
    files = {"kernel.cu": CALLS_PACKAGES}
    assert builder(files).code == build.REJECTED
    site = tmp_path / "site"
    cutlass = tmp_path / "cutlass" if home else site / "cutlass_library/source"
    texts = {
        cutlass / "include/cute/value.h": "#define VALUE 1",
        cutlass / "tools/util/include/cutlass/util/other.h": "#define OTHER 2",
        site / "nvidia/cu99/include/cublas_v2.h": 'extern "C" int cublasCreate_v2();',
    }
    for path, text in texts.items():
        path.parent.mkdir(parents=True)
        path.write_text(text)
    make_library(site / "nvidia/cu99/lib/libcublas.so.99", "libcublas.so.99", "cublasCreate_v2")
    monkeypatch.syspath_prepend(site)
    if home:
        monkeypatch.setenv(CUTLASS_VARIABLE, str(cutlass))
    compiled = builder(files)
    assert compiled.code == build.BUILT, compiled.log
    section = dynamic_section(compiled.out / "artifact")
    assert "libcublas.so.99" in section["NEEDED"] and str(site / "nvidia/cu99/lib") in section["RPATH"][0]
