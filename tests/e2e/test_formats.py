"""Material in the shape that its own users have it: imported, checked and submitted unchanged. `make formats` prints what is found."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli
from tools import verdicts
from tools.page import ROOT

pytestmark = pytest.mark.slow  # each starts a server and a judge of its own

FIXTURES = ROOT / "tests" / "fixtures"
MANIFEST = ROOT / "tools" / "manifests" / "formats.toml"
LOCAL = ("--mode", "test", "--sandbox", "process", "--device", "emulated", "--json")


@pytest.mark.parametrize("group", ["native", "kernelbench", "reference_kernels", "flashinfer", "robust_kbench"])
def test_a_format_takes_what_its_users_have(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The counts of imported, gradable and refused problems, the reasons, and every verdict."""
    code = verdicts.main([str(MANIFEST), str(ROOT), "--only", group, "--sandbox", "process", "--device", "emulated"])
    assert code == 0, capsys.readouterr().out


def test_another_verdict_than_the_manifest_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The control: another count, another reason for a refusal and another verdict are each found."""
    (tmp_path / "manifest.toml").write_text(
        """[[set]]
group = "x"
path = "refused/kernelbench"
imported = 1

[[set]]
group = "x"
path = "refused/kernelbench"
imported = 0
refused = 1
reasons = ["another reason"]

[[kernel]]
group = "x"
files = ["kernels/native/vector_add_half.cu"]
says = "right"
verdict = "ACCEPTED"
"""
    )
    code = verdicts.main([str(tmp_path / "manifest.toml"), str(FIXTURES), "--sandbox", "process", "--device", "emulated"])
    out = capsys.readouterr().out
    assert code == 1 and out.count("**no**") == 3 and out.endswith("0 of 3 as expected\n")


def test_a_flat_trace_set_takes_its_solution_file(cli: Cli, tmp_path: Path) -> None:
    """Without an import, by the definition above it; and after one, from elsewhere, with several files in C++."""
    shutil.copytree(FIXTURES / "flashinfer" / "flat", tmp_path / "trace")
    ended = cli("submit", "trace/solutions/clipped_sum_python.json", *LOCAL)
    assert ended.code == 0, ended.stdout + ended.stderr
    imported = cli("problems", "import", "trace", "--no-check", "--json")
    assert imported.json["counts"] == {"imported": 1, "refused": 0, "same": 0} and "2 of its 3 sizes" in imported.stdout
    shutil.move(tmp_path / "trace" / "solutions" / "clipped_sum_cuda.json", tmp_path / "solution.json")
    ended = cli("submit", "solution.json", *LOCAL)
    assert ended.code == 0 and ended.json["problem"] == "problems/clipped_sum_w96", ended.stdout + ended.stderr
    assert [one["path"] for one in ended.json["sources"]] == ["main.cpp", "clip.h", "clip.cu"]
    assert {one["workload_id"] for one in ended.json["report"]["trials"]} == {"rows-7", "rows-130"}
