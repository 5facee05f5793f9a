"""A problem's rule on libraries, from submission to verdict."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from sandbox.protocol import wire
from tests.harness.grading import Grading, grader, load_problem
from tests.run_files import cache_directory

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

OWN = """
#include <torch/extension.h>
// at::softmax, cublasSgemm and torch::matmul are what this does without.
__global__ void add(const float* a, const float* b, float* c, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
torch::Tensor forward(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    if (a.numel() > 0) add<<<(a.numel() + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), a.numel());
    return c;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
LIBRARY = """
#include <torch/extension.h>
torch::Tensor forward(torch::Tensor a, torch::Tensor b) { return at::add(a, b); }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def grading() -> AsyncIterator[Grading]:
    """A fleet with the emulated device."""
    async with grader(isolation="process", lanes=(), artifacts=cache_directory()) as made:
        yield made


@pytest.mark.parametrize(
    ("policy", "source", "verdict", "library"),
    [
        (wire.Libraries.FORBIDDEN, LIBRARY, "DISQUALIFIED POLICY", "at::add"),
        (wire.Libraries.LABELLED, LIBRARY, "ACCEPTED", "at::add"),
        (wire.Libraries.ALLOWED, LIBRARY, "ACCEPTED", None),  # the control: nobody asks
        (wire.Libraries.FORBIDDEN, OWN, "ACCEPTED", None),
    ],
)
async def test_what_a_problem_says_of_libraries_holds(
    grading: Grading, policy: wire.Libraries, source: str, verdict: str, library: str | None
) -> None:
    """The same kernel by an operator of PyTorch's, and by its own; a name in a comment is none."""
    known = load_problem("vector_add")
    problem = replace(known, spec=replace(known.spec, libraries=policy))
    graded = await grading.grade(problem, source, language="torch_extension", mode=wire.Mode.TEST, device="emulated")
    assert graded.verdict == verdict, graded.explanation
    assert (library in graded.report.libraries) if library else not graded.report.libraries
