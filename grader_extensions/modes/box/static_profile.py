"""Looks at a submission's kernels without a device.  Runs in a build box as the builder does, with no more rights.

Usage: `static_profile SRC OUT`; SRC is as for the builder. CUDA sources are compiled by nvcc for a GPU, whatever device they were graded
on; a Python module is imported and its entry called once, as `profile_kernels.py` says. Leaves files (PTX, machine code, what ptxas says)
and profile.json, which names them, in OUT. All of it is a claim, and decides nothing.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grader_extensions.modes.box.numba_ptx import nvidia_file
from sandbox.builder.build import new_directory
from sandbox.compilers import nvcc, ptxas, requested_flags, steps
from sandbox.compilers.headers import Headers
from sandbox.compilers.requested_flags import RequestedFlags
from sandbox.fork_init import PR_SET_DUMPABLE
from sandbox.languages import implementation
from sandbox.languages.python_build import START, module_files, spawn
from sandbox.languages.python_module import ModuleDirectory, choose_main, entries
from sandbox.protocol import wire
from sandbox.protocol.box_files import FILE_LIMIT_BYTES, PROFILE_NOTE, leave
from sandbox.protocol.devices import DeviceKind
from sandbox.protocol.languages import CUDA_SUFFIXES
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
    job: wire.BuildJob, language: Any, files: Path, place: Path, findings: ProfileFindings, flags: RequestedFlags | None = None
) -> None:
    """job: for the device `cuda`, with an architecture. files: the submitted ones; place: an empty directory; flags: None: those of the
    sources' directives."""
    if shutil.which("nvcc") is None:
        for name in (NVCC, PTXAS, "nvdisasm"):
            findings.tool(name, ToolOutcome.UNAVAILABLE, "it needs nvcc, which is not on the PATH here; install the CUDA toolkit")
        return
    sources = {path: (files / path).read_text("utf-8") for path in job.sources}
    if not any(path.endswith(CUDA_SUFFIXES) for path in sources):
        findings.tool(NVCC, ToolOutcome.UNAVAILABLE, "no file ends in .cu")
        return
    flags = flags or requested_flags.directed(sources.values(), emulated=False)
    ways = [way for way in language.headers(job, sources, new_directory(place / "headers")) if isinstance(way, Headers)]
    ways = [flags.headers(way) for way in ways]
    compiler = nvcc.prepare(job, sources, files, place, (f"-std=c++{ways[0].standard}", *flags.device))
    if isinstance(compiler, nvcc.Plain):
        findings.tool(NVCC, ToolOutcome.UNAVAILABLE, "this version of nvcc does not say what it runs, so its PTX can't be kept")
        return
    # A directory with the header that PyTorch's builds without CUDA leave out: what is compiled with it is never linked.
    stubs = place / "stubs"
    header = stubs / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    header.parent.mkdir(parents=True)
    header.write_text("#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n", "utf-8")
    result, attempt = steps.StepsResult(succeeded=False, log=""), place
    for number, way in enumerate(ways):
        headers = replace(way, include_dirs=(*way.include_dirs, str(stubs)))
        attempt = new_directory(place / f"attempt-{number}")
        paths = enumerate(path for path in sources if path.endswith(CUDA_SUFFIXES))
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


NVDISASM = "nvdisasm"
DISASSEMBLE_S = 30.0
KERNEL_COMPILER = "grader_extensions.modes.box.profile_kernels"
KERNELS_S = 140.0
CUDA_LANGUAGES = ("cuda", "torch_extension")


def disassemble(findings: ProfileFindings) -> None:
    """Leave NAME.sass for every NAME.cubin."""
    program = shutil.which(NVDISASM) or nvidia_file(f"bin/{NVDISASM}")
    if program is None:
        findings.tool(NVDISASM, ToolOutcome.UNAVAILABLE, "it is neither on the PATH nor in Triton's package; install one of both")
        return
    failed = ""
    for name in [name for name in findings.files if name.endswith(".cubin")]:
        # -c: no section dump; -g: lines; -hex is left out, for the encoding helps nobody.
        command = [str(program), "-c", "-g", str(findings.out / name)]
        try:
            process = subprocess.run(command, capture_output=True, check=False, timeout=DISASSEMBLE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            failed = f"{name}: {type(error).__name__}"
            continue
        if process.returncode == 0:
            findings.keep(f"{name.removesuffix('.cubin')}.sass", NVDISASM, process.stdout)
        else:
            failed = f"{name}: {process.stderr.decode('utf-8', 'replace')}"
    findings.tool(NVDISASM, ToolOutcome.FAILED if failed else ToolOutcome.RAN, failed or "SASS with lines")


def main() -> int:
    """Look at it; a note is left whatever happens."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # a submission has our uid: it may not write to /proc/PID/mem
    profile(Path(sys.argv[1]), Path(sys.argv[2]))
    return 0


def profile(source_dir: Path, out_dir: Path) -> None:
    """Leave files and the note in out_dir."""
    job = wire.decode((source_dir / "job.json").read_bytes())
    assert isinstance(job, wire.BuildJob)
    job = replace(job, device_kind=DeviceKind.CUDA, architecture=nvcc.target(job.architecture or nvcc.ARCHITECTURE))
    findings = ProfileFindings(out=out_dir, architecture=job.architecture)
    with tempfile.TemporaryDirectory(prefix="profile-", ignore_cleanup_errors=True) as directory:
        if job.language in CUDA_LANGUAGES:
            profile_cuda(job, implementation(job.language, job.language_module), source_dir / "files", Path(directory), findings)
        elif job.language == "python":
            findings = _profile_python(job, source_dir, Path(directory), findings)
        else:
            findings.architecture = ""
            findings.tool("compilers", ToolOutcome.UNAVAILABLE, f"the language {job.language!r} is not one whose kernels are known here")
    if any(name.endswith(".cubin") for name in findings.files):
        disassemble(findings)
    findings.write()


def _profile_python(job: wire.BuildJob, source_dir: Path, place: Path, findings: ProfileFindings) -> ProfileFindings:
    """Have the module's kernels compiled in a process of its own, for it runs the submission, and disassemble what that left."""
    module = ModuleDirectory(directory=place / "module")
    sources, modules = module_files(job, source_dir / "files")
    module.place_files(sources, modules)
    texts = {path: content.decode("utf-8", "replace") for path, content in sources.items()}
    main_path = choose_main(job.sources, texts, entries(job.entry))
    (place / "job.json").write_bytes(wire.encode(job))
    report = place / "found.json"
    command = [sys.executable, "-I", "-c", START, str(Path(__file__).parents[3]), KERNEL_COMPILER, str(place), str(findings.out), main_path]
    work, environment = module.place_work(module.sources / main_path), {**os.environ, **module.environment(DeviceKind.CUDA)}
    process = spawn([*command, str(report)], work, environment)
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(KERNELS_S)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    try:
        note = wire.decode(report.read_bytes())
    except (OSError, wire.WireError):
        note = None
    if not isinstance(note, wire.ProfileNote):
        why = "the module did not end when it was called" if process.returncode == -signal.SIGKILL else "the module ended its process"
        findings.tool("kernels", ToolOutcome.FAILED, f"{why}, in a box without a GPU")
        return findings
    findings.tools, findings.kernels, findings.remarks = list(note.profile.tools), list(note.profile.kernels), list(note.profile.remarks)
    findings.files = dict(note.files)
    return findings


if __name__ == "__main__":
    raise SystemExit(main())
