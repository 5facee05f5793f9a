"""The harness of the GPU tests, proven on the emulated device."""

from __future__ import annotations

import pytest

from grader.model import Verdict
from sandbox.protocol import wire
from tests.harness.grading import ROOT, Conditions, grader, load_problem

EXAMPLES = ROOT / "kernels_examples" / "vector_add"


@pytest.mark.slow
async def test_what_is_built_ahead_is_graded_from_the_cache() -> None:
    """A right kernel and a wrong one get their verdicts, and no compiler runs while they are graded."""
    problem = load_problem("vector_add")
    right, wrong = ((EXAMPLES / f"{name}.cu").read_text("utf-8") for name in ("grid_stride", "off_by_one"))
    async with grader(isolation="process", lanes=(), device="emulated") as grading:
        assert (await grading.environment()).isolation == grading.isolation_name == "process"
        await grading.prebuild([(problem, source, "cuda") for source in (right, wrong, right)])
        conditions = Conditions(load_s=20.0)
        accepted = await grading.grade(problem, right, language="cuda", mode=wire.Mode.TEST, conditions=conditions)
        refused = await grading.grade(problem, wrong, language="cuda", mode=wire.Mode.TEST, conditions=conditions)
    assert accepted.report.verdict is Verdict.ACCEPTED, accepted.explanation
    assert refused.report.verdict is Verdict.WRONG_ANSWER, refused.explanation
    assert all(one.report.build is not None and one.report.build.cached for one in (accepted, refused))
    assert accepted.certified_ns("n1024") is None
