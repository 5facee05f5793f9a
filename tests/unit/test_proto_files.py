"""proto/ has all that a client is generated from."""

import importlib.resources
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.generate_proto import PROTO


def test_files_of_others_are_those_of_the_pinned_package():
    """With their licence in each file."""
    for path in (PROTO / "google").rglob("*.proto"):
        text = path.read_text()
        package = importlib.resources.files(f"google.{path.parent.name}")
        assert text == (package / path.name).read_text() and "Apache License, Version 2.0" in text


@pytest.mark.parametrize("whole", [True, False])
def test_buf_builds_it_in_any_place(tmp_path, whole):
    """Without our configuration or a registry. The control is without them."""
    shutil.copytree(PROTO, tmp_path / "proto")
    if not whole:
        shutil.rmtree(tmp_path / "proto/google")
    command = [Path(sys.executable).with_name("buf"), "build", ".", "-o", tmp_path / "image.binpb"]
    process = subprocess.run(command, cwd=tmp_path / "proto", capture_output=True, text=True, check=False, timeout=60)
    assert (process.returncode == 0) == whole, process.stderr
    assert whole or "google.rpc.Status" in process.stderr
