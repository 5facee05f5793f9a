"""Has a runner launched with the emulated device's sanitizer, and leaves what that saw in {out}.

Runs in a run box, with the kernel's own rights. The submission runs in the same box, so all of it is a claim.
Usage: `emulated_sanitizer OUT COMMAND...`; COMMAND starts the runner with `--sanitize`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sandbox.launch.sanitizer_log import read_counts, read_log
from sandbox.protocol import wire
from sandbox.protocol.box_files import EMULATED_SANITIZER, PROFILE_NOTE, leave
from sandbox.protocol.wire import ToolOutcome
from sandbox.runner.sanitized import LIBRARY, LOG, PLACE

THREADS = "GRADER_EMULATED_THREADS"


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
    counts = {name: sum(one.severity is name for one in findings) for name in wire.SanitizerSeverity}
    words = [
        f"{count} {name.value}{'' if count == 1 or name is wire.SanitizerSeverity.INFO else 's'}" for name, count in counts.items() if count
    ]
    return f"found {', '.join(words)}" if words else "found nothing"


if __name__ == "__main__":
    raise SystemExit(main())
