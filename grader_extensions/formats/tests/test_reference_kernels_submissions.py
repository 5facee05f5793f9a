"""Submissions as GPU MODE's users write them, in boxes on the emulated device: with the problem's files, in one file or several."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from grader.dispatch.local_fleet import LocalFleet
from grader_extensions.formats import reference_kernels
from tests.local_grading import graded

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
FIXTURES = Path(__file__).parents[3] / "tests" / "fixtures" / "reference_kernels"
SHIPPED = {
    name: (FIXTURES / name / "submission.py").read_text()
    for name in ("scaled_add", "product_out", "scaled_fp8", "packed_fp4", "decode_step")
}
PRODUCT, FP8, FP4, STEP = (SHIPPED[name] for name in ("product_out", "scaled_fp8", "packed_fp4", "decode_step"))
SEARCH = """import pathlib
files = [path for path in pathlib.Path(__file__).parents[1].rglob("*") if path.is_file() and "submission" not in path.name]
assert {"task.py", "utils.py"} <= {path.name for path in files}
told = [path for path in files if b"def ref_kernel" in path.read_bytes() or b"def generate_input" in path.read_bytes()]
assert not told, told
"""
IN_PARTS = {
    "submission.py": "from task import input_t\nfrom .parts import product\ndef custom_kernel(data: input_t):\n    return product(*data)\n",
    "parts/__init__.py": "from .product import product\n",
    "parts/product.py": "def product(a, b, c):\n    c[...] = a @ b\n    return c\n",
}
SUBMISSIONS: dict[str, tuple[str, str | Mapping[str, str], str]] = {
    **{f"{name} as it comes": (name, text, "ACCEPTED") for name, text in SHIPPED.items()},
    "a template as it comes": ("product_out", (FIXTURES / "product_out" / "template.py").read_text(), "WRONG_ANSWER UNWRITTEN_OUTPUT"),
    "into an input": ("product_out", PRODUCT.replace("    return c", "    a.zero_()\n    return c"), "WRONG_ANSWER INPUT_MODIFIED"),
    "half of the buffer": ("product_out", PRODUCT.replace("c[...] = a @ b", "c[:8] = (a @ b)[:8]"), "WRONG_ANSWER UNWRITTEN_OUTPUT"),
    "a product that is off": ("scaled_fp8", FP8.replace("= total\n", "= total * 1.1\n"), "WRONG_ANSWER MISMATCH"),
    "without the scales": ("packed_fp4", FP4.replace("return values *", "return values + 0 *"), "WRONG_ANSWER MISMATCH"),
    "the answer in another order": ("scaled_fp8", FP8.replace("return c\n", "return c.T.contiguous().T\n"), "WRONG_ANSWER WRONG_SHAPE"),
    "the answer contiguous": ("packed_fp4", FP4.replace("return c\n", "return c.contiguous()\n"), "ACCEPTED"),
    "of a bare module": (
        "decode_step",
        STEP.replace("class Cache", "class Other").replace("cache(config", "Other.forward(cache, config"),
        "ACCEPTED",
    ),
    "not into the cache": ("decode_step", STEP.replace("self.data[self.length] = row", "pass"), "WRONG_ANSWER MISMATCH"),
    "in several files": ("product_out", IN_PARTS, "ACCEPTED"),
    "a look for the reference": ("product_out", SEARCH + PRODUCT, "ACCEPTED"),
    "the reference imported": ("product_out", f"from reference import ref_kernel\n{PRODUCT}", "COMPILE_ERROR IMPORT_FAILED"),
    "a package that is not there": ("product_out", f"import helion\n{PRODUCT}", "COMPILE_ERROR UNSUPPORTED"),
}


@pytest.mark.parametrize("name", SUBMISSIONS)
async def test_a_submission_gets_its_verdict(fleet: LocalFleet, name: str) -> None:
    """Unchanged right ones are accepted; wrong ones fail for their own reason."""
    directory, files, expected = SUBMISSIONS[name]
    problem = reference_kernels.load(FIXTURES / directory, root=FIXTURES)
    report, _ = await graded(fleet, problem, {"submission.py": files} if isinstance(files, str) else files)
    log = report.build.log if report.build else ""
    assert f"{report.verdict.value} {report.reason}".startswith(expected), f"{report.summary}\n{log}"
