"""Random kernels give the same results as loops over the threads of a block, and thread by thread."""

import os
import subprocess
from pathlib import Path

import pytest

from sandbox.compilers import emulation
from tests.conformance.conftest import compile_emulated
from tests.fuzz.random_kernels import BLOCKS, program

KERNELS, LEAST = 12, 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_results_are_the_same(seed: int, tmp_path: Path) -> None:
    """Most kernels have a second body, and none fails to compile: then all would be run thread by thread."""
    source = tmp_path / "kernel.cu"
    source.write_text(program(seed, KERNELS))
    assert emulation.translate(source.read_text(), source.name).count(emulation.SECOND_BODY) >= LEAST
    done = compile_emulated(source, tmp_path)
    assert done.returncode == 0, done.stderr[:2000]
    printed = [
        subprocess.run(
            [str(tmp_path / "program")],
            env={**os.environ, "GRADER_EMULATED_BLOCK_LOOPS": setting},
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout
        for setting in "10"
    ]
    assert printed[0] == printed[1]
    assert len(printed[0].splitlines()) == KERNELS * len(BLOCKS) and "failed" not in printed[0]
    assert len({line.split()[-1] for line in printed[0].splitlines()}) > KERNELS  # they compute something
