"""The builder imports a Python module once, packs what that compiled, and says what is wrong with it in the module's own lines."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import tarfile
import time
import types

import pytest

from sandbox.builder import build
from sandbox.compilers import nvcc
from sandbox.compilers.steps import BUILT, ENTRY_NOT_FOUND, IMPORT_FAILED, REJECTED
from sandbox.languages import python_extensions, python_module
from sandbox.protocol import wire
from tests.python_builds import GOOD_INLINE, INLINE, KERNEL_LINE, PLAIN

pytestmark = pytest.mark.slow  # torch is imported in each
NVCC = pytest.param("cuda", marks=pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH"))
ADD = "add(float const*, float const*, float*, long)"


def test_a_module_without_extensions_is_packed_as_it_is(builder):
    """The artifact is a single file, under the path that it was submitted with."""
    built = builder(PLAIN)
    assert (built.code, built.names) == (BUILT, ["sources/mine/kernel.py"]), built.log


@pytest.mark.parametrize("device_kind", ["emulated", pytest.param("cuda", marks=NVCC.marks)])
def test_an_extension_is_compiled_once_and_packed(builder, device_kind):
    """Two builds make the same bytes; the report's kind of headers is the extension's."""
    first, second = builder(GOOD_INLINE, device_kind=device_kind), builder(GOOD_INLINE, device_kind=device_kind)
    assert [kernel.name for kernel in first.note.kernels] == ([ADD] if device_kind == "cuda" else [])
    assert first.code == BUILT, first.log
    assert [name.split("/")[-1] for name in first.names] == ["adds.so", "kernel.py"]
    assert first.artifact == second.artifact
    assert first.note.headers == "light"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The directory in which is built, which stays."""
    directory = tmp_path / "place"
    directory.mkdir()
    monkeypatch.setattr(build, "_place", lambda: contextlib.nullcontext(directory))
    return directory


def test_an_error_in_cuda_is_at_the_modules_line(builder, place):
    """The compiler names and quotes the line of the Python file; torch's own headers are not tried after it."""
    failed = builder(INLINE.replace("BODY", " + undefined_thing"))
    assert failed.code == REJECTED, failed.log
    assert f"mine/kernel.py:{KERNEL_LINE}:" in failed.log and "undefined_thing" in failed.log
    assert f"{KERNEL_LINE} |     if (i < n) c[i] = a[i] + b[i] + undefined_thing;" in failed.log
    assert "mine/kernel.py:16: note: asked for here" in failed.log
    assert "sandbox" not in failed.log
    assert [path.name for path in place.rglob("attempt-*")] == ["attempt-light"]


CAUGHT = INLINE.replace("BODY", " + undefined_thing").replace("module = load_inline", "try:\n    module = load_inline")


def test_an_extensions_failure_counts_unless_the_module_goes_on_without_it(builder):
    """Also where a module wraps it in a failure of its own."""
    handler = "\nexcept RuntimeError as error:\n    raise SystemError('no') from error\n\ndef solution"
    failed = builder(CAUGHT.replace("\n\ndef solution", handler))
    assert failed.code == REJECTED and "undefined_thing" in failed.log
    built = builder(CAUGHT.replace("\n\ndef solution", "\nexcept RuntimeError:\n    module = None\n\ndef solution"))
    assert built.code == BUILT and built.names == ["sources/mine/kernel.py"]
    assert built.note.unbuilt.startswith(f"'adds' (mine/kernel.py:{KERNEL_LINE}:") and "undefined_thing" in built.note.unbuilt
    again = "load_inline('adds', DECLARED, CUDA.replace(' + undefined_thing', ''), functions=['add_all'])"
    repaired = builder(CAUGHT.replace("\n\ndef solution", handler.replace("raise SystemError('no') from error", f"module = {again}")))
    assert repaired.code == BUILT and repaired.note.unbuilt == "", repaired.log


@pytest.mark.parametrize("cpp", ["DECLARED.replace('add_all', 'add_both')", "''"])
def test_a_function_to_bind_that_nothing_declares_is_told_without_a_compiler(builder, place, cpp):
    """The compiler would guess at torch's names, and take torch's own headers to be sure."""
    failed = builder(GOOD_INLINE.replace('load_inline("adds", DECLARED', f'load_inline("adds", {cpp}'))
    assert failed.code == REJECTED
    assert "error: load_inline's functions names 'add_all', which cpp_sources does not declare" in failed.log
    assert failed.log.startswith("mine/kernel.py:") and not list(place.rglob("attempt-*"))


