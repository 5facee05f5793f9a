"""A source with thousands of errors is rejected after the first few, by every compiler: what g++ needs for each grows with their number."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox.builder import build
from sandbox.compilers import host_compiler, steps
from sandbox.languages import implementation
from sandbox.protocol import wire

COUNT = 2000
NEEDS_NVCC = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
NVCC = pytest.param("cuda", False, marks=[pytest.mark.slow, NEEDS_NVCC])
MISSING_NAMES = "".join(f"int f{number}() {{ return missing_{number}(absent_{number}); }}\n" for number in range(COUNT))
# nvcc's own passes take this; only its host compiler refuses it.
HOST_ONLY = "".join(f'__attribute__((target("missing{number}"))) void f{number}() {{}}\n' for number in range(COUNT))
TORCH = f"#include <torch/extension.h>\n{MISSING_NAMES}"


@pytest.mark.parametrize(
    ("language", "path", "text"),
    [
        ("cuda", "kernel.cu", MISSING_NAMES),
        ("cuda", "kernel.cu", HOST_ONLY),
        ("cuda", "kernel.cpp", MISSING_NAMES),
        pytest.param("torch_extension", "kernel.cu", TORCH, marks=pytest.mark.slow),
    ],
    ids=["names", "host only", "c++", "torch"],
)
@pytest.mark.parametrize(("device_kind", "sanitize"), [("emulated", False), ("emulated", True), NVCC], ids=["g++", "sanitizer", "nvcc"])
def test_a_few_errors_of_thousands_are_listed(tmp_path, device_kind, sanitize, language, path, text):
    """nvcc's own passes end at their hundredth error."""
    (tmp_path / "files").mkdir()
    (tmp_path / "place").mkdir()
    (tmp_path / "files" / path).write_text(text, "utf-8")
    job = wire.BuildJob(language=language, entry="solve", device_kind=device_kind, sources=(path,), sanitize=sanitize)
    built, _ = build.compile_sources(job, implementation(language), tmp_path / "files", tmp_path / "place", tmp_path)
    assert built.code == build.REJECTED
    assert 0 < built.log.count("error: ") <= 100, built.log[-300:]


def test_without_the_limit_every_error_is_listed(tmp_path):
    """The control: the same step without the flag."""
    (tmp_path / "0").mkdir()
    (tmp_path / "kernel.cpp").write_text(MISSING_NAMES, "utf-8")
    step = host_compiler.compile_step(Path("kernel.cpp"), "kernel.cpp", 0, [], tmp_path, tmp_path)
    unlimited = replace(step, command=tuple(word for word in step.command if word != host_compiler.ERROR_LIMIT))
    assert steps.run([step], tmp_path).log.count("error: ") == 20
    assert steps.run([unlimited], tmp_path).log.count("error: ") >= COUNT
