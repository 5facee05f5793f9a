"""The package of docs/extending.md: a language, a format, an isolation, a mode and a device from outside the tree."""

import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Cli

pytestmark = pytest.mark.slow
PACKAGE = ROOT / "examples" / "extension"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed where only PYTHONPATH finds it."""
    target = tmp_path_factory.mktemp("extension")
    source = shutil.copytree(PACKAGE, target / "source", ignore=shutil.ignore_patterns("__pycache__"))
    words = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", target / "lib", source]
    subprocess.run([sys.executable, "-m", "pip", "install", *words], check=True)
    return target / "lib"


@pytest.fixture
def extended(cli: Cli, environment: dict[str, str], installed: Path) -> Cli:
    """grader-cli with the package."""
    environment["PYTHONPATH"] = str(installed)
    return cli


def verdict(cli: Cli, path: Path, problem: str, *words: str) -> str:
    result = cli("submit", path, "--problem", problem, "--json", *words)
    assert result.stdout and "report" in result.json, result
    return str(result.json["report"]["verdict"])


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


def test_a_mode_of_another_package_is_graded(extended, environment, installed, tmp_path):
    """In place of the one of kernel-grader-extensions. Its facts are in the report as far as its row discloses them."""
    site = shutil.copytree(installed, tmp_path / "site")
    points = next(site.glob("grader_formula-*.dist-info")) / "entry_points.txt"
    points.write_text(f"{points.read_text()}\n[grader.modes]\nprofile = formula_mode\n")
    ours = distribution("kernel-grader-extensions")
    shadow = site / f"kernel_grader_extensions-{ours.version}.dist-info"  # is found first
    shadow.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (shadow / name).write_text(str(ours.read_text(name)).replace("profile = grader_extensions.modes.profile\n", ""))
    environment["PYTHONPATH"] = str(site)
    source = tmp_path / "kernel.formula"
    source.write_text("out0 = in0 + in1\n")
    ended = extended("submit", source, "--problem", "vector_add", "--mode", "profile", "--sandbox", "same_host", "--json")
    assert ended.stdout, ended.stderr
    assert ended.json["report"]["profile"] == {"remarks": ["1 lines"]}


PLAIN = 'extern "C" void solve(const float* a, const float* b, float* c, long n, void*) { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; }'


def test_a_device_of_another_package_is_graded_on(cli, environment, tmp_path):
    """In place of the emulated device; a CUDA kernel is no plain C++."""
    environment |= {"PYTHONPATH": str(PACKAGE), "GRADER_BOX_MODULES": "emulated=formula_device.toolchain"}
    for text, expected in ((PLAIN, "ACCEPTED"), (PLAIN.replace("+ b", "- b"), "WRONG_ANSWER"), (f"__global__ {PLAIN}", "COMPILE_ERROR")):
        (tmp_path / "kernel.cu").write_text(text)
        words = ("--mode", "test", "--sandbox", "process", "--device", "emulated", "--skip-sanitizer")
        assert verdict(cli, tmp_path / "kernel.cu", "vector_add", *words) == f"VERDICT_{expected}"


def test_without_the_package_none_of_it_is_known(cli, tmp_path):
    """The control: it is the entry points that add all this."""
    source = tmp_path / "kernel.formula"
    source.write_text("out0 = in0 + in1\n")
    result = cli("submit", source, "--problem", "vector_add", "--sandbox", "process")
    assert result.code == 2 and "formula" not in result.stderr.replace("kernel.formula", "") and "language" in result.stderr
    assert cli("submit", source, "--problem", "vector_add", "--sandbox", "same_host").code == 2
