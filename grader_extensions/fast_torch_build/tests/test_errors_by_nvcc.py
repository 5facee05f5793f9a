"""Errors of nvcc in a torch extension, with light headers and with torch's own: their line is the submission's."""

from __future__ import annotations

import re
import shutil

import pytest

from grader_extensions.fast_torch_build.tests.torch_extensions.builds import build
from grader_extensions.fast_torch_build.tests.torch_extensions.corpus import Extension

OURS = re.compile(r"/tmp|/proc|attempt-|__source__|__folder__|_GLOBAL__N__|\.ptx|\.cudafe|\.ii\b|object\.o|\b\d+/|sandbox|ptxas info")
EXTENSION = """#include <torch/extension.h>
__global__ void work(float* a) {
    a[threadIdx.x] = 1;
}
torch::Tensor forward(torch::Tensor x) {
    auto y = torch::empty_like(x);
    work<<<1, 32>>>(y.data_ptr<float>());
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
@pytest.mark.parametrize(
    ("right", "wrong", "first", "headers"),
    [
        ("empty_like(", "empty_likes(", 'ext.cu(6): error: namespace "torch" has no member "empty_likes"', "light"),
        ("= 1;", "= missing_name;", 'ext.cu(3): error: identifier "missing_name" is undefined', "light"),
        pytest.param(
            "a[threadIdx.x] = 1;",
            'asm("bogus.u32 %0;" :: "r"(1));',
            "ext.cu(3): error: Not a name of any known instruction: 'bogus'",
            "full",
            marks=pytest.mark.daily,  # two minutes: torch's own headers
        ),
    ],
    ids=["on the host", "in a kernel", "inline PTX"],
)
def test_what_is_wrong_with_an_extension_is_told_of_by_file_and_line(tmp_path, right, wrong, first, headers):
    """Never with a line of torch's headers, nor of ours."""
    files = {"ext.cu": EXTENSION.replace(right, wrong)}
    compiled = build(Extension(name="ext", files=files, headers=headers, calls=()), tmp_path, device_kind="cuda")
    assert compiled.artifact is None and compiled.note is not None and compiled.note.headers == headers
    assert compiled.log.splitlines()[0] == first
    assert OURS.search(compiled.log) is None
