"""The package of docs/extending.md: a language, a format and an isolation from outside the tree, found by their entry points."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Cli

pytestmark = pytest.mark.slow
PACKAGE = ROOT / "examples" / "extension"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed where only PYTHONPATH finds it."""
    target = tmp_path_factory.mktemp("extension")
    source = target / "source"
    source.mkdir()
    for path in PACKAGE.iterdir():
        if path.is_file():
            (source / path.name).write_bytes(path.read_bytes())
    words = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        str(target / "lib"),
        str(source),
    ]
    subprocess.run([sys.executable, *words], check=True)
    return target / "lib"


@pytest.fixture
def extended(cli: Cli, environment: dict[str, str], installed: Path) -> Cli:
    """grader-cli with the package."""
    environment["PYTHONPATH"] = str(installed)
    return cli


def verdict(cli: Cli, path: Path, problem: str, *words: str) -> str:
    done = cli("submit", path, "--problem", problem, "--json", *words)
    assert done.stdout, done.stderr
    return str(done.json["report"]["verdict"])


@pytest.mark.parametrize("isolation", ["same_host", pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)])
def test_a_language_of_another_package_is_graded(extended, tmp_path, isolation):
    """A right and a wrong submission, in a box that does not have the package's directory by itself."""
    right, wrong = tmp_path / "right.formula", tmp_path / "wrong.formula"
    right.write_text("out0 = in0 + in1\n")
    wrong.write_text("out0 = in0 - in1\n")
    assert verdict(extended, right, "vector_add", "--sandbox", isolation) == "VERDICT_ACCEPTED"
    assert verdict(extended, wrong, "vector_add", "--sandbox", isolation) == "VERDICT_WRONG_ANSWER"


def test_a_format_of_another_package_is_graded(extended, tmp_path):
    """Both its halves: the server reads the file, the judge computes what is expected."""
    (tmp_path / "product.elementwise.json").write_text('{"formula": "in0 * in1", "inputs": 2, "sizes": [1000]}')
    imported = extended("problems", "import", tmp_path / "product.elementwise.json")
    assert imported.code == 0, imported.stderr
    source = tmp_path / "kernel.formula"
    source.write_text("out0 = in1 * in0\n")
    assert verdict(extended, source, "product", "--sandbox", "same_host") == "VERDICT_ACCEPTED"
    source.write_text("out0 = in1 * in1\n")
    assert verdict(extended, source, "product", "--sandbox", "same_host") == "VERDICT_WRONG_ANSWER"


def test_without_the_package_none_of_it_is_known(cli, tmp_path):
    """The control: it is the entry points that add all this."""
    source = tmp_path / "kernel.formula"
    source.write_text("out0 = in0 + in1\n")
    done = cli("submit", source, "--problem", "vector_add", "--sandbox", "process")
    assert done.code == 2 and "formula" not in done.stderr.replace("kernel.formula", "") and "language" in done.stderr
    assert cli("submit", source, "--problem", "vector_add", "--sandbox", "same_host").code == 2
