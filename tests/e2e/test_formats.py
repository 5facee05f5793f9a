"""Material in the shape that its own users have it: imported, checked and submitted unchanged. `make formats` prints what is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.formats import formats
from tools import verdicts
from tools.page import ROOT

pytestmark = pytest.mark.slow  # each starts a server and a judge of its own

FIXTURES = ROOT / "tests" / "fixtures"
MANIFEST = ROOT / "tools" / "manifests" / "formats.toml"
LOCAL = ("--mode", "test", "--sandbox", "process", "--device", "emulated", "--json")


@pytest.mark.parametrize("group", formats())
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
