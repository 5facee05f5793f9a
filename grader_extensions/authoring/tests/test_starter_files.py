"""Starter files: one for each language, made from the problem, and each of them builds."""

import pytest

from grader.intake.gate import detect, missing_entry
from grader.model import SourceFile
from grader.problems.store import Problems
from grader_extensions.authoring.starter_files import starter
from sandbox.protocol import wire
from sandbox.protocol.signatures import cuda_signature, entry_in
from tests.harness.client import GradingClient
from tests.harness.grading import ROOT, load_problem
from tests.harness.messages import GradingRequest


def starters_of(problem):
    """The starter of each language that has one, as a source."""
    texts = {name: starter(problem.spec, name, cuda=cuda_signature(problem.spec), title=problem.title) for name in problem.languages}
    return {name: SourceFile(path="x.py" if name == "python" else "x.cu", content=text) for name, text in texts.items() if text}


def test_every_example_has_a_starter_that_the_intake_takes():
    """Python files are valid, and a file is detected as the language that it is of, with its entry."""
    check_starters(Problems.load([ROOT / "kernels_examples"]).all())


def check_starters(problems):
    assert problems
    for problem in problems:
        starters = starters_of(problem)
        assert starters
        for language, source in starters.items():
            assert detect((source,)) == language
            assert missing_entry(language, (source,), entry_in(problem.spec, language)) is None
            if language == "python":
                compile(source.content, source.path, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["row_softmax", "matmul_fp16", "conv2d_fp32"])
@pytest.mark.parametrize("language", ["cuda", "torch_extension", "python"])
def test_a_starter_builds(name, language):
    """As it is, in a box, for the emulated device."""
    problem = load_problem(name)
    request = GradingRequest(
        isolation="process",
        problem=problem,
        sources=(starters_of(problem)[language],),
        language=language,
        mode=wire.Mode.TEST,
    )
    build, _ = GradingClient.of_this_run().build(request)
    assert build.outcome is wire.BuildOutcome.BUILT, build.log
