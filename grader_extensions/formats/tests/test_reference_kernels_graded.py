"""Submissions to imported problems, from source to verdict, in boxes on the emulated device: each way in which an entry can be called."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.dispatch.local_fleet import LocalFleet
from grader.formats import formats
from tests.local_grading import graded

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures"
MASKED_SUMS = "reference_kernels/masked_sums"
PRODUCT = "kernelbench/5_Scaled_product.py"
PRODUCT_CUDA = (FIXTURES / "kernelbench" / "5_Scaled_product.cu").read_text()
PRODUCT_EXTENSION = """#include <torch/extension.h>
torch::Tensor forward(torch::Tensor x, double factor, torch::Tensor shift, torch::Tensor weight, torch::Tensor bias, torch::Tensor gamma,
                      torch::Tensor beta, torch::Tensor mean, torch::Tensor variance) {
    auto y = (at::matmul(x, weight.t()) + bias - mean) / (variance + 1e-5).sqrt() * gamma + beta;
    return y * factor + shift;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
"""
SUBMISSIONS = {
    "data, a nest": (
        MASKED_SUMS,
        "def custom_kernel(data):\n    x, parts, config = data\n    rows = (x * parts['mask']).sum(1) * parts['weights']['scale']\n"
        "    rows = -rows if config['negate'] else rows\n    return rows, {'total': rows.sum()}\n",
        "ACCEPTED",
    ),
    "data, what the check alone sees": (
        MASKED_SUMS,
        "def custom_kernel(data):\n    x, parts, config = data\n    rows = (x * parts['mask']).sum(1) * parts['weights']['scale']\n"
        "    rows = -rows if config['negate'] else rows\n    return rows, {'total': rows.sum() + 0.01}\n",
        "WRONG_ANSWER MISMATCH",
    ),
    "raw CUDA, with a model's weights": (PRODUCT, PRODUCT_CUDA, "ACCEPTED"),
    "raw CUDA, without one of the weights": (PRODUCT, PRODUCT_CUDA.replace("+ shift[column]", ""), "WRONG_ANSWER MISMATCH"),
    "raw CUDA, into a weight": (
        PRODUCT,
        PRODUCT_CUDA.replace(
            "output[row * columns + column] = ", "if (row == 0) ((float*)shift)[column] += 1e-6f;\n    output[row * columns + column] = "
        ),
        "WRONG_ANSWER INPUT_MODIFIED",
    ),
    "raw CUDA, under another name": (PRODUCT, PRODUCT_CUDA.replace(" solve(", " ModelNew("), "COMPILE_ERROR ENTRY_NOT_FOUND"),
    "a torch extension, with a model's weights": (PRODUCT, PRODUCT_EXTENSION, "ACCEPTED"),
}


async def verdict_of(fleet: LocalFleet, place: str, content: str) -> tuple[str, str]:
    """The verdict of a submission to the problem there with its reason, and the report's summary."""
    path = FIXTURES / place
    problem = next(format_ for format_ in formats().values() if format_.matches(path)).load(path, root=path.parent)
    report, _ = await graded(fleet, problem, {"kernel.cu" if "#include" in content else "kernel.py": content})
    return f"{report.verdict.value} {report.reason}", report.summary


@pytest.mark.parametrize("name", SUBMISSIONS)
async def test_a_submission_to_an_imported_problem_gets_its_verdict(fleet: LocalFleet, name: str) -> None:
    """Right ones are accepted however they are called, and wrong ones fail for their own reason."""
    place, content, expected = SUBMISSIONS[name]
    verdict, summary = await verdict_of(fleet, place, content)
    assert verdict.startswith(expected), summary
