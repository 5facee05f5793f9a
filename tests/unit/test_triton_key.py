"""Kernels that Triton compiles in one process are found in another, whatever programs each of them has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

KEY = "import platform; {fix}print(','.join(platform.architecture()))"
FIX = "from sandbox.protocol.box_files import fix_triton_key; fix_triton_key(); "


def architecture(place: Path, *, says: str | None, fixed: bool) -> str:
    """Return what a process takes for its architecture, with a program `file` that prints this, or without one."""
    if says is not None:
        (place / "file").write_text(f"#!/bin/sh\necho '{says}'\n")
        (place / "file").chmod(0o755)
    environment = {**os.environ, "PATH": str(place)}
    command = [sys.executable, "-c", KEY.format(fix=FIX if fixed else "")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(("fixed", "count"), [(True, 1), (False, 2)])
def test_the_architecture_does_not_depend_on_installed_programs(tmp_path: Path, fixed: bool, count: int) -> None:
    """Without `file`, with it, and with one that knows nothing. The control: why a run box did not find what its judge had compiled."""
    answers = [architecture(tmp_path, says=says, fixed=fixed) for says in (None, "ELF 64-bit LSB pie executable", "data")]
    assert len(set(answers[:2])) == count and (not fixed or set(answers) == {"64bit,ELF"})
