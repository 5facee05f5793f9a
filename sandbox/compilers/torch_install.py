"""Where torch lies, found without importing it."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path


def torch_directory() -> Path:
    """The package's directory."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def include_dirs() -> list[str]:
    """torch's headers and Python's."""
    root = torch_directory() / "include"
    return [str(root), str(root / "torch/csrc/api/include"), sysconfig.get_path("include")]


def version() -> str:
    """The text of torch's own account of its version, CUDA's among it."""
    return (torch_directory() / "version.py").read_text("utf-8")
