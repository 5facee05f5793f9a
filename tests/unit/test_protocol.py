"""The version that judge and runner have to share."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.protocol import version

SANDBOX = Path(version.__file__).parents[1]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Another copy of the package."""
    for part in version.PARTS:
        (tmp_path / part).parent.mkdir(exist_ok=True)
        shutil.copy(SANDBOX / part, tmp_path / part)
    return tmp_path


def test_the_same_files_speak_the_same_version(copy: Path) -> None:
    assert version.version_of(copy) == version.VERSION
    printed = subprocess.run(
        [sys.executable, "-m", "sandbox.protocol.version"], capture_output=True, text=True, check=True, cwd=SANDBOX.parent
    )
    assert printed.stdout == version.VERSION + "\n"


@pytest.mark.parametrize("part", version.PARTS)
def test_a_change_of_any_part_is_another_version(copy: Path, part: str) -> None:
    """A message, a field of the gate or of the arena, or what the runner does first."""
    (copy / part).write_text((copy / part).read_text() + "\n")
    assert version.version_of(copy) != version.VERSION
