"""The light binding behaves as pybind11 with torch's own headers does: one source, built with both, called alike."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sysconfig
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grader_extensions.fast_torch_build.fast_headers import variable_header
from tests.collection import AFTER_COLLECTION
from tests.run_files import make_once

if AFTER_COLLECTION:
    import torch

    from grader_extensions.fast_torch_build.tests.binding.calls import Call, calls


ROOT = Path(__file__).resolve().parent
KERNEL = ROOT / "binding" / "kernel.cpp"
LIGHT = ROOT.parent / "native"
TORCH = Path(str(importlib.util.find_spec("torch").origin)).parent
INCLUDE = TORCH / "include"
LIBRARIES = [f"-L{TORCH / 'lib'}", *(f"-l{name}" for name in ("torch_python", "torch", "torch_cpu", "c10"))]
COMPILER = [
    *("g++", "-O1", "-fPIC", "-shared", "-DTORCH_EXTENSION_NAME=kernel", "-D_GLIBCXX_USE_CXX11_ABI=1"),
    *(f"-isystem{path}" for path in (INCLUDE, INCLUDE / "torch/csrc/api/include", sysconfig.get_path("include"))),
]
SMALL = """
at::Tensor forward(at::Tensor x, int n) { TORCH_CHECK_VALUE(n < 4, "n is ", n); return x; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "Doc.", py::arg("x"), py::arg("n") = 3); }
"""
NOT_CARRIED = {
    "a class": 'struct A {}; PYBIND11_MODULE(kernel, m) { py::class_<A>(m, "A"); }',
    "a pointer returned": 'static int* f() { return nullptr; } PYBIND11_MODULE(kernel, m) { m.def("f", &f); }',
    "a pointer in a vector": 'static std::vector<const char*> f() { return {}; } PYBIND11_MODULE(kernel, m) { m.def("f", &f); }',
    "a pointer as default": 'static int n; PYBIND11_MODULE(kernel, m) { m.def("f", [](int) {}, py::arg("n") = &n); }',
    "an enum": 'enum E { A }; static E f() { return A; } PYBIND11_MODULE(kernel, m) { m.def("f", &f); }',
    "a char": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](char) {}); }',
    "a class of its own": 'struct A {}; PYBIND11_MODULE(kernel, m) { m.def("f", [](A) {}); }',
    "args": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](py::args) {}); }',
    "keep_alive": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](int) {}, py::keep_alive<0, 1>()); }',
    "an extra of another kind": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](int) {}, 3); }',
    "too few names": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](int, int) {}, py::arg("x")); }',
    "an array": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](std::array<int, 3>) {}); }',
    "kw_only": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](int) {}, py::kw_only(), py::arg("n")); }',
    "pos_only": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](int) {}, py::arg("n"), py::pos_only()); }',
    "noconvert": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](int) {}, py::arg("n").noconvert()); }',
    "none": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](int) {}, py::arg("n").none(false)); }',
    "call_guard": 'PYBIND11_MODULE(kernel, m) { m.def("f", [](int) {}, py::call_guard<py::gil_scoped_release>()); }',
    "a submodule": 'PYBIND11_MODULE(kernel, m) { m.def_submodule("sub"); }',
    "an attribute read": 'PYBIND11_MODULE(kernel, m) { py::object x = m.attr("__name__"); }',
    "a module option": "PYBIND11_MODULE(kernel, m, py::mod_gil_not_used()) {}",
}


def compiled(source: str, place: Path, *, light: bool, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Compile a source that starts with the headers, to `kernel.so`."""
    (place / "grader").mkdir(parents=True, exist_ok=True)
    header = variable_header(INCLUDE)
    assert header is not None
    (place / "grader" / "variable.h").write_text(header)
    first = "#include <ATen/core/Tensor.h>\n#include <grader/binding.h>\n" if light else "#include <torch/extension.h>\n"
    (place / "source.cpp").write_text(first + source)
    include = [f"-I{LIGHT}", f"-I{place}"] if light else []
    command = [*COMPILER, "-std=c++20", *include, *flags, str(place / "source.cpp"), "-o", str(place / "kernel.so"), *LIBRARIES]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def imported(place: Path, name: str) -> ModuleType:
    """The module, under a name of its own: both are of one interpreter."""
    spec = importlib.util.spec_from_file_location(name, place / "kernel.so")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(value: Any) -> Any:
    """A result, so that equal ones compare equal: their types count, and a NaN is one."""
    if isinstance(value, torch.Tensor):
        return type(value).__name__, str(value.dtype), str(value.device), tuple(value.shape), None if value.is_meta else value.tolist()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    return type(value).__name__, re.sub("0x[0-9a-f]+", "0x", repr(value))


def raised(error: BaseException | None) -> Any:
    return None if error is None else (type(error).__name__, re.sub("0x[0-9a-f]+", "0x", str(error)), raised(error.__cause__))


def outcome(module: ModuleType, call: Call) -> Any:
    name, arguments, keywords = call
    try:
        return shown(getattr(module, name)(*arguments, **keywords))
    except Exception as error:  # noqa: BLE001  whatever it is, it is compared
        return raised(error)


