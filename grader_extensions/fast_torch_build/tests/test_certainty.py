"""Which errors under light headers are answered at once, and which are left to torch's own headers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from grader_extensions.emulated_cuda import emulation, gcc
from grader_extensions.fast_torch_build import fast_headers
from sandbox.compilers.headers import FULL, LIGHT, Headers
from sandbox.languages import torch_extension

START = "#include <torch/extension.h>\n"
BODY = "torch::Tensor forward(torch::Tensor x) {{ {} return x; }}\n"
# What people mistype. A mistake of the first kind is one whatever the headers are.
CERTAIN = {
    "a name": BODY.format("auto y = torch::zero_like(x);"),
    "a variable": BODY.format("auto y = x * scael;"),
    "a member": BODY.format("auto y = x.contigous();"),
    "a type": BODY.format("flaot y = 1;"),
    "a semicolon": BODY.format("int n = 1"),
    "a bracket": BODY.format("int n = (1 + 2;"),
    "in a kernel": "__global__ void k(float* a) { a[threadIdx.x] = valeu; }\n",
    "a header that is not there": '#include "missing_of_mine.h"\n',
    "a function twice": BODY.format("") * 2,
    "a module twice": 2 * 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.doc() = "mine"; }\n',
    "a function of C": 'extern "C" double erf(float a);\n',
    "a count of arguments": "void launch_mine(float* a, int n) {}\n" + BODY.format("launch_mine(x.data_ptr<float>());"),
    "a count of arguments of all": "void f_mine(int n) {}\nvoid f_mine(int n, int m) {}\n" + BODY.format("f_mine();"),
    "a fragment": "#include <mma.h>\nusing namespace nvcuda::wmma;\nvoid k() { fragment<matrix_a, 16, 16, 16, float, row_major> a; }\n",
}
LD = "collect2: error: ld returned 1 exit status\n"
# These would build, or fail otherwise, with torch's own headers.
UNCERTAIN = {
    "a namespace": BODY.format("namespace F = torch::nn::functional;"),
    "a name that torch has": BODY.format("auto y = torch::nn::Linear(3, 4);"),
    "a macro": 'TORCH_LIBRARY(mylib_of_mine, m) { m.def("f(Tensor x) -> Tensor"); }\n',
    "a macro's argument": BODY.format('RECORD_FUNCTION("name_of_mine", {});'),
    "what follows": BODY.format("torch::nn::Linear linaer(3, 4); linaer->forward(x);"),
    "a base class": "struct Mine : torch::CustomClassHolder {\n    torch::Tensor scratch;\n};\n",
    "a type error": BODY.format("int n = x;"),
    "an overload": BODY.format('x.sum("all of it", 1, 2, 3);'),
    "what torch's headers define, too": "namespace at { struct Tensor {}; }\n",
    "a count of arguments of torch's": BODY.format("auto y = torch::relu();"),
    "types of arguments": "void f_mine(int n) {}\nvoid f_mine(int n, int m) {}\n" + BODY.format("f_mine(x);"),
    "a class to bind": 'struct A {};\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { py::class_<A>(m, "A").def(py::init<>()); }\n',
}


def compiled(text: str, headers: Headers, place: Path, ready: Path) -> tuple[bool, str]:
    """Return whether g++ takes it, and what it says."""
    place.mkdir(exist_ok=True)
    (place / "k.cu").write_text(emulation.translate(text, "k.cu"))
    flags = [*gcc.flags(headers), *gcc.precompiled_flags("k.cu", text, headers, ready)]
    command = ["g++", *flags, "-fPIC", "-fsyntax-only", "-x", "c++", "k.cu"]
    ran = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    return ran.returncode == 0, ran.stderr


def ways(text: str, place: Path) -> tuple[Headers, Headers]:
    light, full = torch_extension.headers_of({"k.cu": text}, place, "emulated")
    assert isinstance(light, Headers) and isinstance(full, Headers)
    assert (light.name, full.name) == (LIGHT, FULL)
    return light, full


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CERTAIN, *UNCERTAIN])
def test_a_slip_of_the_pen_is_certain_and_what_torch_may_know_is_not(name: str, ready: Path, tmp_path: Path) -> None:
    """A real error names what torch's headers lack, or breaks the grammar; of the rest, a false error is worse than a wait."""
    text = START + {**CERTAIN, **UNCERTAIN}[name]
    built, log = compiled(text, ways(text, tmp_path / "headers")[0], tmp_path / "light", ready)
    assert not built
    assert fast_headers.is_certain(log, {"k.cu": text}, ready) is (name in CERTAIN), log[:2000]


