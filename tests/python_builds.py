"""Builds submissions in this process as the builder does in its box, for tests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sandbox.builder import build
from sandbox.languages import implementation
from sandbox.protocol import wire
from tests.harness.build_jobs import write_job

PLAIN = "import torch\n\ndef solution(a, b):\n    return a + b\n"
INLINE = '''import torch
from torch.utils.cpp_extension import load_inline

CUDA = """
__global__ void add(const float* a, const float* b, float* c, long n) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i]BODY;
}
torch::Tensor add_all(torch::Tensor a, torch::Tensor b) {
    auto c = torch::empty_like(a);
    add<<<(a.numel() + 255) / 256, 256>>>(a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), a.numel());
    return c;
}
"""
DECLARED = "torch::Tensor add_all(torch::Tensor a, torch::Tensor b);"
module = load_inline("adds", DECLARED, CUDA, functions=["add_all"])

def solution(a, b):
    return module.add_all(a, b)
'''
GOOD_INLINE = INLINE.replace("BODY", "")
KERNEL_LINE = 7  # of INLINE, where BODY stands


class ModuleBuild:
    """The files and log of a build."""

    def __init__(self, code: int, out: Path, log: str) -> None:
        self.code, self.log, self.out = code, log, out
        path = out / "artifact"
        self.artifact = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        self.note = wire.decode((out / "note.json").read_bytes()) if (out / "note.json").exists() else None

    @property
    def names(self) -> list[str]:
        """The files in the artifact."""
        assert self.artifact is not None, self.log
        with tarfile.open(fileobj=io.BytesIO(self.artifact)) as archive:
            return archive.getnames()


def build_here(
    place: Path, capfd: pytest.CaptureFixture[str], files: Mapping[str, str], find: Callable[..., Any] = implementation, **fields: Any
) -> ModuleBuild:
    """Build in this process, below a directory. find: the language's implementation. fields: what `write_job` takes."""
    write_job(place / "src", files, **fields)
    (place / "out").mkdir()
    capfd.readouterr()
    code = build.build(place / "src", place / "out", find)
    return ModuleBuild(code, place / "out", capfd.readouterr().out)


class Builder:
    """Builds a module; OUT in its text is the directory of the artifact."""

    def __init__(self, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._place, self._capfd, self._count = place, capfd, 0

    def __call__(self, text: str, path: str = "mine/kernel.py", files: Mapping[str, str] | None = None, **fields: Any) -> ModuleBuild:
        """files: further files of the submission, by path, named after the first; fields: of the job, or the problem's modules."""
        self._count += 1
        place = self._place / str(self._count)
        texts = {name: content.replace("OUT", repr(str(place / "out"))) for name, content in {path: text, **(files or {})}.items()}
        return build_here(place, self._capfd, texts, language="python", **fields)
