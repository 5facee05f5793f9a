"""Collects what the tools of profile mode find, and compiles the CUDA sources of a submission by nvcc, whatever device it was graded on.

Findings are files in the box's {out} and one note that names them: PTX, machine code and what ptxas says.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sandbox.builder.build import new_directory
from sandbox.compilers import nvcc, ptxas, steps
from sandbox.compilers.headers import Headers
from sandbox.protocol import wire
from sandbox.protocol.box_files import FILE_LIMIT_BYTES, PROFILE_NOTE, leave
from sandbox.protocol.wire import ToolOutcome

FILE_COUNT_LIMIT = 56
DETAIL_LIMIT_CHARS = 400
_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
NVCC, PTXAS = "nvcc", "ptxas"
ATTEMPT_S = 120.0
SUFFIXES = (".ptx", ".cubin", ".sass")


@dataclass(slots=True)
class ProfileFindings:
    """Findings so far. out: the box's {out}."""

    out: Path
    architecture: str = ""
    tools: list[wire.ProfileTool] = field(default_factory=list)
    kernels: list[wire.KernelUse] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def tool(self, name: str, outcome: ToolOutcome, detail: str = "") -> None:
        """Say what became of a tool."""
        self.tools.append(wire.ProfileTool(name=name, outcome=outcome, detail=" ".join(detail.split())[:DETAIL_LIMIT_CHARS]))

    def keep(self, name: str, tool: str, content: bytes) -> None:
        """Leave a file; what is too large, or one too many, is named in a remark."""
        if len(content) > FILE_LIMIT_BYTES or len(self.files) >= FILE_COUNT_LIMIT:
            self.left_out.append(name)
            return
        leave(self.out, name, content)
        self.files[name] = tool

    def free_name(self, stem: str, suffixes: Iterable[str]) -> str:
        """A plain stem of file names that no file has yet with one of these suffixes."""
        plain = _PLAIN.sub("_", stem).strip("._-")[:60] or "kernel"
        names = (plain, *(f"{plain}-{number}" for number in range(2, FILE_COUNT_LIMIT + 2)))
        return next(name for name in names if not any(f"{name}{suffix}" in self.files for suffix in suffixes))

    def note(self) -> wire.ProfileNote:
        """All of it."""
        count = len(self.left_out)
        left_out = (f"{count} files were left out, for being too large or too many: {', '.join(self.left_out[:8])}",) if count else ()
        profile = wire.KernelProfile(
            tools=tuple(self.tools), architecture=self.architecture, kernels=tuple(self.kernels), remarks=(*self.remarks, *left_out)
        )
        return wire.ProfileNote(profile=profile, files=dict(self.files))

    def write(self) -> None:
        """Leave the note."""
        leave(self.out, PROFILE_NOTE, wire.encode(self.note()))


def profile_cuda(
    job: wire.BuildJob, language: Any, files: Path, place: Path, findings: ProfileFindings, *, flags: Sequence[str] = ()
) -> None:
    """job: for the device `cuda`, with an architecture. files: the submitted ones; place: an empty directory; flags: for nvcc."""
    if shutil.which("nvcc") is None:
        for name in (NVCC, PTXAS, "nvdisasm"):
            findings.tool(name, ToolOutcome.UNAVAILABLE, "it needs nvcc, which is not on the PATH here; install the CUDA toolkit")
        return
    sources = {path: (files / path).read_text("utf-8") for path in job.sources}
    if not any(path.endswith(".cu") for path in sources):
        findings.tool(NVCC, ToolOutcome.UNAVAILABLE, "no file ends in .cu")
        return
    compiler = nvcc.prepare(job, sources, files, place, flags)
    if isinstance(compiler, nvcc.Plain):
        findings.tool(NVCC, ToolOutcome.UNAVAILABLE, "this version of nvcc does not say what it runs, so its PTX can't be kept")
        return
    # A directory with the header that PyTorch's builds without CUDA leave out: what is compiled with it is never linked.
    stubs = place / "stubs"
    header = stubs / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    header.parent.mkdir(parents=True)
    header.write_text("#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n", "utf-8")
    result, attempt = steps.StepsResult(succeeded=False, log=""), place
    for number, headers in enumerate(language.headers(job, sources, new_directory(place / "headers"))):
        if isinstance(headers, Headers):
            headers = replace(headers, include_dirs=(*headers.include_dirs, str(stubs)))
            attempt = new_directory(place / f"attempt-{number}")
            paths = enumerate(path for path in sources if path.endswith(".cu"))
            plan = [step for index, path in paths for step in compiler.compile(path, index, headers, attempt)]
            result = steps.run(plan, attempt, timeout_s=ATTEMPT_S)
            if result.succeeded:
                break
    texts = {path: path.read_text("utf-8", "replace") for path in sorted(attempt.rglob("*.ptx"))}
    if not result.succeeded or not texts:
        findings.tool(NVCC, ToolOutcome.FAILED, f"it does not compile for {findings.architecture}; nvcc.log has the reason")
        findings.keep("nvcc.log", NVCC, result.log.encode("utf-8", "replace"))
        return
    for path, text in texts.items():
        name = findings.free_name(path.stem, SUFFIXES)
        findings.keep(f"{name}.ptx", NVCC, text.encode())
        for cubin in sorted(path.parent.glob(f"{path.stem}*.cubin"))[:1]:
            findings.keep(f"{name}.cubin", PTXAS, cubin.read_bytes())
    findings.tool(NVCC, ToolOutcome.RAN, f"PTX for {findings.architecture}, with lines")
    uses = ptxas.kernels(result.log, list(texts.values()))
    findings.kernels += uses
    table = findings.free_name("ptxas", (".txt",))
    findings.keep(f"{table}.txt", PTXAS, f"{resource_table(uses)}\n{result.log}".encode("utf-8", "replace"))
    findings.tool(PTXAS, ToolOutcome.RAN, "registers, shared memory, stack and spills of each kernel")


def resource_table(kernels: Sequence[wire.KernelUse]) -> str:
    """Return a table with a line for each kernel."""
    head = f"{'registers':>9} {'shared':>8} {'stack':>8} {'spill stores':>12} {'spill loads':>11} {'float64':>8}  kernel\n"
    return head + "".join(
        f"{kernel.registers:>9} {kernel.shared_bytes:>8} {kernel.stack_bytes:>8} {kernel.spill_store_bytes:>12} "
        f"{kernel.spill_load_bytes:>11} {kernel.double_instruction_count:>8}  {kernel.name}\n"
        for kernel in kernels
    )