@pytest.mark.daily  # torch's own headers
def test_torchs_own_headers_reject_them_too(ready: Path, tmp_path: Path) -> None:
    """The claim itself: each in a namespace of its own, and every one of them has its error."""
    # Those that break the grammar would hide each other.
    bodies = [CERTAIN[name] for name in ("a name", "a variable", "a member", "a type", "a function twice", "a function of C")]
    bodies += [CERTAIN["a count of arguments"], CERTAIN["a count of arguments of all"]]
    text = START + "".join(f"namespace part_{number} {{\n{body}\n}}\n" for number, body in enumerate(bodies)) + CERTAIN["a fragment"]
    built, log = compiled(text, ways(text, tmp_path / "headers")[1], tmp_path / "full", ready)
    assert not built
    for name in ("zero_like", "scael", "contigous", "flaot"):
        assert f"‘{name}’" in log or f"'{name}'" in log, log[:2000]
    for words in ("redefinition of", "conflicting declaration of C function", "too few arguments to", "no matching function for call"):
        assert words in log, log[:4000]
    assert "has incomplete type" in log, log[:2000]


def header_names(tmp_path: Path, names: str = "relu Linear", macros: str = "RECORD_FUNCTION") -> Path:
    (tmp_path / gcc.NAMES_FILE).write_text("\n".join(names.split()))
    (tmp_path / gcc.MACROS_FILE).write_text("\n".join(macros.split()))
    return tmp_path


@pytest.mark.parametrize(
    ("log", "certain"),
    [
        ("k.cu:3:5: error: ‘foo’ was not declared in this scope\n", True),
        ("k.cu:3:5: error: 'foo' was not declared in this scope; did you mean 'for'?\n", True),
        ('k.cu(3): error: identifier "foo" is undefined\n', True),
        ('k.cu(3): error: namespace "torch" has no member "foo"\n', True),
        ('k.cu(3): error: expected a ";"\n', True),
        (
            "k.cu: In f:\nk.cu:3:5: error: expected ‘;’ before ‘}’ token\nk.cu:9:1: error: ‘relu’ was not declared in this scope\n",
            True,
        ),
        ("k.cu:3:5: error: ‘relu’ was not declared in this scope\nk.cu:9:1: error: ‘foo’ was not declared in this scope\n", False),
        ('k.cu(3): error: identifier "relu" is undefined\n', False),
        ("k.cu:3:5: error: no matching function for call to ‘foo(int)’\n", False),
        ("k.cu:3:5: fatal error: expected.h: No such file or directory\n", True),
        ("/torch/include/a.h:3:5: fatal error: b.h: No such file or directory\n", False),
        ("k.cu:3:5: fatal error: cannot write\n", False),
        ("k.cu:3:5: error: redefinition of ‘int foo()’\nk.cu:1:5: note: ‘int foo()’ previously defined here\n", True),
        ("k.cu:3:5: error: redefinition of ‘int foo()’\n/torch/a.h:1:5: note: ‘int foo()’ previously defined here\n", False),
        ("k.cu:3:5: error: ‘float foo’ conflicts with a previous declaration\nk.cu:1:5: note: previous declaration ‘int foo’\n", True),
        (
            "k.cu:3:5: error: conflicting declaration ‘int foo’\n/usr/include/c++/12/cmath:9:1: note: previous declaration ‘foo’\n",
            True,
        ),
        (
            "k.cu:3:5: error: conflicting declaration ‘int foo’\n/usr/include/c++/12/random:9:1: note: previous declaration ‘foo’\n",
            False,
        ),
        ('k.cu(4): error: function "foo" has already been defined (previous definition at line 3)\n', True),
        ('k.cu(4): error: function "foo" has already been defined (previous definition at line 3 of "/torch/a.h")\n', False),
        ("k.cu:3:5: error: too few arguments to function ‘void ns::foo(float*, int)’\n", True),
        ("k.cu:3:5: error: too few arguments to function ‘at::Tensor at::relu(const at::Tensor&)’\n", False),
        ("k.cu:3:5: error: too many arguments to function ‘void bar(float*, int)’\n", False),
        (
            "k.cu:3:5: error: no matching function for call to ‘foo<4>(int)’\nk.cu:1:5: note: candidate: ‘void foo()’\n"
            "k.cu:1:5: note:   candidate expects 0 arguments, 1 provided\n",
            True,
        ),
        ("/usr/bin/ld: k.cu:(.text+0x0): multiple definition of `foo(int)'; k.cu:k.cu:(.text+0x9): first defined here\n" + LD, True),
        ("k.cudafe1.cpp:(.text+0x0): multiple definition of `PyInit_m'; k.cu:k.cudafe1.cpp:(.text+0x9): first defined here\n" + LD, True),
        ("k.cu:(.text+0x0): multiple definition of `bar(int)'; k.cu:k.cu:(.text+0x9): first defined here\n" + LD, False),
        ("k.cu:(.text+0x0): multiple definition of `foo'; libtorch.a:a.cpp:(.text+0x9): first defined here\n" + LD, False),
        ("/torch/include/a.h:3:5: error: ‘foo’ was not declared in this scope\n", False),
        ("error: expected better\n", False),
        ("k.cu:3:5: error: aggregate ‘nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, float> a’ has incomplete type\n", True),
        ('k.cu(3): error: incomplete type "nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, float>" is not allowed\n', True),
        ("k.cu:3:5: error: aggregate ‘at::Linear a’ has incomplete type and cannot be defined\n", False),
        ("", False),
    ],
)
def test_only_the_first_error_counts(log: str, certain: bool, tmp_path: Path) -> None:
    """Later ones may follow from it; one in a header is not the user's."""
    assert fast_headers.is_certain(log, {"k.cu": "int foo;"}, header_names(tmp_path)) is certain


