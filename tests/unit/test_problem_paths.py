"""Reading a problem set takes no file from outside of it: not by `..`, not by an absolute path, not by a symbolic link."""

import pytest

from grader.errors import ProblemInvalid
from grader.formats import native
from grader.problems.store import Problems
from tests import fakes

OUTSIDE = "is outside the problem set"


def test_a_problem_is_named_by_its_file_too(tmp_path):
    """As people complete paths."""
    fakes.write_problem(tmp_path)
    assert Problems().add(tmp_path / "sum" / "problem.toml") == Problems().add(tmp_path / "sum")


@pytest.mark.parametrize("file", ["problem.toml", "reference.py"])
def test_no_file_of_a_problem_is_a_link_to_the_outside(tmp_path, file):
    """Control: with the directory above as the set, it is read."""
    directory = tmp_path / "set" / "sum"
    fakes.write_problem(directory.parent)
    (directory / file).rename(tmp_path / "outside")
    (directory / file).symlink_to(tmp_path / "outside")
    with pytest.raises(ProblemInvalid, match=OUTSIDE):
        native.load(directory)
    assert native.load(directory, root=tmp_path).problem_id
