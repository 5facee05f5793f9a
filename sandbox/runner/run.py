"""The runner: the untrusted process that loads the artifact and launches it when the gate says go.

Runs in a run box.  Has no reference, no expected values and no result channel.
Usage: `run LINK_PATH [--language MODULE] [--preload torch] [--import-device KIND] [--wait DIRECTORY]
[--instrument MODULE [OUT]]`.
"""

from __future__ import annotations

import gc
import importlib
import socket
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandbox import devices
from sandbox.languages import implementation
from sandbox.launch.loop import RunnerSetup, failure, serve
from sandbox.protocol import box_modules
from sandbox.protocol.box_files import GO, READY, WAIT, fix_triton_key, socket_address
from sandbox.protocol.devices import device_info
from sandbox.protocol.gate import TAKES_OUTPUTS, Answer, Gate, Status, Templates, receive_job
from sandbox.protocol.version import VERSION
from sandbox.runner.observe import observe, observe_amounts

INSTRUMENT = "--instrument"
CONNECT_S = 3600.0  # the judge may have another job, or compile a baseline; the box's own limit is what ends a wait


def main(argv: list[str] | None = None) -> int:
    """Serve one judge until it says EXIT."""
    arguments = sys.argv[1:] if argv is None else argv
    preload(arguments)  # while the kernel is still being built
    if WAIT in arguments and not wait_for_job(Path(arguments[arguments.index(WAIT) + 1])):
        return 0
    link = _connect(arguments[0])
    job, (gate_fd, arena_fd, artifact_fd, state_fd) = receive_job(link)
    job = replace(job, templates=Templates(link, job.templates))  # type: ignore[arg-type]  # as good as a tuple
    device = devices.open_device(job.device_kind)
    gate, arena = Gate(gate_fd), device.attach_arena(arena_fd, job.arena_bytes)
    named = arguments[arguments.index(INSTRUMENT) + 1 :] if INSTRUMENT in arguments else []
    instrument = importlib.import_module(named[0]).instrument if named else None
    first = gate.announce(VERSION)  # until then nothing of the submission has run: what fails is our fault
    try:
        # From here on untrusted code has run in this process: nothing that it says is believed.
        load = partial(implementation(job.language, job.language_module).load, artifact_fd, state_fd, job, arena)
        setup = RunnerSetup(load=load, artifact_fd=artifact_fd, job=job, arena=arena, device=device)
        kernel, profile = (load(), None) if instrument is None else instrument(setup, Path(named[1]) if named[1:] else None)
    except Exception as error:  # noqa: BLE001  whatever the submission's own code throws
        gate.reply(first, failure(error, device))
        return 1
    gate.reply(first, Answer(status=Status.OK, message=TAKES_OUTPUTS if kernel.takes_outputs else ""))
    amounts = partial(observe_amounts, libraries=kernel.libraries)
    serve(gate, first, device, arena, {0: kernel}, partial(observe, own_operators=kernel.own_operators), profile, amounts)
    return 0


def preload(arguments: list[str]) -> None:
    """Import what the command line names, before there is a job. A device is not opened: a box that waits leaves a GPU alone."""
    fix_triton_key()
    gc.disable()  # a third of the import of torch would go into looking for garbage
    language = arguments[arguments.index("--language") + 1] if "--language" in arguments else ""
    if language:
        importlib.import_module(language)
    if "--preload" in arguments:
        importlib.import_module("torch")
    if "--import-device" in arguments:
        kind = arguments[arguments.index("--import-device") + 1]
        devices.implementation(kind)
        if device_info(kind).emulates_cuda:
            box_modules.emulated().preload(language)
        elif device_info(kind).torch_device == "cuda":
            importlib.import_module("triton.testing")  # for do_bench
    gc.freeze()  # nor is all that looked at later
    gc.enable()


def wait_for_job(directory: Path) -> bool:
    """Say that everything is imported, and wait without a timer until there is a job; False where there never will be one."""
    with (directory / READY).open("wb", buffering=0) as ready:
        ready.write(b"r")
    with (directory / GO).open("rb", buffering=0) as go:
        return go.read(1) != b""  # the end: the server has gone


def _connect(path: str) -> socket.socket:
    link = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            with socket_address(path) as address:
                link.connect(address)
            return link
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


if __name__ == "__main__":
    raise SystemExit(main())
