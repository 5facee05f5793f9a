"""The parts of .ci/run: the virtual environment that runs share, and the commands beside the tests."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
set -euo pipefail
source .ci/environment
log() { echo "$*"; }
point_at_this_clone() { echo "pointed $1"; }
use_kept_environment "$1" "$2"
echo "VENV=${VENV:-}"
keep_environment
"""


@pytest.fixture
def use(tmp_path):
    """Use the kept environment of a key, as a run does; what was printed. Where there is none, it is made."""

    def run(key):
        words = ["bash", "-c", SCRIPT.replace("keep_environment\n", 'mkdir -p "$VENV"; keep_environment\n', 1), "-", str(tmp_path), key]
        return subprocess.run(words, cwd=ROOT, env=bare(), capture_output=True, text=True, check=True, timeout=300).stdout

    return run


def bare():
    return {name: value for name, value in os.environ.items() if name != "VENV"}


def test_two_runs_at_once_do_not_share_one(use, tmp_path):
    use("a")
    with (tmp_path / "venv-a.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        words = ["bash", "-c", SCRIPT, "-", str(tmp_path), "a"]
        process = subprocess.run(words, cwd=ROOT, env=bare(), capture_output=True, text=True, check=True, timeout=300)
    assert process.stdout == f"another run uses {tmp_path}/venv-a; making .venv\nVENV=\n"


@pytest.mark.parametrize(("code", "words"), [("0", "make lint passed in 5 s"), ("2", "what lint says"), (None, "it was killed")])
def test_a_command_beside_the_tests_is_waited_for_and_its_failure_is_shown(tmp_path, code, words):
    (tmp_path / "lint.log").write_text("what lint says\n")
    (tmp_path / "lint.pid").write_text(str(2**22 + 1))  # no process has it
    if code is not None:
        (tmp_path / "lint.seconds").write_text("5\n")
        (tmp_path / "lint.code").write_text(f"{code}\n")
    process = subprocess.run([".ci/await", str(tmp_path), "lint"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert process.returncode == (0 if code == "0" else 1)
    assert words in process.stdout
    assert ("what lint says" in process.stdout) == (code != "0")
