"""nvcc is taken apart as it says itself, and left alone where what it says is not understood."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox import wire
from sandbox.box import build, elf, nvcc, steps
from sandbox.box.headers import Headers
from sandbox.box.languages import cuda
from sandbox.box.languages.registry import LANGUAGES

NVCC = shutil.which("nvcc")
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="nvcc is not on PATH")
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
    ("old", "new"),
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
def test_an_answer_of_another_shape_is_not_taken(old, new):
    """Then nvcc is asked to do it all."""
    assert nvcc.parse(ANSWER) is not None
    assert nvcc.parse(ANSWER.replace(old, new)) is None


def test_every_source_of_a_job_has_an_identifier_of_its_own():
    """And the same in every build."""
    ids = {nvcc.module_id(path, content) for path, content in (("a.cu", b"1"), ("b.cu", b"1"), ("a.cu", b"2"), ("x/a.cu", b"1"))}
    assert len(ids) == 4
    assert nvcc.module_id("a b.cu", b"1") == nvcc.module_id("a b.cu", b"1")
    assert nvcc.module_id("a b.cu", b"1")[10:17] == "6_a_b_c"


def built(tmp_path, sources, languages=LANGUAGES, **job):
    (tmp_path / "out").mkdir(parents=True)
    (tmp_path / "src/files").mkdir(parents=True)
    for path, text in sources.items():
        (tmp_path / "src/files" / path).write_text(text)
    job = wire.BuildJob(language="cuda", entry="solve", device_kind="cuda", sources=tuple(sources), **job)
    (tmp_path / "src/job.json").write_bytes(wire.encode(job))
    code = build.build(tmp_path / "src", tmp_path / "out", languages)
    artifact = tmp_path / "out/artifact"
    return code, artifact.read_bytes() if artifact.exists() else b""


@needs_nvcc
def test_an_artifact_carries_device_code_and_its_runtime(tmp_path):
    """Nothing but the system's libraries is looked for when it is loaded."""
    code, artifact = built(tmp_path, {"kernel.cu": TEXT})
    assert code == build.BUILT
    assert b".nv_fatbin" in artifact and b"libcudart" not in artifact.replace(b"libcudart_static", b"")
    assert "cudaLaunchKernel" not in elf.undefined_names(artifact)


@needs_nvcc
def test_the_log_says_what_each_kernel_uses(tmp_path, capsys):
    """Registers, shared memory and spills, for those who tune; also of a build that did."""
    tile = TEXT.replace(
        "work(float* a) {", "work(float* a) { __shared__ float tile[64]; tile[threadIdx.x] = a[1]; __syncthreads(); a[2] = tile[9];"
    )
    assert built(tmp_path, {"kernel.cu": tile})[0] == build.BUILT
    log = capsys.readouterr().out
    assert "_Z4workPf" in log and "registers" in log and "256 bytes smem" in log and "0 bytes spill stores" in log


@needs_nvcc
def test_the_architecture_is_the_job_s(tmp_path, capsys):
    """A job that names none gets the default."""
    built(tmp_path / "80", {"kernel.cu": TEXT}, architecture="sm_80")
    built(tmp_path / "default", {"kernel.cu": TEXT})
    log = capsys.readouterr().out
    assert log.index("for 'sm_80'") < log.index(f"for '{nvcc.ARCHITECTURE}'")


@needs_nvcc
def test_names_that_a_shell_would_read_are_files_like_others(tmp_path, capsys):
    """With the same static names in two of them."""
    code, artifact = built(
        tmp_path,
        {"it's $HOME (1).cu": TEXT.replace("__global__", "static __global__"), "b c.cu": f"static {TEXT}".replace("solve", "other")},
    )
    assert code == build.BUILT, capsys.readouterr().out
    assert {"solve", "other"} <= set(elf.exported_names(artifact))


@needs_nvcc
@pytest.mark.parametrize(("source", "code"), [(TEXT, build.BUILT), (TEXT + "int x = typo;", build.REJECTED)])
def test_nvcc_of_an_unknown_kind_compiles_by_itself(tmp_path, monkeypatch, capsys, source, code):
    """One that answers a dry run as no nvcc does."""
    program = tmp_path / "bin/nvcc"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncase "$*" in *--dryrun*) echo "#$ compile it all" >&2; exit 0;; esac\nexec {NVCC} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "headers").mkdir()
    (tmp_path / "headers/value.h").write_text("const int value = VALUE;")
    headers = Headers(include_dirs=(str(tmp_path / "headers"),), defines=("VALUE=1",))
    languages = {"cuda": SimpleNamespace(headers=lambda *_: [headers], libraries=cuda.libraries, check=cuda.check)}
    more = "#include <value.h>\nint more() { return value; }"
    assert built(tmp_path, {"kernel.cu": f"{source}\n{more}", "more.cpp": more.replace("more", "much")}, languages)[0] == code
    log = capsys.readouterr().out
    assert ("kernel.cu(3): error" in log) is (code == build.REJECTED) and ("registers" in log) is (code == build.BUILT)


def test_a_box_without_nvcc_is_our_fault(tmp_path, monkeypatch):
    """It says what to install; the submission gets no verdict of it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    job = wire.BuildJob(language="cuda", entry="solve", device_kind="cuda", sources=())
    with pytest.raises(nvcc.NoCompiler, match="install the CUDA toolkit"):
        nvcc.prepare(job, {}, Path(tmp_path), Path(tmp_path))
