"""Flags that a line of a source asks for, and the standard of C++, on both devices."""

import shutil

import pytest

from sandbox.builder import build

NVCC = pytest.param("cuda", marks=[pytest.mark.slow, pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")])
SOLVE = '__global__ void fill(float* y) { *y = VALUE; }\nextern "C" void solve(float* y) { fill<<<1, 1>>>(y); }\n'
STANDARD = 'static_assert(__cplusplus == STANDARD, "");\n#define VALUE 1\n'
CPP20 = "#include <concepts>\ntemplate <std::floating_point T> T value(T x) { return x; }\n#define VALUE 1\n"


@pytest.fixture(params=["emulated", NVCC])
def builder(request, built):
    """Build raw CUDA: a file kernel.cu, and others."""
    return lambda kernel, **files: built({"kernel.cu": kernel} | files, device_kind=request.param, language="cuda")


def test_flags_of_a_line_count_for_all_files(builder):
    """A flag that does not count is a remark; without the line nothing defines the macro."""
    line = "// grader: flags=-DVALUE=2.0f -march=native\n"
    result = builder(SOLVE, **{"other.cu": line})
    assert result.code == build.BUILT, result.log
    assert result.note.remarks == ("flags: -march=native: not used; docs/submitting.md lists the flags that count",)
    assert builder(SOLVE).code == build.REJECTED


@pytest.mark.parametrize(("flag", "standard"), [("", 201703), ("-std=c++17", 201703), ("-std=c++20", 202002)])
def test_raw_cuda_is_cpp17_unless_it_says_otherwise(builder, flag, standard):
    result = builder(f"// grader: flags={flag} -DSTANDARD={standard}L\n{STANDARD}{SOLVE}")
    assert result.code == build.BUILT, result.log


LERP = "inline __host__ __device__ float lerp(float a, float b, float t) { return a + t * (b - a); }\n#define VALUE lerp(1, 2, 3)\n"


def test_a_kernel_may_have_a_function_of_cpp20_s_library(builder):
    """The control is the standard in which the library's own stands in its way."""
    assert builder(LERP + SOLVE).code == build.BUILT
    assert builder(f"// grader: flags=-std=c++20\n{LERP}{SOLVE}").code == build.REJECTED


def test_a_cuda_source_may_have_an_ending_of_cpp_as_well(builder):
    """The control is the same text where only C++ is compiled."""
    main = 'void launch(float*);\nextern "C" void solve(float* y) { launch(y); }\n'
    text = "__global__ void fill(float* y) { *y = 1; }\nvoid launch(float* y) { fill<<<1, 1>>>(y); }\n"
    assert builder(main, **{"fill.cu.cc": text}).code == build.BUILT
    assert builder(main, **{"fill.cc": text}).code != build.BUILT


TORCH = """#include <torch/extension.h>
CHECK
template <class T> __global__ void fill(T* y) { *y = T(1.0f); }
torch::Tensor forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    fill<<<1, 1>>>(reinterpret_cast<nv_bfloat16*>(y.data_ptr()));
    fill<<<1, 1>>>(reinterpret_cast<__half*>(y.data_ptr()));
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "standard"), [("", 202002), ("-std=c++17", 201703)])
def test_a_torch_extension_has_torch_s_standard_and_the_headers_that_torch_brings(built, flag, standard):
    check = f"// grader: flags={flag} -DSTANDARD={standard}L\n{STANDARD}"
    result = built({"kernel.cu": TORCH.replace("CHECK", check)}, device_kind="emulated", language="torch_extension")
    assert result.code == build.BUILT and result.note.headers == "light", result.log


def test_an_error_in_cpp20_names_the_flag(builder):
    """And with it there is none."""
    result = builder(CPP20 + SOLVE)
    assert result.code == build.REJECTED and "// grader: flags=-std=c++20" in result.log.splitlines()[0]
    assert builder(f"// grader: flags=-std=c++20\n{CPP20}{SOLVE}").code == build.BUILT


@pytest.mark.parametrize(
    "flags", ["-include {}", "-imacros {}", "@{}", "--options-file {}", "-Xcompiler -include,{}", "-Xcompiler -fplugin={}"]
)
def test_no_flag_of_a_line_reads_a_file(builder, tmp_path, flags):
    """The control is the same file where the source itself includes it."""
    file = tmp_path / "secret.h"
    file.write_text("#error it was read\n")
    source = f"#define VALUE 1\n{SOLVE}"
    result = builder(f"// grader: flags={flags.format(file)}\n{source}")
    assert result.code == build.BUILT and str(file) in result.note.remarks[0]
    assert "it was read" in builder(f'#include "{file}"\n{source}').log
