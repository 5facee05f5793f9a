"""Builds Python submissions in this process as the builder does in its box, for tests."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from sandbox.builder import build
from sandbox.protocol import wire

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


class Made:
    """What a build left and said."""

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


class Builder:
    """Builds a module; OUT in its text is the directory of the artifact."""

    def __init__(self, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._place, self._capfd, self._count = place, capfd, 0

    def __call__(
        self,
        text: str,
        path: str = "mine/kernel.py",
        device_kind: str = "emulated",
        entry: str = "solve",
        call: wire.EntryCall | None = None,
        others: Mapping[str, str] | None = None,
        modules: Mapping[str, str] | None = None,
    ) -> Made:
        """others: further files of the submission, by path, named after the first; modules: the problem's files."""
        self._count += 1
        place = self._place / str(self._count)
        (place / "out").mkdir(parents=True)
        sources, given = {path: text, **(others or {})}, modules or {}
        for part, files in (("files", sources), ("modules", given)):
            for name, content in files.items():
                (place / "src" / part / name).parent.mkdir(parents=True, exist_ok=True)
                (place / "src" / part / name).write_text(content.replace("OUT", repr(str(place / "out"))))
        job = wire.BuildJob(
            language="python", entry=entry, device_kind=device_kind, sources=tuple(sources), modules=tuple(given), call=call
        )
        (place / "src/job.json").write_bytes(wire.encode(job))
        self._capfd.readouterr()
        code = build.build(place / "src", place / "out")
        return Made(code, place / "out", self._capfd.readouterr().out)
