"""The server's half of the language python: what is detected, and what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.cli import sources as cli_sources
from grader.cli.exits import UsageError
from grader.errors import InvalidSubmission
from grader.formats import native
from grader.intake import gate, languages
from grader.model import SourceFile
from grader.v1 import grader_service_pb2, submission_pb2
from tests.python_builds import PLAIN

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path for path in (ROOT / "kernels_examples").glob("*/*.py") if path.name != "reference.py")


def test_a_py_file_is_python_and_says_its_problem_in_a_comment(tmp_path):
    """As a .cu file does in its own."""
    path = tmp_path / "kernel.py"
    path.write_text(f"# a kernel\n# grader: problem=row_softmax\n{PLAIN}")
    handed = cli_sources.read([path], None)
    assert (handed.problem_id, languages.detect(handed.sources)) == ("row_softmax", "python")
    path.write_text(PLAIN)
    with pytest.raises(UsageError, match="write '# grader: problem=NAME'"):
        cli_sources.read([path], None)


@pytest.mark.parametrize(("text", "sure"), [("# nothing\n", True), ("'a text'\n", True), (PLAIN, False), ("run = 3", False), ("(", True)])
def test_a_module_that_can_have_no_entry_is_refused_at_once(text, sure):
    """Without running it, and only where it is sure."""
    said = languages.missing_entry("python", (SourceFile(path="k.py", content=text),), "solve")
    assert (said is not None) is sure and (said is None or "define a function `solve`" in said)


def test_a_submission_in_python_may_have_several_files():
    """Python, data, and an empty __init__.py; their order is kept. Control: another empty file is refused."""

    def checked(*files):
        request = grader_service_pb2.SubmitRequest(submission=submission_pb2.Submission(problem="problems/vector_add"))
        for path, content in files:
            request.submission.sources.add(path=path, content=content)
        return gate.check_submission(request, lambda name: native.load(ROOT / "kernels_examples" / name), ["emulated"]).submission

    files = [("z.py", PLAIN), ("kernels/__init__.py", ""), ("kernels/add.py", PLAIN), ("kernel.cu", "int x;")]
    new = checked(*files)
    assert (new.language, [one.path for one in new.sources]) == ("python", [path for path, _ in files])
    with pytest.raises(InvalidSubmission, match="is empty"):
        checked(*files, ("other.py", ""))
