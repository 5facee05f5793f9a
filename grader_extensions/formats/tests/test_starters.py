"""Starter files for problems of these formats, as of the examples."""

import pytest

from grader_extensions.authoring.tests.test_starter_files import check_starters
from grader_extensions.formats.problem_sets import import_all
from tests.harness.grading import ROOT


@pytest.mark.parametrize("name", ["flashinfer", "kernelbench", "reference_kernels", "robust_kbench"])
def test_every_problem_has_a_starter_that_the_intake_takes(name):
    """The control is that there is one."""
    check_starters([entry.problem for entry in import_all(ROOT / "tests" / "fixtures" / name) if entry.problem is not None])
