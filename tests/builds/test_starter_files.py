"""Starter files: one for each language, made from the problem, and each of them builds."""

import pytest

from grader.formats import formats
from grader.intake.gate import detect, missing_entry
from grader.model import SourceFile
from grader.problems.store import import_all
from grader.views.starter_files import starter_files
from sandbox.protocol import wire
from sandbox.protocol.signatures import entry_in
from tests.harness.client import GradingClient
from tests.harness.grading import ROOT, load_problem
from tests.harness.messages import GradingRequest

FOLDERS = ("kernels_examples", *(f"tests/fixtures/{name}" for name in formats() if name != "native"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_problem_has_a_starter_that_the_intake_takes(folder):
    """In every format; Python files are valid, and a file is detected as the language that it is of, with its entry."""
    found = [one.problem for one in import_all(ROOT / folder) if one.problem is not None]
    assert found
    for problem in found:
        starters = starter_files(problem)
        assert starters and len({one.name for one in starters}) == len(starters)
        for one in starters:
            sources = (SourceFile(path=one.name, content=one.content),)
            assert detect(sources) == one.language
            assert missing_entry(one.language, sources, entry_in(problem.spec, one.language)) is None
            if one.language == "python":
                compile(one.content, one.name, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["row_softmax", "matmul_fp16", "conv2d_fp32"])
@pytest.mark.parametrize("language", ["cuda", "torch_extension", "python"])
def test_a_starter_builds(name, language):
    """As it is, in a box, for the emulated device."""
    problem = load_problem(name)
    starter = next(one for one in starter_files(problem) if one.language == language)
    request = GradingRequest(
        isolation="process",
        problem=problem,
        sources=(SourceFile(path=starter.name, content=starter.content),),
        language=language,
        mode=wire.Mode.TEST,
    )
    build, _ = GradingClient.of_this_run().build(request)
    assert build.outcome is wire.BuildOutcome.BUILT, build.log
