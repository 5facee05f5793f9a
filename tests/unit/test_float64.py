"""Arithmetic in float64 is found in PTX, with the line of the source that it comes from."""

from __future__ import annotations

import pytest

from sandbox.compilers.ptxas import SourceLine, float64_instructions, float64_remarks

PTX = """
.visible .entry _Z4workPKfPf(
    .param .u64 .ptr _Z4workPKfPf_param_0
)
{
    .loc 1 3 5
    ld.global.f32 %f1, [%rd1];
    mul.f32 %f2, %f1, %f1;
    .loc 1 4 5
    cvt.f64.f32 %fd1, %f2;
    mul.f64 %fd2, %fd1, 0d3FD3333333333333;
    @%p1 add.rn.f64 %fd2, %fd2, %fd1;
    ld.global.f64 %fd3, [%rd2];
    .loc 2 900 1, function_name $L__info_string0, inlined_at 1 5 9
    cvt.rn.f32.f64 %f3, %fd2;
}
.func (.param .b64 func_retval0) helper(.param .b64 helper_param_0)
{
    .loc 1 9 1
    add.f64 %fd1, %fd1, %fd1;
}
    .file 1 "/proc/self/cwd/k.cu"
    .file 2 "/usr/local/cuda/include/math_functions.hpp"
"""
SOURCE = "\n\n__global__ void work(const float* a, float* b) {\n    b[0] = a[0] * 0.3;  // 0.5\n    b[1] = pow(b[0], 2);\n}\n"


def named(names):
    return [{"_Z4workPKfPf": "work(float const*, float*)"}.get(name, name) for name in names]


def test_instructions_are_counted_with_their_lines():
    """Arithmetic and conversions of a kernel's own body; a load is neither, and another function's is nobody's."""
    header = SourceLine(path="/usr/local/cuda/include/math_functions.hpp", line=900, caller_path="k.cu", caller_line=5)
    assert float64_instructions([PTX]) == {"_Z4workPKfPf": [*[SourceLine(path="k.cu", line=4)] * 3, header]}


def test_the_first_line_and_its_literal_are_remarked():
    assert float64_remarks([PTX], {"k.cu": SOURCE}, named) == ("k.cu:4: computes in float64: the literal `0.3` is a double; write `0.3f`",)


def test_what_a_header_computes_is_asked_for_where_it_is_called():
    only = "\n".join(line for line in PTX.split("\n") if "%fd2, %fd1" not in line and "cvt.f64.f32" not in line)
    assert float64_remarks([only], {"k.cu": SOURCE}, named) == ("k.cu:5: computes in float64: nothing in the source says `double`",)


@pytest.mark.parametrize("source", [SOURCE.replace("0.3;", "(double)0.3;"), SOURCE.replace("float*", "double*")])
def test_a_source_that_says_double_means_it(source):
    assert float64_remarks([PTX], {"k.cu": source}, named) == ()
    assert float64_remarks([PTX], {"k.cu": SOURCE}, lambda names: ["void work<double>(double const*)" for _ in names]) == ()
