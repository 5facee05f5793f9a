"""Has a runner launched by one of NVIDIA's command-line tools, and leaves what the tool reports in {out}.

Runs in a run box, with the kernel's own rights. The submission runs in the same box, so all of it is a claim.
Usage: `nvidia_tools TOOL OUT COMMAND...`; COMMAND starts the runner, which ncu has load the kernel by `instrument`.
"""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandbox.devices import Device
from sandbox.launch.loop import Loaded, Profile, RunnerSetup
from sandbox.protocol import box_files, wire
from sandbox.protocol.box_files import NSIGHT, leave, read_left
from sandbox.protocol.wire import ToolOutcome

IMPORT_S = 60.0
TAIL_BYTES = 4096
KERNEL_COUNT = 4  # kernels in a sentence
LAUNCH_COUNT = 20  # that ncu replays
COUNTERS_CLOSED = "ERR_NVGPUCTRPERM"
# As the CSV of ncu's details page calls them.
FIGURES = (("Achieved Occupancy", "achieved occupancy"), ("Compute (SM) Throughput", "compute"), ("Memory Throughput", "memory"))

Found = tuple[ToolOutcome, str, tuple[str, ...]]  # the outcome, a sentence, the files


@dataclass(frozen=True, slots=True, kw_only=True)
class NvidiaTool:
    """A tool. options: before the runner's command, with {out} for the directory. report(program, out, printed): what it found."""

    program: str
    options: tuple[str, ...]
    report: Callable[[str, Path, str], Found]


def main() -> int:
    """Run it; a note is left whatever happens."""
    name, out_dir, command = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    try:
        outcome, detail, files = _run(TOOLS[name], out_dir, command)
    except Exception as error:  # noqa: BLE001  the kernel may have removed or locked what the tool needs
        outcome, detail, files = ToolOutcome.FAILED, f"{type(error).__name__}: {error}", ()
    profile = wire.KernelProfile(tools=(wire.ProfileTool(name=name, outcome=outcome, detail=detail[:TAIL_BYTES]),))
    leave(out_dir, box_files.PROFILE_NOTE, wire.encode(wire.ProfileNote(profile=profile, files=dict.fromkeys(files, name))))
    return 0


def _run(tool: NvidiaTool, out_dir: Path, command: Sequence[str]) -> Found:
    program = find(tool.program)
    if program is None:
        return ToolOutcome.UNAVAILABLE, f"{tool.program} is not installed; it comes with the CUDA toolkit", ()
    options = [word.replace("{out}", str(out_dir)) for word in tool.options]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen([program, *options, *command], stdin=nothing, stdout=pipe, stderr=subprocess.STDOUT) as running:
        assert running.stdout is not None
        tail = b""
        while chunk := os.read(running.stdout.fileno(), 65536):
            with suppress(OSError):
                os.write(sys.stdout.fileno(), chunk)  # what the kernel prints goes where it goes without a tool
            tail = (tail + chunk)[-TAIL_BYTES:]
    return tool.report(program, out_dir, tail.decode("utf-8", "replace"))


def instrument(setup: RunnerSetup, out_dir: Path | None) -> tuple[Loaded, Profile]:
    """Load a kernel, to be launched between the driver's start and stop of profilers, so that ncu looks at nothing else."""
    return setup.load(), partial(launch_in_range, device=setup.device)


def launch_in_range(launch: Callable[[], object], device: Device) -> None:
    """Launch once before the range, and once in it."""
    import torch

    launch()
    device.synchronize()
    if device.HAS_PROFILER:
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
    launch()
    device.synchronize()
    if device.HAS_PROFILER:
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


def find(program: str) -> str | None:
    """Return where a tool lies: on the path, or the latest version in NVIDIA's own directory."""
    versions = sorted(NSIGHT.glob(f"*/{program}"), key=lambda path: [int(number) for number in re.findall(r"\d+", path.parent.name)])
    return str(versions[-1]) if versions else shutil.which(program)