@pytest.mark.parametrize(
    ("cpp", "include_dirs", "name"),
    [
        ("int f();", (), None),
        ("int g();", (), "f"),
        ("#define DECLARE(a, b) int a##b();\nDECLARE(, f)", (), None),
        ('#include "mine.h"', (), None),
        ("#include <mine.h>", (), None),
        ("#include <torch/extension.h>", (), "f"),
        ("#include <torch/extension.h>", ("/mine",), None),
        ("#include <torch/extension.h>\nusing namespace at;", (), None),
    ],
)
def test_a_function_that_a_header_may_declare_is_the_compilers_to_say(cpp, include_dirs, name):
    """Only what no line of C++ can bring is undeclared."""
    files = {python_extensions.MAIN: (cpp, *python_extensions.bindings_of("f", wrapped=True))}
    extension = python_extensions.Extension(name="mine", files=files, include_dirs=include_dirs)
    assert python_extensions.undeclared(extension) == name


def test_a_module_that_binds_itself_has_no_functions_to_declare():
    """The module may call them what it likes."""
    text = 'int f();\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\nm.def("g", &f);\n}'
    extension = python_extensions.Extension(name="mine", files={python_extensions.MAIN: (text,)})
    assert python_extensions.undeclared(extension) is None


@pytest.mark.parametrize(
    ("added", "is_found"),
    [
        (["-arch=sm_90"], True),
        (["-arch", "sm_90"], True),
        (["-gencode arch=compute_90a,code=sm_90a"], True),
        (["--generate-code=arch=compute_90,code=[sm_90,compute_90]", "--gpu-architecture=native"], True),
        (["-DMAJOR=9"], False),
        (["-arch", "-DMAJOR=9"], False),
    ],
)
def test_an_extension_is_found_whatever_gpu_it_is_asked_for(added, is_found):
    """A module may name one only where there is one; all are compiled for the GPU that runs them. The controls: flags that count."""

    def path(*flags):
        return python_extensions.Extension(name="mine", files={}, cuda_cflags=("-O3", *flags)).path

    assert (path(*added) == path()) is is_found


def test_two_extensions_may_have_one_name(builder):
    """Told apart by their sources."""
    again = GOOD_INLINE.replace(
        "def solution", 'other = load_inline("adds", DECLARED + " // 2", CUDA, functions="add_all")\n\ndef solution'
    )
    assert sum(name.endswith("adds.so") for name in builder(again).names) == 2


def test_files_that_the_module_writes_are_compiled_by_load(builder):
    """`load` takes paths; their own directory is searched for headers."""
    text = """
import os, tempfile
from torch.utils.cpp_extension import load
place = tempfile.mkdtemp()
open(place + "/two.h", "w").write("constexpr int two() { return 2; }")
bound = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("two", &two); }'
open(place + "/x.cpp", "w").write('#include <torch/extension.h>\\n#include "two.h"\\n' + bound)
module = load(name="x", sources=[place + "/x.cpp"], extra_cflags=["-DANSWER=42", "-O3"])
assert module.two() == 2
def solution(a, b): return a
"""
    built = builder(text)
    assert built.code == BUILT, built.log


def flagged(flags):
    return GOOD_INLINE.replace('functions=["add_all"])', f'functions=["add_all"], {flags})')


def test_flags_that_are_not_used_are_remarked(builder):
    """Once each; what is always done is no remark."""
    built = builder(flagged('extra_cuda_cflags=["-O2", "--use_fast_math", "-arch=sm_70"], extra_cflags=["-march=native"]'))
    assert built.code == BUILT, built.log
    (remark,) = built.note.remarks
    assert remark == "adds: -march=native, --use_fast_math, -arch=sm_70: not used; docs/submitting.md lists the flags that count"
    assert builder(GOOD_INLINE).note.remarks == ()


