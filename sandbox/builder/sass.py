"""Disassembles the machine code that was kept: `nvdisasm`, with the lines of the source next to the instructions."""

from __future__ import annotations

import shutil
import subprocess

from sandbox.builder.profile_findings import ProfileFindings
from sandbox.compilers.numba_ptx import nvidia_file
from sandbox.protocol.wire import ToolOutcome

NVDISASM = "nvdisasm"
DISASSEMBLE_S = 30.0


def disassemble(found: ProfileFindings) -> None:
    """Leave NAME.sass for every NAME.cubin."""
    program = shutil.which(NVDISASM) or nvidia_file(f"bin/{NVDISASM}")
    if program is None:
        found.tool(NVDISASM, ToolOutcome.UNAVAILABLE, "it is neither on the PATH nor in Triton's package; install one of both")
        return
    cubins = [name for name in found.files if name.endswith(".cubin")]
    if not cubins:
        found.tool(NVDISASM, ToolOutcome.UNAVAILABLE, "there is no machine code to disassemble")
        return
    failed = ""
    for name in cubins:
        # -c: no section dump; -g: lines; -hex is left out, for the encoding helps nobody.
        command = [str(program), "-c", "-g", str(found.out / name)]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=DISASSEMBLE_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            failed = f"{name}: {type(error).__name__}"
            continue
        if done.returncode == 0:
            found.keep(f"{name.removesuffix('.cubin')}.sass", NVDISASM, done.stdout)
        else:
            failed = f"{name}: {done.stderr.decode('utf-8', 'replace')}"
    found.tool(NVDISASM, ToolOutcome.FAILED if failed else ToolOutcome.RAN, failed or "SASS with lines")
