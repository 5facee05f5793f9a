"""Looks at a submission's kernels without a device.  Runs in a build box as the builder does, with no more rights.

Usage: `static_profile SRC OUT`; SRC is as for the builder. CUDA sources are compiled by nvcc for a GPU, whatever device they were graded
on; a Python module is imported and its entry called once, as `profile_kernels.py` says. Leaves files and profile.json in OUT. All of it
is a claim, and decides nothing.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from grader_extensions.modes.box.numba_ptx import nvidia_file
from grader_extensions.modes.box.profile_cuda import ProfileFindings, profile_cuda
from sandbox.box_init import PR_SET_DUMPABLE
from sandbox.compilers import nvcc
from sandbox.languages import implementation
from sandbox.languages.python_build import START, module_files, spawn
from sandbox.languages.python_module import ModuleDirectory, choose_main, entries
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind
from sandbox.protocol.wire import ToolOutcome

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
