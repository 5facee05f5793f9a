"""What is committed below grader/v1 is what proto/ says."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("tool", [["generate_proto.py", "--check"], ["lint_proto.py"]], ids=["up-to-date", "lint"])
def test_the_api_is_generated_and_lints(tool):
    """Generated anew nothing differs, and buf has nothing to say."""
    pytest.importorskip("grpc_tools")
    command = [sys.executable, ROOT / "tools" / tool[0], *tool[1:]]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
