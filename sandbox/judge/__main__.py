"""The judge process: jobs in on standard input, facts out on standard output, a JSON line each.  `python -m sandbox.judge KIND`.

Its first fact is its environment: operating system, CPU, compilers and packages of this process and its tools, never a kernel's word.
"""

from __future__ import annotations

import gc
import importlib.metadata
import os
import platform
import re
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import torch

from sandbox.devices import Device, cpu_model, implementation
from sandbox.judge import end_with_parent
from sandbox.judge.baseline import Baseline
from sandbox.judge.lane import judge, prepare
from sandbox.judge.trial import LEAST_ARENA_BYTES
from sandbox.protocol import wire
from sandbox.protocol.box_files import fix_triton_key
from sandbox.protocol.devices import DeviceKind, device_info

DEVICE_KNOWN = "GRADER_DEVICE_KNOWN"  # a file next to which the server's judges of this device agree on what was there first
PACKAGES = ("numpy", "triton", "numba", "numba-cuda")
ASK_S = 10.0
CUDA_HOME = "/usr/local/cuda"  # as `grader/isolation/toolchain.py` looks for it
_RELEASE = re.compile(r"release [\d.]+, V([\d.]+)")


def main() -> None:
    """Judge job after job until standard input ends."""
    end_with_parent(1)
    fix_triton_key()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the server's to handle
    facts = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a reference prints goes to the log, not among the facts
    gc.disable()  # collected between turns: in one it would fall into somebody's time
    try:
        device, baseline = start(sys.argv[1], facts)
        # The reference is what it says: TF32 in a float32 convolution would be an error that no kernel may make.
        torch.backends.cudnn.allow_tf32 = False  # here, and not in the baseline
        _emit(facts, environment(device))
    except Exception as error:  # noqa: BLE001  whatever it is, it has to be reported to the server
        traceback.print_exc()
        _emit(facts, wire.Broken(job_id="", message=f"the judge does not start: {type(error).__name__}: {error}"))
        return
    gc.collect()
    gc.freeze()  # what is there now stays: all of torch's modules would be looked at in every turn
    try:
        device.spare_arena(LEAST_ARENA_BYTES)
        for line in sys.stdin.buffer:
            message = wire.decode(line)
            for fact in answer(message, device, baseline):
                _emit(facts, fact)
                if isinstance(fact, wire.Broken) and fact.device_lost:
                    return
            if not isinstance(message, wire.Check):  # which comes when the box is gone, right before the next job
                gc.collect()
                device.spare_arena(LEAST_ARENA_BYTES)
    finally:
        baseline.close()


def start(kind: str, facts: BinaryIO) -> tuple[Device, Baseline]:
    """Start the trusted runner, which does not get the file of facts, and open the device next to it."""
    before = implementation(kind).foreign_usage()
    gc.freeze()  # what is imported stays, in both processes
    baseline = Baseline(kind, files=(facts,))
    device = baseline.device
    try:
        device.start_clock()
        device.do_bench(lambda: None, 1_000_000)  # so that what it has compiled once lies there for the boxes
        baseline.started()
        known_path = os.environ.get(DEVICE_KNOWN)
        device.record_baseline_usage(before, Path(known_path) if known_path else None)
    except BaseException:
        baseline.close()
        raise
    return device, baseline


def environment(device: Device) -> wire.Environment:
    """Describe the device, the host and the tools that this lane's reports are made with."""
    identity = device.identify()
    return replace(identity, versions={**host_versions(device.KIND), **identity.versions}, ceilings=device.ceilings())


def answer(message: wire.Job | wire.Prepare | wire.Check, device: Device, baseline: Baseline) -> Iterator[wire.Fact]:
    """The facts of a job or of a preparation, or how the device is. A fault of the device in this process is the end of it."""
    try:
        match message:
            case wire.Job():
                yield from judge(message, device, baseline)
            case wire.Prepare():
                yield from prepare(message, device, baseline)
            case wire.Check():
                yield device.check(message.job_id)
    except Exception as error:  # noqa: BLE001  whatever it is, this process is not to be trusted with another job
        # Not its message, which may quote a hidden size: that is in the fact, for the ledger alone.
        sys.stderr.write(f"the judge's own work failed: {type(error).__name__}\n")
        traceback.print_tb(error.__traceback__)
        yield wire.Broken(job_id=message.job_id, message=f"the judge's own work failed: {type(error).__name__}: {error}", device_lost=True)


def _emit(facts: BinaryIO, fact: wire.Fact) -> None:
    facts.write(wire.encode(fact))
    facts.flush()


def host_versions(kind: DeviceKind, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Names and versions, by what they are of. What this host does not have, or does not say, is left out."""
    versions = {
        "os": _system_name(),
        "kernel": platform.release(),
        "cpu": cpu_model(),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cudnn": cudnn_version(torch.backends.cudnn.version()),  # type: ignore[no-untyped-call]
        "gcc": _answer([*environ.get("CXX", "g++").split(), "-dumpfullversion"]),
        **{name: _package_version(name) for name in PACKAGES},
    }
    if device_info(kind).toolkit_program:
        homes = (environ.get("CUDA_HOME"), CUDA_HOME)
        nvcc = next((f"{home}/bin/nvcc" for home in homes if home and Path(home, "bin", "nvcc").exists()), "nvcc")
        match = _RELEASE.search(_answer([nvcc, "--version"]))
        versions["nvcc"] = match[1] if match else ""
    return {name: version for name, version in versions.items() if version}


def cudnn_version(number: int | None) -> str:
    """cuDNN's number in words: 91002 is 9.10.2, and 8907 is 8.9.7 (cudnn_version.h). "" where there is none."""
    if not number:
        return ""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _answer(command: Sequence[str]) -> str:
    """Return what a tool prints; "" where it is missing, or does not answer."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=ASK_S, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _package_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return platform.system()


if __name__ == "__main__":
    main()
