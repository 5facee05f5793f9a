"""`grader-cli sweep` against a server whose grading is a fake."""

import csv
import json
from xml.etree import ElementTree

import pytest

from tests.unit.test_cli_commands import address, run, write  # noqa: F401  # address is a fixture

RANGE = ("--axis", "n", "--start", "16", "--stop", "64", "--factor", "2")


@pytest.fixture
def kernels(tmp_path):
    """One that is right at every size, and one that is wrong at all but the first."""
    return write(tmp_path, "accept"), write(tmp_path, "wrong")


def test_a_sweep_is_a_table_a_plot_and_a_csv_file(address, kernels, tmp_path):  # noqa: F811
    """With a column for each kernel and for PyTorch; a wrong kernel exits with 1."""
    ended = run("sweep", *kernels, *RANGE, "--server", address, "--out", tmp_path / "plots", "--metric", "time")
    assert ended.exit_code == 1, ended.output
    assert "kernel 1 of 2: accept" in ended.stdout and "verifying n-32" in ended.stdout
    table = ended.stdout[ended.stdout.index("sum: us, median") :].splitlines()
    assert table[1].split() == ["n", "accept", "wrong", "PyTorch", "eager"]
    assert "mismatched" not in table[2] and "mismatched" in table[3] and "mismatched" in table[4]
    assert "practice" in ended.stdout and "wrong: WRONG_ANSWER" in ended.stdout
    ElementTree.fromstring((tmp_path / "plots" / "sum_n.svg").read_text())
    read = list(csv.DictReader((tmp_path / "plots" / "sum_n.csv").open()))
    assert [one["certified_ns"] for one in read if one["provider"] == "accept"] == ["1600.0", "3200.0", "6400.0"]
    assert [one["outcome"] for one in read if one["provider"] == "wrong"] == ["right", "mismatched", "mismatched"]


def test_kernels_that_are_right_everywhere_exit_0_with_json(address, kernels):  # noqa: F811
    ended = run("sweep", kernels[0], *RANGE, "--server", address, "--json")
    assert ended.exit_code == 0, ended.output
    data = json.loads(ended.stdout)
    assert (data["axis"], data["metric"], data["practice"]) == ("n", "time", True)
    assert [one["certified_ns"] for one in data["points"] if one["role"] == "kernel"] == [1600.0, 3200.0, 6400.0]
    assert data["submissions"][0]["mode"] == "MODE_SWEEP" and "sources" not in data["submissions"][0]
    assert "sample_durations_ns" not in ended.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "has no sweep for a device of kind emulated; add a [[sweep]] to its problem.toml"),
        ((*RANGE, "--at", "rows"), "write it such as rows=4096"),
        ((*RANGE, "--seconds", "1000"), "at most 30 s"),
        ((*RANGE, "--seconds", "inf"), "--seconds: inf is not a number of seconds"),
    ],
)
def test_what_cannot_be_swept_is_misuse_that_says_why(address, kernels, words, said):  # noqa: F811
    ended = run("sweep", kernels[0], *words, "--server", address)
    assert ended.exit_code == 2 and said in " ".join(ended.stderr.split())


def test_kernels_of_several_problems_are_not_swept_together(address, kernels, tmp_path):  # noqa: F811
    other = tmp_path / "other.cu"
    other.write_text(kernels[0].read_text().replace("problem=sum", "problem=other"))
    ended = run("sweep", kernels[0], other, *RANGE, "--server", address)
    assert ended.exit_code == 2 and "several problems (sum, other)" in ended.stderr
