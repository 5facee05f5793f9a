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
    """Build raw CUDA of these files."""
    return lambda **files: built({f"{name}.cu": text for name, text in files.items()}, device_kind=request.param, language="cuda")


def test_flags_of_a_line_count_for_all_files(builder):
    """What does not count is a remark; without the line nothing defines the macro."""
    line = "// grader: flags=-DVALUE=2.0f -march=native\n"
    result = builder(kernel=SOLVE, other=line)
    assert result.code == build.BUILT, result.log
    assert result.note.remarks == ("flags: -march=native: not used; docs/submitting.md lists the flags that count",)
    assert builder(kernel=SOLVE).code == build.REJECTED


@pytest.mark.parametrize(("flag", "standard"), [("", 201703), ("-std=c++17", 201703), ("-std=c++20", 202002)])
def test_raw_cuda_is_cpp17_unless_it_says_otherwise(builder, flag, standard):
    result = builder(kernel=f"// grader: flags={flag} -DSTANDARD={standard}L\n{STANDARD}{SOLVE}")
    assert result.code == build.BUILT, result.log


def test_an_error_in_cpp20_names_the_flag(builder):
    """And with it there is none."""
    result = builder(kernel=CPP20 + SOLVE)
    assert result.code == build.REJECTED and "// grader: flags=-std=c++20" in result.log.splitlines()[0]
    assert builder(kernel=f"// grader: flags=-std=c++20\n{CPP20}{SOLVE}").code == build.BUILT


@pytest.mark.parametrize(
    "flags", ["-include {}", "-imacros {}", "@{}", "--options-file {}", "-Xcompiler -include,{}", "-Xcompiler -fplugin={}"]
)
def test_no_flag_of_a_line_reads_a_file(builder, tmp_path, flags):
    """The control is the same file where the source itself includes it."""
    file = tmp_path / "secret.h"
    file.write_text("#error it was read\n")
    source = f"#define VALUE 1\n{SOLVE}"
    result = builder(kernel=f"// grader: flags={flags.format(file)}\n{source}")
    assert result.code == build.BUILT and str(file) in result.note.remarks[0]
    assert "it was read" in builder(kernel=f'#include "{file}"\n{source}').log