def test_a_macro_of_torchs_own_headers_leaves_all_open(tmp_path: Path) -> None:
    """Its arguments may be no names at all."""
    log = "k.cu:3:5: error: ‘foo’ was not declared in this scope\n"
    assert not fast_headers.is_certain(log, {"k.cu": "RECORD_FUNCTION(foo, {});"}, header_names(tmp_path))


def test_a_member_that_the_source_itself_declares_is_left_open(tmp_path: Path) -> None:
    """Another overload may return its class."""
    log = "k.cu:3:5: error: ‘class at::Tensor’ has no member named ‘foo’\n"
    assert fast_headers.is_certain(log, {"k.cu": "x.foo(); y->foo();"}, header_names(tmp_path))
    assert not fast_headers.is_certain(log, {"k.cu": "struct A { int foo(); };\nx.foo();"}, header_names(tmp_path))


def test_nothing_is_certain_where_nothing_is_known(tmp_path: Path) -> None:
    """Without what `make setup` leaves, torch's own headers are asked."""
    assert not fast_headers.is_certain("k.cu:3:5: error: ‘foo’ was not declared in this scope\n", {"k.cu": ""}, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ('TORCH_LIBRARY_IMPL(mine, CUDA, m) { m.impl("f", &f); }', True),
        ('TORCH_LIBRARY(mine, m) { m.def("f(Tensor x) -> Tensor"); }', False),
        ('TORCH_LIBRARY_FRAGMENT(mine, m) { m.def("f(Tensor x) -> Tensor"); }', False),
        ("static auto r = torch::RegisterOperators();", False),
        ('PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("f", &f); }', False),
        ('extern "C" PyObject* PyInit_x() { return PyModule_Create(&d); }', False),
        ("#define NAME(a, b) a##b", False),
        ('asm(".globl x");', False),
        ("RECORD_FUNCTION(mine, {});", False),
        ("torch::Tensor forward(torch::Tensor x) { return x; }", True),
    ],
)
def test_a_source_has_no_entry_where_it_names_nothing_that_makes_one(text: str, sure: bool, tmp_path: Path) -> None:
    """A macro of torch's own headers may hold anything; and without the list of them nothing is sure."""
    ready = header_names(tmp_path, macros="RECORD_FUNCTION TORCH_LIBRARY TORCH_LIBRARY_IMPL")
    assert fast_headers.makes_no_entry({"k.cu": text}, ready) is sure
    assert not fast_headers.makes_no_entry({"k.cu": text}, tmp_path / "nothing")
