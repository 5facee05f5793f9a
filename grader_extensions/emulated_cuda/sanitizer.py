"""The emulated device's sanitizer in a run box: has a runner launched under it, and leaves what that saw in {out}.

Runs with the kernel's own rights, and the submission runs in the same box, so all of it is a claim.
Usage: `sanitizer OUT COMMAND...`; COMMAND starts the runner with `--instrument grader_extensions.emulated_cuda.sanitizer`.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from grader_extensions.emulated_cuda.sanitizer_log import read_counts, read_log
from sandbox.devices import Arena
from sandbox.launch.loop import Bound, Loaded, RunnerSetup
from sandbox.protocol import wire
from sandbox.protocol.box_files import EMULATED_SANITIZER, PROFILE_NOTE, leave
from sandbox.protocol.gate import Call
from sandbox.protocol.wire import ToolOutcome

THREADS = "GRADER_EMULATED_THREADS"
PLACE = "GRADER_SANITIZER_PLACE"  # the directory that `main` has made
LOG, LIBRARY = "log", "library.so"


def main() -> int:
    """Run it; a note is left whatever happens, also where the kernel has crashed the runner."""
    out_dir, command = Path(sys.argv[1]), sys.argv[2:]
    findings: tuple[wire.SanitizerFinding, ...] = ()
    counts: wire.AccessCounts | None = None
    with tempfile.TemporaryDirectory(prefix="sanitizer-", ignore_cleanup_errors=True) as place:
        log, library = Path(place) / LOG, Path(place) / LIBRARY
        subprocess.run(command, check=False, env={**os.environ, PLACE: place, "GRADER_SANITIZER_LOG": str(log), THREADS: "1"})
        try:
            findings, counts = tuple(read_log(log, library)), read_counts(log, library)
            outcome, detail = ToolOutcome.RAN, _sentence(findings)
        except Exception as error:  # noqa: BLE001  the kernel may have removed or spoiled what it needs
            outcome, detail = ToolOutcome.FAILED, f"{type(error).__name__}: {error}"
    tool = wire.ProfileTool(name=EMULATED_SANITIZER, outcome=outcome, detail=detail)
    profile = wire.KernelProfile(tools=(tool,), findings=findings, access_counts=counts)
    leave(out_dir, PROFILE_NOTE, wire.encode(wire.ProfileNote(profile=profile)))
    return 0


def _sentence(findings: tuple[wire.SanitizerFinding, ...]) -> str:
    counts = {name: sum(finding.severity is name for finding in findings) for name in wire.SanitizerSeverity}
    words = [
        f"{count} {name.value}{'' if count == 1 or name is wire.SanitizerSeverity.INFO else 's'}" for name, count in counts.items() if count
    ]
    return f"found {', '.join(words)}" if words else "found nothing"


def instrument(setup: RunnerSetup, out_dir: Path | None) -> tuple[Loaded, None]:
    """Copy the artifact to where addresses of the log are looked up, once this process has gone; load it, and name its memory.

    out_dir: nothing is left there."""
    if place := os.environ.get(PLACE):
        (Path(place) / LIBRARY).write_bytes(Path(f"/proc/self/fd/{setup.artifact_fd}").read_bytes())
    return with_named_memory(setup.load(), setup.job, setup.arena), None


def with_named_memory(kernel: Loaded, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """Tell the sanitizer, before each launch, where each argument begins and ends."""

    def bind(call: Call) -> Bound:
        bound = kernel.bind(call)
        named = [
            *zip(call.inputs, job.inputs, [1] * len(job.inputs), strict=True),
            *zip(call.outputs, job.outputs, [0] * len(job.outputs), strict=True),
        ]
        for library in (library for library in kernel.libraries() if hasattr(library, "emu_sanitizer_region")):
            for slot, tensor, initialised in named:
                if slot.shape:
                    import torch  # preloaded in such a box

                    size_bytes = slot.element_count * int(getattr(torch, tensor.dtype).itemsize)
                    library.emu_sanitizer_region(
                        ctypes.c_void_p(arena.address(slot.offset)), ctypes.c_size_t(size_bytes), tensor.name.encode(), 1, initialised
                    )
        return bound

    return replace(kernel, bind=bind)


if __name__ == "__main__":
    raise SystemExit(main())
