"""The runner: the untrusted process that loads the artifact and launches it when the gate says go.

Runs in a run box.  Has no reference, no expected values and no result channel.  Usage: `run LINK_PATH [--preload torch]`.
"""

from __future__ import annotations

import random
import socket
import sys
import time
from collections.abc import Callable

from sandbox import arena as link_protocol
from sandbox.box.languages import Loaded, Refused
from sandbox.box.languages.registry import LANGUAGES
from sandbox.devices import Device, open_device
from sandbox.gate import Answer, Call, Gate, Operation, Status

CONNECT_S = 300.0


def main(argv: list[str] | None = None) -> int:
    """Serve one judge until it says EXIT."""
    arguments = sys.argv[1:] if argv is None else argv
    if "--preload" in arguments:
        import torch  # noqa: F401  while the kernel is still being built
    link = _connect(arguments[0])
    job, (gate_fd, arena_fd, artifact_fd) = link_protocol.receive(link)
    device = open_device(job.device_kind)
    gate, arena = Gate(gate_fd), device.attach_arena(arena_fd, job.arena_bytes)
    first = gate.next(0)
    try:
        # From here on untrusted code has run in this process: nothing that it says is believed.
        kernel = LANGUAGES[job.language].load(artifact_fd, job, arena)
    except Refused as refusal:
        gate.reply(first, Answer(status=refusal.status, message=refusal.message))
        return 1
    except Exception as error:  # noqa: BLE001  whatever the submission's own code throws
        gate.reply(first, Answer(status=Status.RAISED, message=f"{type(error).__name__}: {error}"))
        return 1
    gate.reply(first, Answer(status=Status.OK))
    serve(gate, first, device, kernel)
    return 0


def serve(gate: Gate, last: int, device: Device, kernel: Loaded) -> None:
    """Do what the gate says until EXIT."""
    while True:
        last = gate.next(last)
        call = gate.call()
        if call.operation is Operation.EXIT:
            gate.reply(last, Answer(status=Status.OK))
            return
        try:
            answer = _do(call, device, kernel)
        except Refused as refusal:
            answer = Answer(status=refusal.status, message=refusal.message)
        except Exception as error:  # noqa: BLE001  whatever the kernel throws
            answer = Answer(status=Status.RAISED, message=f"{type(error).__name__}: {error}")
        gate.reply(last, answer)


def _do(call: Call, device: Device, kernel: Loaded) -> Answer:
    match call.operation:
        case Operation.CALL:
            if kernel.uses_torch:
                _poison_allocations(call.poison)
            _launch(call, device, kernel)()
        case Operation.BENCH:
            if kernel.uses_torch:
                _poison_allocations(False)
            samples = device.do_bench(_launch(call, device, kernel), call.budget_ns)
            return Answer(status=Status.OK, samples_ns=samples)
        case Operation.STIR:
            random.seed(call.seed)
            device.stir(call.seed, kernel.uses_torch)
        case Operation.NULL | Operation.EXIT:
            pass
    return Answer(status=Status.OK)


def _launch(call: Call, device: Device, kernel: Loaded) -> Callable[[], None]:
    run = kernel.bind(call)

    def launch() -> None:
        result = run()
        device.synchronize()
        kernel.finish(call, result)

    return launch


def _poison_allocations(on: bool) -> None:
    """Let torch fill fresh memory with NaN (deterministic fill), so that what a kernel leaves unwritten in its own output shows."""
    import torch

    torch.use_deterministic_algorithms(on, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = on  # type: ignore[attr-defined]


def _connect(path: str) -> socket.socket:
    """Connect to the judge, which listens once it has a job for this box."""
    link = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            link.connect(path)
            return link
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


if __name__ == "__main__":
    raise SystemExit(main())
