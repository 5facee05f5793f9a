"""A host grades a kernel of its own, in real boxes, before it takes submissions."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from grader.config import Settings
from grader.server.wiring import local

PROGRAM = """
import asyncio, sys
from pathlib import Path
from grader.config import Settings
from grader.server.wiring import local
async def proved():
    async with local(Settings(state_dir=Path(sys.argv[1]), sandbox=sys.argv[2], device="emulated",
    resident_toolchain=False)) as grading:
        print("FAULT", await grading.proved(), grading.capacity())
asyncio.run(proved())
"""


async def test_a_host_that_has_graded_a_kernel_of_its_own_takes_submissions(isolation_name, place):
    """Before that it takes none, whatever waits."""
    settings = Settings(state_dir=place / "state", sandbox=isolation_name, device="emulated", resident_toolchain=False)
    async with local(settings) as grading:
        assert (grading.capacity(), grading.ready_kinds()) == (0, ()) and "has not graded" in grading.fault()
        assert await grading.proved() == grading.fault() == ""
        assert grading.capacity() > 0 and grading.ready_kinds() == ("emulated",)


@pytest.mark.slow
def test_a_server_whose_boxes_lack_a_package_takes_nothing_and_says_which(isolation_name, place):
    """Its own process has the packages by PYTHONPATH, which boxes do not have: each submission would fail three times."""
    if isolation_name == "process":
        pytest.skip("its boxes share the server's packages")
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), sysconfig.get_path("purelib")))}
    python = Path(sys.executable).resolve()  # without the virtual environment
    command = [python, "-c", PROGRAM, place / "state", isolation_name]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=300)
    fault = next(line for line in result.stdout.splitlines() if line.startswith("FAULT"))
    assert "No module named 'tree_sitter" in fault and fault.endswith(" 0")