@pytest.mark.parametrize("device_kind", [NVCC])
@pytest.mark.parametrize(("flag", "approximate"), [("--use_fast_math", True), ("-O3", False)])
def test_flags_reach_the_kernels_of_a_gpu(builder, device_kind, flag, approximate, place):
    """nvcc's approximation of a division is in the PTX only where it was asked for; a macro is there, and one of torch's is taken back."""
    flags = f'extra_cuda_cflags=["{flag}", "-D__MINE=1", "-U__CUDA_NO_HALF_OPERATORS__"]'
    text = flagged(flags).replace("a[i] + b[i]", "a[i] / b[i]")
    check = '\n#if !defined(__MINE) || defined(__CUDA_NO_HALF_OPERATORS__)\n#error "a flag is missing"\n#endif\n__global__'
    built = builder(text.replace("\n__global__", check), device_kind=device_kind)
    assert built.code == BUILT and built.note.remarks == (), built.log
    (ptx,) = (path.read_text() for path in place.rglob("*.ptx"))
    assert ("div.approx.ftz.f32" in ptx) is approximate


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "def mine(a): ...\ndef other(a): ...",
            "mine/kernel.py: error: the module has no function 'solve', and no ModelNew, custom_kernel, run, solution; its public "
            "functions: mine, other; name one of them 'solve'\n",
        ),
        ("import torch\ndef solution(a, b):\n    return (a + b\n", "mine/kernel.py:3: error: SyntaxError: '(' was never closed"),
        ("def solution(a, b):\n  return a\n return b\n", "mine/kernel.py:3: error: IndentationError"),
        ("def check():\n    raise ValueError('no good')\ncheck()\n", "mine/kernel.py:2: error: ValueError: no good"),
        ("import torch\nx = torch.ones(2) @ torch.ones(3)\n", "mine/kernel.py:2: error: RuntimeError"),
        ("import sys\nsys.exit(0)\n", "mine/kernel.py:2: error: SystemExit: 0"),
        ("# coding: nothing\n", "mine/kernel.py:"),
        (f"x = {'(' * 5000}{')' * 5000}\n", "mine/kernel.py:1: error: SyntaxError: too many nested parentheses"),
    ],
    ids=["no entry", "syntax", "indentation", "raises", "in_torch", "exit", "coding", "nested"],
)
def test_an_import_that_fails_is_told_at_the_users_line(builder, text, line):
    """The first line says where in the submitted file, and no frame is ours or torch's."""
    failed = builder(text)
    assert failed.code == (ENTRY_NOT_FOUND if "no function" in line else IMPORT_FAILED) and failed.artifact is None
    assert failed.log.startswith(line), failed.log
    assert "sandbox" not in failed.log and "site-packages" not in failed.log


def test_a_module_that_ends_its_process_is_told_so(builder):
    """`os._exit(0)` leaves no report; exit code 0 builds nothing."""
    failed = builder("import os\nos._exit(0)\n")
    assert failed.code == IMPORT_FAILED and failed.artifact is None
    assert "the module ended its process while it was imported (exit code 0)" in failed.log


def forged(text):
    """Write a module that leaves a report of its own."""
    return f"import json, os, sys\nopen(sys.argv[2], 'w').write({text})\nos._exit(0)\n"


def test_a_report_of_the_modules_own_is_only_a_claim(builder):
    """A submitter who writes another report makes an artifact of his own source, no more; one that is none is not taken."""
    built = builder(forged("json.dumps({'code': 0, 'log': 'all is well', 'note': '{}'})"))
    assert built.code == IMPORT_FAILED or built.names == ["sources/mine/kernel.py"]
    for text in ("'['*100000", "json.dumps({'code': 5, 'log': '', 'note': ''})", "json.dumps([])", "'\\\\udcff'"):
        assert builder(forged(text)).code == IMPORT_FAILED


@pytest.mark.parametrize(
    ("code", "log", "result", "escaped"),
    [
        (BUILT, "\ud800", BUILT, "\\ud800"),
        (REJECTED, "not \ud800", REJECTED, "not \\ud800"),
        (BUILT, "gr\xfc\xdfe", BUILT, "gr\xfc\xdfe"),
        *((code, "", IMPORT_FAILED, None) for code in ([], 7.0, 5)),
    ],
)
def test_a_reported_log_is_escaped_and_a_code_is_one_that_a_build_ends_with(builder, code, log, result, escaped):
    """Half a surrogate pair was taken for the grader's own fault, of which nobody's quota knows; so was another code."""
    built = builder(forged(repr(json.dumps({"code": code, "log": log, "note": wire.encode(wire.BuildNote()).decode()}))))
    assert built.code == result and escaped in (None, built.log)


