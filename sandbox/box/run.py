"""The runner: the untrusted process that loads the artifact and launches it when the gate says go.

Runs in a run box.  Has no reference, no expected values and no result channel.
Usage: `run LINK_PATH [--preload torch] [--device KIND]`.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import random
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from sandbox import arena as link_protocol
from sandbox.box.languages import Bound, Loaded, Refused
from sandbox.box.languages.registry import LANGUAGES
from sandbox.box.observe import observe
from sandbox.devices import Arena, Device, DeviceFault, open_device
from sandbox.gate import FINE, WARM_COUNT, Answer, Call, Gate, Operation, Status
from sandbox.protocol import VERSION

CONNECT_S = 3600.0  # the judge may have another job, or compile a baseline; the box's own limit is what ends a wait
ITEM_BYTES = (2, 4, 8)
TIMED = (Operation.CALL, Operation.NULL, Operation.FLOOR)  # inside the judge's clock


def main(argv: list[str] | None = None) -> int:
    """Serve one judge until it says EXIT."""
    arguments = sys.argv[1:] if argv is None else argv
    warm = preload(arguments)  # while the kernel is still being built
    link = _connect(arguments[0])
    job, (gate_fd, arena_fd, artifact_fd, state_fd) = link_protocol.receive(link)
    job = replace(job, templates=link_protocol.Templates(link, job.templates))  # type: ignore[arg-type]  # as good as a tuple
    device = warm if warm is not None and job.device_kind == warm.KIND else open_device(job.device_kind)
    gate, arena = Gate(gate_fd), device.attach_arena(arena_fd, job.arena_bytes)
    first = gate.announce(VERSION)  # until then nothing of the submission has run: what fails is our fault
    try:
        # From here on untrusted code has run in this process: nothing that it says is believed.
        kernel = LANGUAGES[job.language].load(artifact_fd, state_fd, job, arena)
    except Exception as error:  # noqa: BLE001  whatever the submission's own code throws
        gate.reply(first, failure(error, device))
        return 1
    gate.reply(first, Answer(status=Status.OK))
    serve(gate, first, device, arena, {0: kernel})
    return 0


def preload(arguments: list[str]) -> Device | None:
    """Import and open what the command line names, before there is a job."""
    if "--preload" in arguments:
        import torch

        if torch.version.cuda is not None:
            import triton.testing  # noqa: F401
    if "--device" not in arguments:
        return None
    device = open_device(arguments[arguments.index("--device") + 1])
    device.do_bench(lambda: None, 1_000_000)
    return device


@dataclass(slots=True)
class _Placed:
    """What PLACE left: the kernel bound to each placement; where its scalars come late, the call that it is bound to with each `go`."""

    kernel: Loaded
    call: Call
    bound: list[Bound]

    @property
    def verifying(self) -> bool:
        """Whether what it allocates is filled with NaN, and it is waited for."""
        return self.call.poison

    def bind(self, gate: Gate) -> None:
        """Bind the kernel to the scalars that came with `go`, inside the clock."""
        if self.call.late_scalars:
            self.bound = _bound(self.kernel, self.call.with_scalars(gate.scalars(len(self.call.inputs))))


def serve(gate: Gate, last: int, device: Device, arena: Arena, kernels: Mapping[int, Loaded]) -> None:
    """Do what the gate says until EXIT. kernels: by variant; an untrusted runner has one."""
    placed: _Placed | None = None
    gc.disable()  # a collection would fall into somebody's time
    try:
        while True:
            last = gate.next(last, device.SPIN_NS)
            operation = gate.operation()
            answer = FINE
            try:
                if operation in TIMED:
                    device.hold(arena, last)
                match operation:
                    case Operation.PLACE:
                        placed = None  # first: what it holds may lie where the next is to be
                        gc.collect(0)
                        placed = _place(gate.call(), kernels, device)
                    case Operation.STIR:
                        call = gate.call()
                        random.seed(call.seed)
                        sizes = tuple(math.prod(slot.shape) * width for slot in call.outputs for width in ITEM_BYTES)
                        device.stir(call.seed, kernels[call.variant].uses_torch, sizes)
                    case Operation.FLOOR:
                        device.launch_null()
                        device.wait_for_inputs()
                        gate.reply(last, answer)
                        device.synchronize()
                        continue
                    case Operation.CALL | Operation.NULL if placed is not None and not placed.verifying:
                        placed.bind(gate)
                        _start(operation, placed, device)
                        _finish(gate, last, device)
                        continue
                    case Operation.EXIT:
                        pass
                    case _:
                        answer = _launch(operation, gate, placed, device)
            except Exception as error:  # noqa: BLE001  whatever the kernel throws
                answer = failure(error, device)
            gate.reply(last, answer)
            if operation is Operation.EXIT:
                return
    finally:
        gc.enable()


def failure(error: Exception, device: Device) -> Answer:
    """What an exception comes to. The device is asked first: after a fault of its own every later error is only an echo."""
    if isinstance(error, Refused):
        return Answer(status=error.status, message=error.message)
    fault = error if isinstance(error, DeviceFault) else None
    try:
        device.synchronize()
    except DeviceFault as told:
        fault = told
    if fault is not None:
        return Answer(status=Status.DEVICE_FAULT, message=f"{fault.code}: {error}")
    message = f"{type(error).__name__}: {error}"
    return Answer(status=Status.OUT_OF_MEMORY if type(error).__name__ == "OutOfMemoryError" else Status.RAISED, message=message)


def _place(call: Call, kernels: Mapping[int, Loaded], device: Device) -> _Placed:
    kernel = kernels[call.variant]
    if kernel.uses_torch and not device.STIR_POISONS:
        _poison_allocations(call.poison)
    return _Placed(kernel, call, [] if call.late_scalars else _bound(kernel, call))


def _bound(kernel: Loaded, call: Call) -> list[Bound]:
    return [kernel.bind(call.at(index)) for index in range(call.count)]


def _launch(operation: Operation, gate: Gate, placed: _Placed | None, device: Device) -> Answer:
    if placed is None:
        raise RuntimeError("nothing was placed")
    if operation is not Operation.BENCH:  # which takes what ran last
        placed.bind(gate)
    if operation is Operation.OBSERVE:
        # Not by torch's word: in a Python module's process it takes the emulated device for a GPU, and its profiler finds none.
        told = observe(lambda: _run(placed, device), kernels=bool(gate.call().variant) and device.KIND == "cuda")
        device.synchronize()
        return Answer(status=Status.OK, message=told)
    if operation is Operation.BENCH:
        samples = device.do_bench(placed.bound[0].launch, gate.call().budget_ns)
        device.synchronize()
        return Answer(status=Status.OK, samples_ns=samples)
    for _ in range(WARM_COUNT if operation in (Operation.WARM, Operation.WARM_NULL) else 1):
        _start(operation, placed, device)
        device.synchronize()
        if placed.verifying:
            _flush()
    return FINE


def _start(operation: Operation, placed: _Placed, device: Device) -> None:
    if operation in (Operation.NULL, Operation.WARM_NULL):
        _run_nothing(placed, device)
    else:
        _run(placed, device)


def _finish(gate: Gate, number: int, device: Device) -> None:
    """Wait for the device and reply; DeviceFault where it was stopped."""
    if code := gate.reply_after(device.wait, number):
        device.synchronize()  # says which fault that is
        raise DeviceFault(str(code))


def _flush() -> None:
    """Let what the kernel printed go out now: what arrives once hidden workloads are run is not shown."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def _run(placed: _Placed, device: Device) -> None:
    results = [one.launch() for one in placed.bound]
    if placed.verifying:  # a fault is the kernel's, not the copy's
        device.synchronize()
    for one, result in zip(placed.bound, results, strict=True):
        if one.finish is not None:
            one.finish(result)


def _run_nothing(placed: _Placed, device: Device) -> None:
    device.launch_null()
    for one in placed.bound:
        if one.blank is not None:
            one.blank()


def _poison_allocations(on: bool) -> None:
    """Let torch fill fresh memory with NaN (deterministic fill), so that what a kernel leaves unwritten in its own output shows."""
    import torch

    # Not torch.use_deterministic_algorithms: that imports torch's compiler first, for two seconds of a core, while the judge waits.
    torch._C._set_deterministic_algorithms(on, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = on  # type: ignore[attr-defined]


def _connect(path: str) -> socket.socket:
    """Connect to the judge, which listens once it has a job for this box."""
    link = socket.socket(socket.AF_UNIX)
    deadline = time.monotonic() + CONNECT_S
    while True:
        try:
            with link_protocol.address(path) as address:
                link.connect(address)
            return link
        except (FileNotFoundError, ConnectionRefusedError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


if __name__ == "__main__":
    raise SystemExit(main())
