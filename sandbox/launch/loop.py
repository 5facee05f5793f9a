"""A kernel after loading, and the loop that does what the gate asks for: places it, launches it, replies.

Shared by the untrusted runner and the trusted baseline.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sandbox.devices import Arena, Device, DeviceFault
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, Answer, Call, Gate, Operation, Status

ITEM_BYTES = (2, 4, 8)
OBSERVED = (Operation.OBSERVE, Operation.OBSERVE_KERNELS, Operation.OBSERVE_AMOUNTS)
TIMED = (Operation.CALL, Operation.NULL, Operation.FLOOR, *OBSERVED)  # inside the judge's clock
Observe = Callable[[Callable[[], object], bool], str]
Profile = Callable[[Callable[[], object]], None]


class LaunchRefused(Exception):
    """The submission's own code failed in a way that has a name: what goes into the answer's status and message."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A kernel with its arguments. launch() is one launch; where it returns its outputs, finish() moves them to where the judge looks.
    blank(), there when the call asks for it, moves as much that holds nothing."""

    launch: Callable[[], object]
    finish: Callable[[object], None] | None = None
    blank: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A kernel, ready. bind(call) places its arguments, outside of anybody's time. take_error() returns the last error of its CUDA runtime
    as "name: text", or "", and clears it. own_operators: torch's names, such as `mine::scale.out`, for operators that the artifact defines.
    fills: torch can fill what the kernel allocates. libraries(): what it was loaded from, by now. takes_outputs: the kernel writes to its
    outputs where they are, so that nothing of what it returns is copied there."""

    bind: Callable[[Call], Bound]
    uses_torch: bool
    take_error: Callable[[], str] = str
    own_operators: frozenset[str] = frozenset()
    fills: bool = True
    takes_outputs: bool = False
    libraries: Callable[[], Sequence[ctypes.CDLL]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSetup:
    """Parts of a run, for an instrument: load() loads the kernel from the artifact, and is the first place where untrusted code runs."""

    load: Callable[[], Loaded]
    artifact_fd: int
    job: wire.RunnerJob
    arena: Arena
    device: Device


@dataclass(slots=True)
class _Placed:
    """State that PLACE left: the kernel bound to each placement; where its scalars come late, the call that it is bound to with each
    `go`."""

    kernel: Loaded
    call: Call
    bound: list[Bound]

    def bind(self, gate: Gate) -> None:
        """Bind the kernel to the scalars that came with `go`, inside the clock."""
        if self.call.late_scalars:
            self.bound = _bound(self.kernel, self.call.with_scalars(gate.scalars(len(self.call.inputs))))


def serve(
    gate: Gate,
    last: int,
    device: Device,
    arena: Arena,
    kernels: Mapping[int, Loaded],
    observe: Observe | None = None,
    profile: Profile | None = None,
    observe_amounts: Observe | None = None,
) -> None:
    """Do what the gate says until EXIT. kernels: by variant; an untrusted runner has one. observe(launch, kernels): answers OBSERVE and
    OBSERVE_KERNELS. profile(launch): does PROFILE. observe_amounts(launch, kernels): answers OBSERVE_AMOUNTS."""
    placed: _Placed | None = None
    gc.disable()  # a collection would fall into somebody's time
    try:
        while True:
            timed = placed is None or not placed.call.poison or device.CLOCK is not wire.Clock.HOST
            last = gate.next(last, device.SPIN_NS if timed else 0, device.NAP_NS)
            operation = gate.operation()
            answer = FINE
            try:
                if operation in TIMED:
                    device.hold(arena, last)
                match operation:
                    case Operation.PLACE:
                        placed = None  # first: what it holds may lie where the next is to be
                        gc.collect(0)
                        call = gate.call()
                        kernel = kernels[call.variant]
                        if kernel.uses_torch and not device.STIR_POISONS:
                            _poison_allocations(call.poison and kernel.fills)
                        placed = _Placed(kernel, call, [] if call.late_scalars else _bound(kernel, call))
                        if call.seed:
                            random.seed(call.seed)
                            sizes = tuple(math.prod(slot.shape) * width for slot in call.outputs for width in ITEM_BYTES)
                            device.stir(call.seed, kernel.uses_torch, sizes, kernel.libraries())
                    case Operation.FLOOR:
                        device.finish(arena, last)
                        device.launch_null()
                        gate.say_launched(last)
                        device.wait_for_inputs()
                        gate.reply(last, answer)
                        device.synchronize()
                        continue
                    case Operation.CALL | Operation.NULL if placed is not None and not placed.call.poison:
                        placed.bind(gate)
                        for index, bound in enumerate(placed.bound):
                            if index:
                                device.hold(arena, last + index)
                            _start(operation, (bound,), device)
                            device.finish(arena, last + index)
                        device.hold(arena, last + len(placed.bound))  # so that no run is the last
                        gate.say_launched(last)
                        # Wait for the device and reply; DeviceFault where it was stopped.
                        if code := gate.reply_after(device.wait, last):
                            device.synchronize()  # says which fault that is
                            raise DeviceFault(str(code))
                        continue
                    case Operation.EXIT:
                        pass
                    case _:
                        observer = observe_amounts if operation is Operation.OBSERVE_AMOUNTS else observe
                        answer = _launch(operation, gate, placed, device, observer, profile)
                        if operation in TIMED:
                            device.finish(arena, last)
            except Exception as error:  # noqa: BLE001  whatever the kernel throws
                answer = failure(error, device)
            gate.reply(last, answer)
            if operation is Operation.EXIT:
                return
    finally:
        gc.enable()


def failure(error: Exception, device: Device) -> Answer:
    """Return the answer for an exception. The device is asked first: after a fault of its own every later error is only an echo."""
    if isinstance(error, LaunchRefused):
        return Answer(status=error.status, message=error.message)
    fault = error if isinstance(error, DeviceFault) else None
    try:
        device.synchronize()
    except DeviceFault as reported:
        fault = reported
    if fault is not None:
        return Answer(status=Status.DEVICE_FAULT, message=f"{fault.code}: {error}")
    message = f"{type(error).__name__}: {error}"
    return Answer(status=Status.OUT_OF_MEMORY if type(error).__name__ == "OutOfMemoryError" else Status.RAISED, message=message)


def _bound(kernel: Loaded, call: Call) -> list[Bound]:
    return [kernel.bind(call.at(index)) for index in range(call.count)]


def _launch(
    operation: Operation, gate: Gate, placed: _Placed | None, device: Device, observe: Observe | None, profile: Profile | None
) -> Answer:
    if placed is None:
        raise RuntimeError("nothing was placed")
    verifying = placed.call.poison  # what it allocates is filled with NaN, and it is waited for
    if operation is not Operation.BENCH:  # which takes what ran last
        placed.bind(gate)
    if operation in OBSERVED and observe is not None:
        device.synchronize()  # its inputs are there: what is observed is the kernel's own work
        kernels_too = operation is not Operation.OBSERVE and device.HAS_PROFILER
        report = observe(lambda: _run(placed.bound, device, verifying=verifying), kernels_too)
        device.synchronize()
        _flush()
        return Answer(status=Status.OK, message=report)
    if operation is Operation.PROFILE and profile is not None:
        profile(lambda: [kernel.launch() for kernel in placed.bound])  # without the copy that only the judge needs
        return FINE
    if operation is Operation.BENCH:
        samples = device.do_bench(placed.bound[0].launch, gate.call().budget_ns)
        device.synchronize()
        return Answer(status=Status.OK, samples_ns=samples)
    if verifying:
        placed.kernel.take_error()  # of an earlier call
    for _ in range(gate.call().count if operation in (Operation.WARM, Operation.WARM_NULL) else 1):
        _start(operation, placed.bound, device, verifying=verifying)
        device.synchronize()
        if verifying:
            _flush()
    error = placed.kernel.take_error() if verifying else ""
    return Answer(status=Status.OK, message=error) if error else FINE


def _start(operation: Operation, kernels: Sequence[Bound], device: Device, *, verifying: bool = False) -> None:
    if operation in (Operation.NULL, Operation.WARM_NULL):
        for kernel in kernels:
            device.launch_null()
            if kernel.blank is not None:
                kernel.blank()
    else:
        _run(kernels, device, verifying=verifying)


def _flush() -> None:
    """Let what the kernel printed go out now: what arrives once hidden workloads are run is not shown."""
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    ctypes.CDLL(None).fflush(None)


def _run(kernels: Sequence[Bound], device: Device, *, verifying: bool) -> None:
    results = [kernel.launch() for kernel in kernels]
    if verifying:  # a fault is the kernel's, not the copy's
        device.synchronize()
    for bound, result in zip(kernels, results, strict=True):
        if bound.finish is not None:
            bound.finish(result)


def _poison_allocations(on: bool) -> None:
    """Let torch fill fresh memory with NaN (deterministic fill), so that what a kernel leaves unwritten in its own output shows."""
    import torch

    # Not torch.use_deterministic_algorithms: that imports torch's compiler first, for two seconds of a core, while the judge waits.
    torch._C._set_deterministic_algorithms(on, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = on  # type: ignore[attr-defined]