@pytest.mark.parametrize(
    ("text", "entry", "expected"),
    [
        ("def solve(a): ...\ndef run(a): ...", "solve", "solve"),
        ("class ModelNew:\n    def __call__(self, a): ...\ndef f(): ...", "solve", "ModelNew"),
        ("def custom_kernel(a): ...\ndef f(): ...", "solve", "custom_kernel"),
        ("def solution(a): ...\ndef run(a): ...", "solve", "run"),
        ("def mine(a): ...\ndef _not(a): ...\nfrom math import sin\nfrom os.path import join", "solve", "mine"),
        ("def mine(a): ...\ndef other(a): ...", "solve", None),
        ("def mine(a): ...\ndef other(a): ...", "other", "other"),
        ("solve = 3", "solve", None),
        ("from os.path import join", "solve", None),
    ],
)
def test_the_entry_is_found_by_its_names_or_as_the_only_function(text, entry, expected):
    """The name given, the usual ones, the only public function that the module itself defines."""
    module = types.ModuleType("kernel")
    exec(text, vars(module))
    if expected is None:
        with pytest.raises(python_module.NoEntry, match="name one of them"):
            python_module.find_entry(module, entry)
    else:
        assert python_module.find_entry(module, entry).__name__ == expected


def test_what_is_printed_is_cut_and_comes_after_the_error(builder):
    """A flood keeps nobody from building, and hides no error."""
    flood = "for _ in range(3000): print('x' * 1000)\n"
    built = builder(flood + PLAIN)
    assert built.code == BUILT and len(built.log) < 32 * 1024 and "is left out" in built.log
    failed = builder(f"{flood}raise ValueError('no good')\n")
    assert failed.log.startswith("mine/kernel.py:2: error: ValueError: no good")


