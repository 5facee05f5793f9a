"""tools/setup.sh: the packages of each kind of environment, the build of PyTorch, and what it says of a machine that lacks something.

pip and uv are fakes."""

import os
import re
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
# if `broken` exists. uv is offered if `uv` exists, and fails if it says so. `configuration` is pip's. `headless`: without headers. All
# other calls are Python's, but for what compiles.
PYTHON = f"""#!/usr/bin/env bash
place=$(dirname "$0")
if [ "$1" = -m ] && [ "$2" = pip ]; then
    shift 2
    echo "$*" >>"$place/calls"
    [ "$1" != config ] || {{ cat "$place/configuration" 2>/dev/null; exit; }}
    case $1 in
    install) [ "${{*: -1}}" != uv ] || {{ [ -e "$place/uv" ]; exit; }} ;;&
    index) echo "$PIP_EXTRA_INDEX_URL $PIP_FIND_LINKS" >"$place/sources"; cat "$place/offered" 2>/dev/null ;;
    install) [ ! -e "$place/failing" ] || {{ cat "$place/failing"; exit 1; }}; [ "${{*: -1}}" != torch ] || [ ! -e "$place/broken" ] ;;
    esac
    exit
fi
if [ "$1" = -m ] && [ "$2" = uv ]; then
    shift
    echo "$*" >>"$place/calls"
    ! grep -q fails "$place/uv"
    exit
fi
case "$*" in *precompile | *"import torch"*) exit ;; *Python.h*) [ ! -e "$place/headless" ]; exit ;; esac
[ "$1" != -c ] || [[ $2 != *'version("torch")'* ]] || {{ cat "$place/installed" 2>/dev/null; exit; }}
exec {sys.executable} "$@"
"""


class Setup:
    """A fake environment on which tools/setup.sh runs; its Python is a fake too."""

    def __init__(self, place):
        self.bin = place / "venv" / "bin"
        self.programs = place / "programs"
        self.bin.mkdir(parents=True)
        self.programs.mkdir()
        python = self.bin / "python"
        python.write_text(PYTHON)
        python.chmod(0o755)

    def run(self, *words, kind="run", code=0, path=os.environ["PATH"]):
        """Return the lines that it printed, and the calls that install something."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        environment["PATH"] = f"{self.programs}:{path}"
        command = ["tools/setup.sh", kind, str(self.bin.parent), *words]
        process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
        assert process.returncode == code, process.stdout + process.stderr
        calls = (self.bin / "calls").read_text().splitlines() if (self.bin / "calls").exists() else []
        return (process.stdout + process.stderr).splitlines(), [call for call in calls if not re.search("^config| uv$", call)]

    def program(self, name, text="exit 0"):
        """Add a program that comes before the machine's."""
        (self.programs / name).write_text(f"#!/bin/bash\n{text}\n")
        (self.programs / name).chmod(0o755)


@pytest.fixture
def setup(tmp_path):
    """A machine where PyTorch's CPU index offers the version that is wanted."""
    if HAS_DRIVER:
        pytest.skip("this machine has an NVIDIA driver")
    machine = Setup(tmp_path)
    (machine.bin / "offered").write_text(f"torch ({VERSION}+cpu)\nAvailable versions: {VERSION}+cpu, 2.8.0+cpu\n")
    return machine


def words_about(text, printed):
    return [line for line in printed if text in line]


def test_without_a_driver_only_torch_comes_from_the_cpu_index(setup):
    printed, (index_query, torch, rest) = setup.run("--quiet")
    assert index_query.startswith(f"index versions torch --index-url {CPU_INDEX} --timeout 5 --retries 0")
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


@pytest.mark.parametrize(
    ("pip_output", "sentence"),
    [
        ("  ERROR: No matching distribution found for x\nerror: subprocess-exited", "pip failed: ERROR: No matching distribution"),
        ("/venv/bin/python: No module named pip", "pip failed: /venv/bin/python: No module named pip; the rest is in "),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full; free 3 GB"),
        ("Temporary failure in name resolution\nERROR: No matching distribution found for x", "no answer from the package"),
    ],
)
def test_a_pip_that_fails_is_a_sentence_and_the_rest_is_in_a_file(setup, pip_output, sentence):
    """Its last error that says something, or the reason behind it."""
    (setup.bin / "failing").write_text(f"Collecting x\n{pip_output}\n")
    printed, _ = setup.run(code=1)
    assert printed[-1].startswith(f"[setup] {sentence}") and not words_about("Collecting", printed)
    assert pip_output in (setup.bin.parent / "setup.log").read_text() and not (setup.bin.parent / ".ready-run").exists()


def test_uv_installs_from_the_sources_that_pip_is_configured_for(setup):
    """By itself uv reads none of pip's settings. Settings that it has no word for are left to pip."""
    (setup.bin / "uv").touch()
    settings = "global.extra-index-url='\\nfile:///a\\nfile:///b'\n:env:.find-links='/wheels'\n:env:.timeout='180'\n"
    (setup.bin / "configuration").write_text(settings)
    _, (_, torch, rest) = setup.run()
    sources = "--extra-index-url file:///a --extra-index-url file:///b --find-links /wheels -c constraints.txt"
    assert torch.startswith("uv pip install") and torch.endswith(f"{sources} --no-deps --extra-index-url {CPU_INDEX} torch")
    assert rest.startswith("uv pip install") and rest.endswith(f"{sources} -e .[all] -e ./grader_extensions")
    (setup.bin / "configuration").write_text("global.proxy='http://proxy:3128'\n")
    assert setup.run()[1][-1].startswith("install ")


def test_what_uv_cannot_install_pip_does(setup):
    (setup.bin / "uv").write_text("fails")
    _, calls = setup.run()
    assert [call.split()[0] for call in calls] == ["index", "uv", "install", "uv", "install"]


def test_a_full_disk_is_known_before_anything_is_installed(setup):
    setup.program("df", "echo / 9 9 2000000 9% /")
    printed, calls = setup.run(code=1)
    assert printed == [f"[setup] only 2000 MB are free where {setup.bin.parent} lies; free 3 GB there, then run the same command again"]
    assert calls == []


def test_a_machine_without_compiler_and_headers_is_told_what_to_install(setup):
    """Both at once, and nothing is begun."""
    for name in ("bash", "dirname", "awk", "df", "grep", "id", "env"):
        (setup.programs / name).symlink_to(shutil.which(name))
    setup.program("apt-get")
    (setup.bin / "headless").touch()
    printed, calls = setup.run(code=1, path="/nowhere")
    assert len(printed) == 1 and calls == []
    assert re.search(r"missing: g\+\+, which builds kernels, python3.* apt-get install .* g\+\+ python3[.\d]+-dev$", printed[0])


def test_with_a_driver_pip_chooses(setup):
    setup.program("nvidia-smi")
    _, calls = setup.run()
    assert [call.split("-c constraints.txt ")[1] for call in calls] == ["-e .[all] -e ./grader_extensions"]
