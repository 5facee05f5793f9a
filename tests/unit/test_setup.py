"""tools/setup.sh: which build of PyTorch it asks pip for, and the packages that each kind of environment has. pip is a fake."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
VERSION = next(line.removeprefix("torch==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
HAS_DRIVER = shutil.which("nvidia-smi") or any(Path(path).exists() for path in ("/proc/driver/nvidia/version", "/dev/nvidiactl"))
# Writes the words of every call of pip. `pip index` prints what `offered` holds, and fails without it; a build of torch fails to install
# if `broken` exists. All other calls are Python's.
PYTHON = f"""#!/usr/bin/env bash
place=$(dirname "$0")
if [ "$1" = -m ] && [ "$2" = pip ]; then
    shift 2
    echo "$*" >>"$place/calls"
    case $1 in
    index) echo "$PIP_EXTRA_INDEX_URL $PIP_FIND_LINKS" >"$place/sources"; cat "$place/offered" 2>/dev/null ;;
    install) [ ! -e "$place/failing" ] || {{ cat "$place/failing"; exit 1; }}; [ "${{*: -1}}" != torch ] || [ ! -e "$place/broken" ] ;;
    esac
    exit
fi
[ "$1" != -c ] || [[ $2 != *'version("torch")'* ]] || {{ cat "$place/installed" 2>/dev/null; exit; }}
exec {sys.executable} "$@"
"""


class Setup:
    """Runs tools/setup.sh on an environment whose Python is a fake."""

    def __init__(self, place):
        self.bin = place / "venv" / "bin"
        self.programs = place / "programs"
        self.bin.mkdir(parents=True)
        self.programs.mkdir()
        python = self.bin / "python"
        python.write_text(PYTHON)
        python.chmod(0o755)

    def run(self, *words, kind="run", code=0):
        """The lines that it printed, and the calls of pip."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        environment["PATH"] = f"{self.programs}:{environment['PATH']}"
        command = ["tools/setup.sh", kind, str(self.bin.parent), *words]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == code, done.stdout + done.stderr
        return (done.stdout + done.stderr).splitlines(), (self.bin / "calls").read_text().splitlines()


@pytest.fixture
def setup(tmp_path):
    """A machine where PyTorch's CPU index offers the version that is wanted."""
    if HAS_DRIVER:
        pytest.skip("this machine has an NVIDIA driver")
    made = Setup(tmp_path)
    (made.bin / "offered").write_text(f"torch ({VERSION}+cpu)\nAvailable versions: {VERSION}+cpu, 2.8.0+cpu\n")
    return made


def words_about(text, printed):
    return [line for line in printed if text in line]


def test_without_a_driver_only_torch_comes_from_the_cpu_index(setup):
    printed, (asked, torch, rest) = setup.run("--quiet")
    assert asked.startswith(f"index versions torch --index-url {CPU_INDEX} --timeout 5 --retries 0")
    assert torch.endswith(f"-c constraints.txt --no-deps --extra-index-url {CPU_INDEX} --quiet torch")
    assert rest.endswith("-c constraints.txt --quiet -e .[all] -e ./grader_extensions") and "index-url" not in rest
    assert len(words_about("CPU build", printed)) == 1
    assert (setup.bin / "sources").read_text() == f"{CPU_INDEX} {setup.bin}\n"
    assert (setup.bin.parent / ".ready-run").exists()


def test_the_environment_of_tests_has_every_extra(setup):
    _, calls = setup.run(kind="dev")
    assert calls[-1].endswith("-e .[all,dev] -e ./grader_extensions")
    assert {path.name for path in setup.bin.parent.glob(".ready-*")} == {".ready-run", ".ready-dev"}


@pytest.mark.parametrize("offered", [None, "torch (2.8.0+cpu)\nAvailable versions: 2.8.0+cpu\n"])
def test_an_index_without_the_version_leads_to_the_default_build_and_one_line(setup, offered):
    """Likewise one that does not answer."""
    (setup.bin / "offered").unlink()
    if offered is not None:
        (setup.bin / "offered").write_text(offered)
    printed, (_, rest) = setup.run()
    assert rest.endswith("-c constraints.txt -e .[all] -e ./grader_extensions")
    assert len(words_about("installing PyTorch's default build", printed)) == 1


def test_a_pip_that_fails_is_a_sentence_and_the_rest_is_in_a_file(setup):
    """Its last error that says something."""
    said = "Collecting x\n  ERROR: No matching distribution found for x\nerror: subprocess-exited-with-error\n"
    (setup.bin / "failing").write_text(said)
    printed, _ = setup.run(code=1)
    log = setup.bin.parent / "setup.log"
    assert printed[-1] == f"[setup] pip failed: ERROR: No matching distribution found for x; all that it said is in {log}"
    assert said in log.read_text() and not words_about("Collecting", printed) and not (setup.bin.parent / ".ready-run").exists()


def test_with_a_driver_pip_chooses(setup):
    program = setup.programs / "nvidia-smi"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    _, calls = setup.run()
    assert [call.split("-c constraints.txt ")[1] for call in calls] == ["-e .[all] -e ./grader_extensions"]
