"""The HTML reports of an accepted, a wrong and a cheating kernel, made anew by `python -m tools.report_fixtures`."""

import re
import subprocess
import sys

import pytest

from tests.e2e.conftest import ROOT, TIMEOUT_S

SHOWN = {
    "accepted": (
        "ACCEPTED",
        "chart timeline",
        "chart samples",
        'id="times"',
        "grid_stride.cu",
        "resource limits|without network|namespaces",
    ),
    "wrong": ("WRONG_ANSWER", "UNWRITTEN_OUTPUT", "The first wrong elements", "off_by_one.cu"),
    "cheating": ("DISQUALIFIED", "TIMING_TAMPERED", "idles_in_do_bench.cu"),
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_reports_of_three_kernels_are_made_anew(tmp_path, environment):
    """Each with its verdict and what led to it; none with a script, and none with a hidden size in what is shown."""
    command = [sys.executable, "-m", "tools.report_fixtures", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=2 * TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, shown in SHOWN.items():
        text = (tmp_path / f"{name}.html").read_text()
        for pattern in shown:
            assert re.search(pattern, text), (name, pattern)
        assert "<script" not in text and " style=" not in text and len(text) < 500_000
        visible = re.sub(r'data:[^"]*', "", text)
        assert not re.search("n = 4099|n4099|1000003|1537 elements", visible)