def test_a_daemon_does_not_hold_the_build_up(builder, tmp_path):
    """A child in a session of its own that keeps the output open, for longer than a test may take."""
    path = tmp_path / "daemon"
    daemon = f"import os, time\nif os.fork() == 0:\n    os.setsid()\n    open({str(path)!r}, 'w').write(str(os.getpid()))\n"
    try:
        assert builder(daemon + "    time.sleep(600)\n    os._exit(0)\n" + PLAIN).code == BUILT
    finally:
        while not (path.exists() and path.read_text()):
            time.sleep(0.01)
        os.kill(int(path.read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    "statement",
    ["os.symlink(OUT + '/../victim', OUT + '/artifact')", "os.mkfifo(OUT + '/artifact')", "open(OUT + '/artifact', 'w').write('mine')"],
)
def test_what_a_module_leaves_under_the_artifacts_name_is_replaced(builder, statement):
    """The artifact is a plain file with the builder's content, whatever lay there, and nothing is written through a link."""
    built = builder(f"import os\n{statement}\n{PLAIN}")
    assert built.code == BUILT and built.names == ["sources/mine/kernel.py"]
    assert not (built.out.parent / "victim").exists()


def test_a_module_that_spoils_its_build_box_is_at_fault_itself(builder):
    """A directory where the artifact goes is no fault of the grader's, which would be tried again."""
    failed = builder(f"import os\nos.makedirs(OUT + '/artifact/x')\n{PLAIN}")
    assert failed.code == IMPORT_FAILED and "the submission left the build box unusable" in failed.log


def test_links_are_not_packed(builder):
    """Targets of a module's links into its caches stay where they are."""
    text = "import os\nd = os.environ['TORCH_EXTENSIONS_DIR']\nos.symlink('/etc/passwd', d + '/x.so')\n"
    text += "os.mkfifo(d + '/y.so')\nos.symlink('/etc', d + '/z')\n"
    built = builder(text + PLAIN)
    assert built.names == ["sources/mine/kernel.py"]


def test_more_than_an_artifact_may_hold_is_told(builder):
    """A cache of 60 MiB, and the control of 1 MiB."""
    text = "import os\nd = os.environ['TRITON_CACHE_DIR']\nos.makedirs(d)\nopen(d + '/x', 'wb').write(bytes(SIZE << 20))\n"
    failed = builder(text.replace("SIZE", "60") + PLAIN)
    assert failed.code == REJECTED and "is over 48 MiB" in failed.log
    assert builder(text.replace("SIZE", "1") + PLAIN).names == ["caches/triton/x", "sources/mine/kernel.py"]


@pytest.mark.parametrize(
    "line",
    [
        "raise RuntimeError('OS call failed or operation not supported on this OS')",  # a driver without its device
        "assert torch.cuda.is_available()",
        "device = list(range(torch.cuda.device_count()))[0]",
        "torch.cuda.current_stream()",
        "raise SystemExit('needs a GPU')",
        "raise ImportError('libcuda.so.1: cannot open shared object file')",
        "if torch.cuda.is_available():\n    count = 1\nprint(count)",
        "try:\n    torch.cuda.current_device()\nexcept (RuntimeError, AssertionError):\n    raise ImportError('not here')",
    ],
)
def test_a_module_that_wants_a_gpu_when_it_is_imported_is_built(builder, line):
    """There is none where it is built."""
    text = f"import torch\n{line}\ndef solve(a, b): return a\n"
    built = builder(text, device_kind="cuda")
    assert built.code == BUILT and "it is imported again where there is one" in built.log
    assert f"mine/kernel.py:{text.count(chr(10)) - 1}: note: " in built.log and "error: " not in built.log


def test_a_module_that_fails_where_no_gpu_is_expected_is_refused(builder):
    """The control: on the emulated device it would not be imported under other conditions."""
    assert (
        builder("raise RuntimeError('No CUDA GPUs are available')\ndef solve(a, b): return a\n", device_kind="emulated").code
        == IMPORT_FAILED
    )


@pytest.mark.parametrize("line", ["x = undefined", "x = cuda.grid", "x = (", "from torch import nothing_of_this_name"])
def test_a_mistake_needs_no_gpu(builder, line):
    """Its author learns of it without waiting for a GPU, whatever file or module the message names, and whatever another file binds."""
    files = {"mine/other.py": "undefined = 1\n"}
    built = builder(f"{line}\ndef solve(a, b): return a\n", "mine/cuda_kernel.py", files, device_kind="cuda")
    assert built.code == IMPORT_FAILED and built.log.startswith("mine/cuda_kernel.py:1: error: "), built.log


@pytest.mark.parametrize(("architecture", "compiled"), [pytest.param("sm_90", True, marks=NVCC.marks), ("", False)])
def test_flags_may_depend_on_the_gpu_that_is_not_there(builder, architecture, compiled):
    """Torch knows its architecture where an extension is compiled; without an answer none is, and the module is imported again."""
    flags = 'extra_cuda_cflags=["-DMAJOR=%d" % torch.cuda.get_device_capability()[0]]'
    text = GOOD_INLINE.replace('functions=["add_all"]', f'functions=["add_all"], {flags}')
    built = builder(text, device_kind="cuda", architecture=architecture)
    assert any(name.endswith("adds.so") for name in built.names) is compiled, built.log


@pytest.mark.parametrize("question", ["get_device_name(0)", "get_device_properties(0)", "current_device()"])
def test_a_module_that_is_ready_for_no_gpu_is_imported_to_its_end(builder, question):
    """Of a GPU that is not there torch says nothing but the capability: what it raises else is what such a module expects."""
    guarded = f"try:\n    answer = torch.cuda.{question}\nexcept (RuntimeError, AssertionError):\n    answer = None\n"
    built = builder(f"import torch\n{guarded}print('answer', answer)\n{PLAIN}", device_kind="cuda", architecture="sm_90")
    assert (built.code, built.log) == (BUILT, "answer None\n")


@pytest.mark.skipif(shutil.which("nvcc") is not None, reason="nvcc is on PATH")
def test_a_build_box_without_nvcc_is_the_graders_fault(builder):
    """An extension for a GPU needs it; a module without one does not."""
    with pytest.raises(nvcc.NoCompiler):
        builder(GOOD_INLINE, device_kind="cuda")
    assert builder(PLAIN, device_kind="cuda").code == BUILT


def test_the_build_boxs_own_files_stay_as_they_are(builder):
    """The source in the artifact is the one that was submitted, though the module overwrites its copy."""
    built = builder(f"open(__file__, 'w').write('other')\n{PLAIN}")
    with tarfile.open(fileobj=io.BytesIO(built.artifact)) as archive:
        assert archive.extractfile("sources/mine/kernel.py").read().decode().endswith(PLAIN)


def test_the_environment_is_that_of_a_box(builder):
    """Caches are the build's own, and the interpreters are on for the emulated device."""
    text = (
        f"import os\nassert os.environ['TRITON_INTERPRET'] == os.environ['NUMBA_ENABLE_CUDASIM'] == '1' and {os.getpid()} != os.getpid()\n"
    )
    names = ("TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR", "NUMBA_CACHE_DIR", "CUDA_CACHE_PATH")
    text += (
        f"here = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))\nassert all(os.environ[n].startswith(here) for n in {names})\n"
    )
    built = builder(text + PLAIN)
    assert built.code == BUILT, built.log