def _sanitizer_report(_: str, out_dir: Path, printed: str) -> Found:
    text = _text(out_dir / box_files.SANITIZER_TEXT)
    summary = re.search(r"ERROR SUMMARY: (\d+) error", text)
    if summary is None:
        return ToolOutcome.FAILED, _why(text or printed), (box_files.SANITIZER_TEXT,) if text else ()
    count = int(summary[1])
    lines = [line.strip("= \t") for line in text.splitlines() if line.startswith("=========")]
    first = next((line for line in lines if line and not line.startswith(("COMPUTE-SANITIZER", "ERROR SUMMARY"))), "")
    sentence = "memcheck found no error" if count == 0 else f"memcheck found {count} error{'' if count == 1 else 's'}; the first: {first}"
    return ToolOutcome.RAN, sentence, (box_files.SANITIZER_TEXT,)


def _ncu_report(program: str, out_dir: Path, printed: str) -> Found:
    report = out_dir / box_files.NCU_REPORT
    if not report.is_file():
        if COUNTERS_CLOSED in printed:
            why = "the driver lets only administrators read the GPU's counters, and a box gets no such right"
            return ToolOutcome.UNAVAILABLE, f"{why}; load the driver with NVreg_RestrictProfilingToAdminUsers=0", ()
        return ToolOutcome.FAILED, _why(printed), ()
    files = [box_files.NCU_REPORT]
    pages = {box_files.NCU_TEXT: (), box_files.NCU_CSV: ("--csv",)}
    for name, options in pages.items():
        process = subprocess.run(
            [program, "--import", str(report), "--page", "details", *options], capture_output=True, timeout=IMPORT_S, check=False
        )
        if process.returncode == 0:
            leave(out_dir, name, process.stdout[: box_files.FILE_LIMIT_BYTES])
            files.append(name)
    return ToolOutcome.RAN, _figures(_text(out_dir / box_files.NCU_CSV)), tuple(files)


def _figures(text: str) -> str:
    """Return the figures that people read first, for the first kernels, in a sentence."""
    begin = text.find('"ID"')
    kernels: dict[str, dict[str, str]] = {}
    for row in csv.DictReader(io.StringIO(text[begin:] if begin >= 0 else "")):
        name, value = row.get("Metric Name"), row.get("Metric Value")
        if name and value:
            kernels.setdefault(f"{row.get('Kernel Name', '')}", {}).setdefault(name, value)
    sentences = []
    for kernel, metrics in list(kernels.items())[:KERNEL_COUNT]:
        shares = [f"{metrics[metric]} % {word}" for metric, word in FIGURES if metric in metrics]
        sentences += [f"{kernel}: {', '.join(shares)}"] if shares else []
    return "; ".join(sentences) or "its report names no kernel"


def _text(path: Path) -> str:
    """A report of a tool, or what a kernel has put in its place; "" where that is no plain file."""
    with suppress(OSError):
        return read_left(path, box_files.FILE_LIMIT_BYTES).decode("utf-8", "replace")
    return ""


def _why(text: str) -> str:
    lines = [line.strip("= \t") for line in text.splitlines()]
    errors = [line for line in lines if "error" in line.lower()]
    return " ".join((errors or [line for line in lines if line])[:2]) or "it reported nothing"


TOOLS = {
    box_files.COMPUTE_SANITIZER: NvidiaTool(
        program="compute-sanitizer",
        options=(
            *("--tool", "memcheck", "--log-file", f"{{out}}/{box_files.SANITIZER_TEXT}", "--target-processes", "application-only"),
            *("--report-api-errors", "no"),  # PyTorch asks the driver for functions that it need not have
        ),
        report=_sanitizer_report,
    ),
    box_files.NCU: NvidiaTool(
        program="ncu",
        options=(
            *(word for section in ("SpeedOfLight", "Occupancy", "MemoryWorkloadAnalysis") for word in ("--section", section)),
            *("--profile-from-start", "off", "--clock-control", "none", "--target-processes", "application-only"),
            *("--launch-count", str(LAUNCH_COUNT), "--force-overwrite", "--export", f"{{out}}/{box_files.NCU_REPORT}"),
        ),
        report=_ncu_report,
    ),
}


if __name__ == "__main__":
    raise SystemExit(main())
