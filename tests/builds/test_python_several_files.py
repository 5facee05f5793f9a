"""Submissions of several Python files, with the problem's modules and CUDA files: built, loaded, and their errors placed."""

from __future__ import annotations

import pytest

from sandbox.compilers.steps import BUILT, IMPORT_FAILED, REJECTED, UNSUPPORTED
from tests.python_builds import PLAIN

pytestmark = pytest.mark.slow  # torch is imported in each
MAIN = "from kernels import add\nfrom .pkg.more import also\n\ndef solution(a, b):\n    return also(add(a, b))\n"
MODULES = {"kernels.py": "def add(a, b):\n    return a + b\n", "pkg/__init__.py": "", "pkg/more.py": "def also(x):\n    return x\n"}
BOUND = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("add_all", &add_all); }\n'
CUDA = """#include <torch/extension.h>
#include "kernel.cuh"
torch::Tensor add_all(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    add<<<(a.numel() + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), a.numel());
    return c;
}
"""
HEADER = """#pragma once
__global__ void add(const float* a, const float* b, float* c, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i]BODY;
}
"""
LOADS = """from pathlib import Path
from torch.utils.cpp_extension import load
module = load("adds", [SOURCE])

def solution(a, b):
    return module.add_all(a, b)
"""
SUM = [11.0, 22.0, 33.0]


def test_files_that_import_each_other_are_built_and_loaded(builder, loaded):
    """In both boxes; the artifact says which one is the main file."""
    built = builder(MAIN, path="run.py", files=MODULES)
    assert built.code == BUILT, built.log
    assert built.names == ["main/path", *(f"sources/{name}" for name in sorted(["run.py", *MODULES]))]
    assert loaded(built.artifact) == SUM


def test_the_main_file_need_not_be_the_first(builder, loaded):
    """If it alone has an entry."""
    built = builder(
        MODULES["kernels.py"], path="kernels.py", files={"z.py": MAIN, **{name: MODULES[name] for name in MODULES if "/" in name}}
    )
    assert built.code == BUILT and loaded(built.artifact) == SUM, built.log


def test_the_problems_modules_can_be_imported(builder, loaded):
    """In both boxes, by a submission's other files too; their text can be read. A file of the submission's own comes first."""
    modules = {"task.py": "input_t = output_t = object\nWHO = 'task'\n", "utils.py": "def same(x):\n    return x\n"}
    text = "from task import input_t\nfrom kernels import add\nimport inspect, task, utils\n"
    text += "assert 'def same' in inspect.getsource(utils.same)\n"
    text += "def solution(a: input_t, b):\n    return add(a, b)\n"
    files = {"kernels.py": "from utils import same\ndef add(a, b):\n    return same(a + b)\n"}
    built = builder(text, path="run.py", files=files, modules=modules)
    assert built.code == BUILT, built.log
    assert loaded(built.artifact) == SUM
    imported = builder(
        f"{text}assert task.WHO == 'own'\n", path="run.py", files={**files, "task.py": "input_t, WHO = object, 'own'\n"}, modules=modules
    )
    assert imported.code == BUILT and loaded(imported.artifact) == SUM, imported.log


def test_the_problems_modules_are_read_only(builder):
    """A submission that writes to one changes nothing in its artifact."""
    text = "import task, os\nos.chmod(task.__file__, 0o600)\nopen(task.__file__, 'w').write('x = 2')\n"
    built = builder(text + PLAIN, modules={"task.py": "x = 1"})
    assert built.code == BUILT and b"x = 1" in built.artifact and b"x = 2" not in built.artifact.replace(b"write('x = 2')", b"")


@pytest.mark.parametrize("source", ["Path(__file__).parent / 'kernel.cu'", "'kernel.cu'"])
def test_cuda_files_next_to_the_main_file_are_compiled(builder, loaded, source):
    """By their path, or by their name in the working directory; with a header that has device code."""
    files = {"kernel.cu": CUDA + BOUND, "kernel.cuh": HEADER.replace("BODY", "")}
    built = builder(LOADS.replace("SOURCE", source), path="run.py", files=files)
    assert built.code == BUILT, built.log
    assert loaded(built.artifact) == SUM


def test_an_error_is_placed_in_the_file_that_has_it(builder):
    """Of Python, of a CUDA text inside a Python file that is not the main one, of a CUDA file, of its header."""
    failed = builder("from kernels import add\n" + PLAIN, path="run.py", files={"kernels.py": "\ndef add(\n"})
    assert failed.code == IMPORT_FAILED and failed.log.startswith("kernels.py:2: error: SyntaxError"), failed.log
    inline = (
        'from torch.utils.cpp_extension import load_inline\nTEXT = """\n__global__ void f(float* x) {\n'
        '    x[0] = undefined_thing;\n}\n"""\n'
        'module = load_inline("f", "void nothing();", TEXT)\n'
    )
    failed = builder("import kernels\n" + PLAIN, path="run.py", files={"kernels.py": inline})
    assert failed.code == REJECTED and "kernels.py:4:" in failed.log and "4 |     x[0] = undefined_thing;" in failed.log, failed.log
    assert "kernels.py:7: note: asked for here" in failed.log
    for place, called, body in (("kernel.cu:4:", "undefined_thing", ""), ("kernel.cuh:4:", "empty_like", " + undefined_thing")):
        files = {"kernel.cu": CUDA.replace("empty_like", called) + BOUND, "kernel.cuh": HEADER.replace("BODY", body)}
        failed = builder(LOADS.replace("SOURCE", "'kernel.cu'"), path="run.py", files=files)
        assert failed.code == REJECTED and place in failed.log, failed.log


def test_a_file_may_have_the_name_that_an_inline_text_is_compiled_under(builder):
    """The error is at that file's line, though its text is compiled behind torch's headers."""
    text = "from pathlib import Path\nfrom torch.utils.cpp_extension import load_inline\n"
    text += "module = load_inline('f', 'void nothing();', Path(__file__).with_name('cuda.cu').read_text())\n"
    failed = builder(text + PLAIN, path="run.py", files={"cuda.cu": "\n__global__ void f(float* x) {\n    x[0] = undefined_thing;\n}\n"})
    assert failed.code == REJECTED and "cuda.cu:3:" in failed.log and "3 |     x[0] = undefined_thing;" in failed.log, failed.log


def test_a_missing_package_is_unsupported_and_a_missing_file_is_not(builder):
    """A package that no file is named like; a misspelt file of the submission's own. What is said: tests/unit/test_missing_modules.py."""
    failed = builder(f"import tilelang.language\n{PLAIN}", path="run.py", files=MODULES)
    assert failed.code == UNSUPPORTED, failed.log
    assert failed.log.startswith("run.py:1: error: this grader does not have the Python module 'tilelang'")
    failed = builder(f"from kernles import add\n{PLAIN}", path="run.py", files=MODULES)
    assert failed.code == IMPORT_FAILED, failed.log
    assert "no module 'kernles'; the files can be imported as kernels, run, pkg, pkg.more; did you mean 'kernels'?" in failed.log


def test_a_header_of_hip_is_missing_whatever_compiler_the_module_sets(builder):
    inline = 'import os\nos.environ["CXX"] = "hipcc"\nfrom torch.utils.cpp_extension import load_inline\n'
    inline += 'module = load_inline("f", "#include <hip/hip_runtime.h>\\nint f() { return 1; }", functions="f")\n'
    failed = builder(inline + PLAIN)
    assert failed.code == REJECTED and "hip/hip_runtime.h: No such file" in failed.log, failed.log
