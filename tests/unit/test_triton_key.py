"""Kernels that Triton compiles in one process are found in another, whatever programs each of them has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KEY = "import platform; {fix}print(','.join(platform.architecture()))"
FIX = "from sandbox.protocol.triton_key import fix_triton_key; fix_triton_key(); "


def architecture(place: Path, *, says: str | None, fixed: bool) -> str:
    """Return what a process takes for its architecture, with a program `file` that prints this, or without one."""
    if says is not None:
        (place / "file").write_text(f"#!/bin/sh\necho '{says}'\n")
        (place / "file").chmod(0o755)
    environment = {**os.environ, "PATH": str(place)}
    command = [sys.executable, "-c", KEY.format(fix=FIX if fixed else "")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("says", [None, "ELF 64-bit LSB pie executable", "data"])
def test_the_architecture_does_not_depend_on_installed_programs(tmp_path: Path, says: str | None) -> None:
    """With `file`, without it, and with one that knows nothing."""
    assert architecture(tmp_path, says=says, fixed=True) == "64bit,ELF"


def test_without_the_fix_it_does(tmp_path: Path) -> None:
    """The control: why a run box did not find what its judge had compiled."""
    alone = architecture(tmp_path, says=None, fixed=False)
    assert alone != architecture(tmp_path, says="ELF 64-bit LSB pie executable", fixed=False)
