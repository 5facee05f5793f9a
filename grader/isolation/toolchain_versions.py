"""What a host builds with, as two hosts can compare it: by versions and contents, where `fingerprint.py` goes by times of change."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from grader.isolation.fingerprint import PACKAGES, SKIPPED, asked
from grader.isolation.toolchain import cuda_home, library_binds, search_path

NOT_THERE = "none"


def toolchain_versions() -> str:
    """A digest of what decides how this host builds: the machine, libc, the compilers, Python, PyTorch, our own side of a box, and where
    these lie, for an artifact may name paths. Starts two compilers; some tens of ms."""
    digest = hashlib.sha256()
    for word in (*_facts(), *_own()):
        digest.update(repr(word).encode() + b"\n")
    return digest.hexdigest()


def _facts() -> list[str]:
    torch, cuda = find_spec("torch"), cuda_home()
    return [
        platform.machine(),
        "".join(platform.libc_ver()),
        asked(compiler, "--version") if (compiler := shutil.which("g++", path=search_path())) else NOT_THERE,
        asked(str(cuda / "bin" / "nvcc"), "--version") if cuda is not None else NOT_THERE,
        str(cuda),
        sys.version,
        sys.prefix,
        *(_version(name) for name in ("torch", "triton", "numpy", "numba", *PACKAGES)),
        str(torch.origin if torch is not None else None),
    ]


def _own() -> list[tuple[str, str]]:
    """What a box sees of this project, by content."""
    found = []
    for bind in library_binds():
        files = [bind.source] if bind.source.is_file() else sorted(path for path in bind.source.rglob("*") if path.is_file())
        for path in files:
            if SKIPPED not in path.parts:
                name = f"{bind.target}/{path.relative_to(bind.source)}"
                found.append((name, hashlib.sha256(Path(path).read_bytes()).hexdigest()))
    return found


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} {NOT_THERE}"
