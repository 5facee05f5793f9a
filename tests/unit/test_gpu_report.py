"""`pytest --gpu-report DIR`: the page that the GPU tests write, and their flow on the emulated device."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness.grading import ROOT

TESTS = '''"""Additions, on a device."""
import pytest
pytestmark = pytest.mark.gpu

@pytest.mark.parametrize("kernel", ["right", "wrong", "skipped"])
def test_an_addition_is_right(section, kernel):
    section.table("kernel", "us").add(kernel, 5)
    section.raw[kernel] = 5
    if kernel == "skipped":
        pytest.skip("no second GPU")
    assert kernel == "right", "it is wrong"

def test_nothing_is_left():
    pass
'''

Run = Callable[..., tuple[int, str, dict[str, Any]]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the plugin on a few tests that need no device; return the exit code, the page and the data."""

    def run(*options: str) -> tuple[int, str, dict[str, Any]]:
        (tmp_path / "test_sums.py").write_text(TESTS)
        words = ["-q", "-p", "tests.gpu.report", "-p", "no:cacheprovider", "-c", "/dev/null", f"--rootdir={tmp_path}", str(tmp_path)]
        command = [sys.executable, "-m", "pytest", *words, f"--gpu-report={tmp_path / 'out'}", *options]
        code = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode
        return code, (tmp_path / "out" / "gpu.md").read_text(), json.loads((tmp_path / "out" / "gpu.json").read_text())

    return run


def test_a_report_that_shows_nothing_is_a_failure(run: Run) -> None:
    code, page, _ = run("-k", "skipped")
    assert code == 1
    assert "| sums | an addition is right | not shown | 0 of 1; 1 skipped: no second GPU |" in page
    assert run("-k", "skipped", "--gpu-device=emulated")[0] == 0


def test_slices_are_a_partition(run: Run) -> None:
    """Two halves on two GPUs grade every kernel once; tests without a kernel are in both."""
    halves = [run(f"--gpu-slice={number}/2") for number in (1, 2)]
    assert sorted(name for _, _, data in halves for name in data["sections"][0]["raw"]) == ["right", "skipped", "wrong"]
    assert [data["facts"]["slice"] for _, _, data in halves] == ["1/2", "2/2"]
    assert all("nothing is left | holds" in page for _, page, _ in halves)


@pytest.mark.slow
def test_the_gpu_tests_run_on_the_emulated_device(tmp_path: Path) -> None:
    """An honest kernel, a wrong twin and an attack get their verdicts; a time is measured, and nothing is claimed of it."""
    chosen = "(test_honest_set and (half2_with_float_sums or over_the_tolerance)) or (test_exploits and stale_graph) or test_same"
    command = [sys.executable, "-m", "pytest", "tests/gpu", "-m", "gpu", "-n", "0", "-q", "--all-cases", "-k", chosen]
    options = ["--gpu-device=emulated", "--gpu-isolation=process", "--gpu-count=1", "--gpu-measure-s=0.1", f"--gpu-report={tmp_path}"]
    process = subprocess.run([*command, *options, "-p", "no:cacheprovider"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout[-4000:]
    sections = {section["name"]: section for section in json.loads((tmp_path / "gpu.json").read_text())["sections"]}
    assert [row["verdict"] for row in sections["honest_set"]["raw"]["rows"]] == ["WRONG_ANSWER", "ACCEPTED"]
    assert [row["attack"] for row in sections["exploits"]["raw"]["rows"]] == ["stale_graph"]
    assert all(claim["holds"] for name in ("honest_set", "exploits") for claim in sections[name]["claims"])
    assert {claim["holds"] for claim in sections["same"]["claims"]} == {None}
    assert len(sections["same"]["tables"][0]["rows"]) == 4