def compile_kernel(place: Path, *, light: bool) -> None:
    result = compiled(KERNEL.read_text(), place, light=light)
    assert result.returncode == 0, result.stderr[-4000:]


@pytest.fixture(scope="module")
def light() -> ModuleType:
    return imported(make_once("light_binding", partial(compile_kernel, light=True)), "light.kernel")


@pytest.fixture(scope="module")
def full() -> ModuleType:
    return imported(make_once("full_binding", partial(compile_kernel, light=False)), "full.kernel")


@pytest.mark.daily  # two minutes: torch's own headers
def test_every_call_ends_as_with_pybind11(light: ModuleType, full: ModuleType) -> None:
    """The value and its type, or the exception, its text and its cause."""
    different = []
    for ours, theirs in zip(calls(), calls(), strict=True):
        got, wanted = outcome(light, ours), outcome(full, theirs)
        if repr(got) != repr(wanted):
            different.append((ours, got, wanted))
    assert not different, different[:5]


@pytest.mark.daily  # two minutes: torch's own headers
def test_a_module_shows_what_pybind11_would(light: ModuleType, full: ModuleType) -> None:
    """Names, signatures, documentation and plain attributes."""
    assert set(vars(light)) == set(vars(full))
    assert light.__doc__ == full.__doc__ == "A module."
    for name in (name for name in vars(full) if not name.startswith("__")):
        ours, theirs = getattr(light, name), getattr(full, name)
        if callable(theirs):
            assert (ours.__name__, ours.__doc__, type(ours)) == (theirs.__name__, theirs.__doc__, type(theirs))
            assert ours.__module__ == light.__name__
        else:
            assert shown(ours) == shown(theirs)


@pytest.mark.slow
def test_calls_keep_no_memory(light: ModuleType) -> None:
    """Neither a call that works nor one that fails keeps a reference or a byte."""
    tensor, numbers = torch.ones(2), [1, 2, 3]
    repeated: list[Call] = [
        ("twice", (tensor,), {}),
        ("twice", (None,), {}),
        ("moved", (tensor, numbers), {}),
        ("tuple", ((tensor, 1, "x"),), {}),
        ("tensors", ([tensor, 1],), {}),
        ("defaults", (), {"e": tensor}),
        ("overloaded", ("x",), {}),
        ("overloaded", (1, tensor), {}),
        ("bad_text", (), {}),
        *(("fail", (kind,), {}) for kind in (0, 1, 9, 10, 11, 13, 32, 38)),
    ]

    def resident_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])

    def repeat(count: int) -> None:
        for call in repeated * count:
            outcome(light, call)

    repeat(200)
    before = resident_pages()
    repeat(1000)
    assert resident_pages() - before < 256


@pytest.mark.slow
@pytest.mark.parametrize("source", NOT_CARRIED.values(), ids=NOT_CARRIED)
def test_what_is_not_carried_does_not_compile(source: str, tmp_path: Path) -> None:
    """Then torch's own headers are used: to compile and behave differently would be worse."""
    assert compiled(source, tmp_path, light=True, flags=("-fsyntax-only",)).returncode != 0


@pytest.mark.slow
def test_a_small_extension_works(tmp_path: Path) -> None:
    """As recorded from pybind11."""
    result = compiled(SMALL, tmp_path, light=True, flags=("-O0", "-std=c++17", "-Wall", "-Wextra", "-Werror"))
    assert result.returncode == 0, result.stderr[-4000:]
    forward = imported(tmp_path, "small.kernel").forward
    header = variable_header(INCLUDE)
    assert header is not None
    integer = header.split('GRADER_INTEGER_NAME "@')[1].split("@")[0]  # other words in other versions
    signature = f"(x: torch.Tensor, n: {integer} = 3) -> torch.Tensor"
    assert forward.__doc__ == f"forward{signature}\n\nDoc.\n"
    tensor = torch.ones(2)
    assert forward(tensor) is tensor
    assert forward(n=True, x=tensor) is tensor
    with pytest.raises(ValueError, match=r"^n is 4$"):
        forward(tensor, 4)
    with pytest.raises(TypeError) as error:
        forward(None, 1.5)
    supported = f"The following argument types are supported:\n    1. {signature}\n"
    assert str(error.value) == f"forward(): incompatible function arguments. {supported}\nInvoked with: None, 1.5"


@pytest.mark.parametrize(
    "changed", ["struct TORCH_PYTHON_API type_caster<at::Tensor>", "bool load(handle src, bool", "struct python_error"]
)
def test_headers_of_another_shape_give_nothing(changed: str, tmp_path: Path) -> None:
    """The light headers are not used then."""
    for name in ("torch/csrc/utils/pybind.h", "torch/csrc/Exceptions.h", "pybind11/cast.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((INCLUDE / name).read_text().replace(changed, "struct changed"))
    assert variable_header(tmp_path) is None
    assert variable_header(tmp_path / "nothing") is None
