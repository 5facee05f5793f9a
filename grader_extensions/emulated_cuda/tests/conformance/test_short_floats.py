"""What fp16 and bf16 comparisons answer where one side is NaN, by the CUDA Math API."""

import pytest

from grader_extensions.emulated_cuda.tests.conformance.conftest import Build, run

PROGRAM = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdio>
__global__ void k() {{
    {type} nan = {type}(nanf("")), one = {type}(1.0f), two = {type}(2.0f);
    {type}2 pair(nan, two), ones(one, one);
    printf("%d%d%d%d%d%d ", __heq(nan, one), __hne(nan, one), __hlt(nan, one), __hle(nan, one), __hgt(nan, one), __hge(nan, one));
    printf("%d%d%d%d%d%d ", __hequ(nan, one), __hneu(nan, one), __hltu(nan, one), __hleu(nan, one), __hgtu(nan, one), __hgeu(nan, one));
    printf("%d%d %08x %08x ", nan == one, nan != one, __hgt2_mask(pair, ones), __hgtu2_mask(pair, ones));
    printf("%d %d\\n", __hbgt2(pair, ones), __hbgtu2(pair, ones));
}}
int main() {{
    k<<<1, 1>>>();
    cudaDeviceSynchronize();
}}
"""


@pytest.mark.parametrize("type_name", ["__half", "__nv_bfloat16"])
def test_a_comparison_with_nan_is_false_unless_it_is_unordered(type_name: str, build: Build) -> None:
    """`__hne` too is false; the operator != is not."""
    assert run(build(PROGRAM.format(type=type_name))).stdout == "000000 111111 01 ffff0000 ffffffff 0 1\n"
