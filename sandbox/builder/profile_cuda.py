"""Compiles the CUDA sources of a submission by nvcc, whatever device it was graded on, and keeps PTX, machine code and what ptxas says."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandbox.builder.profile_findings import ProfileFindings
from sandbox.compilers import float64, nvcc, ptxas, steps
from sandbox.compilers.headers import Headers
from sandbox.protocol import wire
from sandbox.protocol.wire import ToolOutcome

NVCC, PTXAS = "nvcc", "ptxas"
ATTEMPT_S = 120.0
SUFFIXES = (".ptx", ".cubin", ".sass")


def profile_cuda(job: wire.BuildJob, language: Any, files: Path, place: Path, found: ProfileFindings, *, flags: Sequence[str] = ()) -> None:
    """job: for the device `cuda`, with an architecture. files: the submitted ones; place: an empty directory; flags: for nvcc."""
    if shutil.which("nvcc") is None:
        for name in (NVCC, PTXAS, "nvdisasm"):
            found.tool(name, ToolOutcome.UNAVAILABLE, "it needs nvcc, which is not on the PATH here; install the CUDA toolkit")
        return
    sources = {path: (files / path).read_text("utf-8") for path in job.sources}
    if not any(path.endswith(".cu") for path in sources):
        found.tool(NVCC, ToolOutcome.UNAVAILABLE, "no file ends in .cu")
        return
    compiler = nvcc.prepare(job, sources, files, place, flags)
    if isinstance(compiler, nvcc.Plain):
        found.tool(NVCC, ToolOutcome.UNAVAILABLE, "this version of nvcc does not say what it runs, so its PTX can't be kept")
        return
    stubs = _torch_stubs(place / "stubs")
    ran, attempt = steps.Ran(succeeded=False, log=""), place
    for number, headers in enumerate(language.headers(job, sources, _made(place / "headers"))):
        if isinstance(headers, Headers):
            headers = replace(headers, include_dirs=(*headers.include_dirs, str(stubs)))
            attempt = _made(place / f"attempt-{number}")
            ran = steps.run(_plan(compiler, list(sources), headers, attempt), attempt, timeout_s=ATTEMPT_S)
            if ran.succeeded:
                break
    texts = {path: path.read_text("utf-8", "replace") for path in sorted(attempt.rglob("*.ptx"))}
    if not ran.succeeded or not texts:
        found.tool(NVCC, ToolOutcome.FAILED, f"it does not compile for {found.architecture}; nvcc.log has the reason")
        found.keep("nvcc.log", NVCC, ran.log.encode("utf-8", "replace"))
        return
    for path, text in texts.items():
        name = found.free_name(path.stem, SUFFIXES)
        found.keep(f"{name}.ptx", NVCC, text.encode())
        for cubin in sorted(path.parent.glob(f"{path.stem}*.cubin"))[:1]:
            found.keep(f"{name}.cubin", PTXAS, cubin.read_bytes())
    found.tool(NVCC, ToolOutcome.RAN, f"PTX for {found.architecture}, with lines")
    uses = ptxas.kernels(ran.log, list(texts.values()))
    found.kernels += uses
    found.remarks += float64.remarks(list(texts.values()), sources, ptxas.demangled)
    table = found.free_name("ptxas", (".txt",))
    found.keep(f"{table}.txt", PTXAS, f"{resource_table(uses)}\n{ran.log}".encode("utf-8", "replace"))
    found.tool(PTXAS, ToolOutcome.RAN, "registers, shared memory, stack and spills of each kernel")


def resource_table(kernels: Sequence[wire.KernelUse]) -> str:
    """One line for each kernel."""
    head = f"{'registers':>9} {'shared':>8} {'stack':>8} {'spill stores':>12} {'spill loads':>11} {'float64':>8}  kernel\n"
    return head + "".join(
        f"{one.registers:>9} {one.shared_bytes:>8} {one.stack_bytes:>8} {one.spill_store_bytes:>12} {one.spill_load_bytes:>11} "
        f"{one.double_instruction_count:>8}  {one.name}\n"
        for one in kernels
    )


def _plan(compiler: steps.Compiler, sources: list[str], headers: Headers, place: Path) -> list[steps.CompilerStep]:
    wanted = [path for path in sources if path.endswith(".cu")]
    return [step for number, path in enumerate(wanted) for step in compiler.compile(path, number, headers, place)]


def _torch_stubs(directory: Path) -> Path:
    """A directory with the header that PyTorch's builds without CUDA leave out: what is compiled with it is never linked."""
    header = directory / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    header.parent.mkdir(parents=True)
    header.write_text("#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n", "utf-8")
    return directory


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
