"""The trusted baseline runner's process: runs references, as they are and compiled, and the probe, by the same loop as the subject."""

from __future__ import annotations

import gc
import multiprocessing
import os
import socket
from collections.abc import Sequence
from itertools import compress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, BinaryIO

import torch

from sandbox.devices import Arena, Device, open_device
from sandbox.judge import end_with_parent
from sandbox.judge.references import Reference, load_task
from sandbox.judge.timing import EAGER, PROBE, VARIANTS, WARMUP_COUNT
from sandbox.launch.loop import Bound, Loaded, serve
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Call, Gate, Slot, Status, receive_job
from sandbox.protocol.signatures import is_axis
from sandbox.protocol.version import VERSION

COMPILE_CACHE = "GRADER_COMPILE_CACHE"
COMPILED_ANEW = "torch.compile compiles it anew in every call; its time would be the compiler's"


def _load(reference: Reference, problem: wire.ProblemSpec, job: wire.RunnerJob, arena: Arena) -> Loaded:
    """A reference. What a kernel changes in place is not copied, like a kernel's."""
    is_copied = [number is None for number in problem.in_place]
    empty: dict[tuple[int, ...], torch.Tensor] = {}  # made once: a launch of its own would leave the device in this process's hands

    def bind(call: Call) -> Bound:
        arguments: list[Any] = [
            arena.tensor(slot.offset, tensor.dtype, slot.shape, slot.strides)
            if tensor.shape
            else (int(slot.scalar) if is_axis(tensor) else torch.tensor(slot.scalar, dtype=getattr(torch, tensor.dtype)))
            for slot, tensor in zip(call.inputs, job.inputs, strict=True)
        ]
        targets, blanks = _outputs(call, job, arena, empty)
        return Bound(
            launch=lambda: [*compress(reference(arguments), is_copied)],
            finish=lambda outputs: _copy(outputs, targets),
            blank=(lambda: _copy(blanks, targets)) if call.copy_out else None,
        )

    return Loaded(bind=bind, uses_torch=False)


def _load_probe(job: wire.RunnerJob, arena: Arena, device: Device) -> Loaded:
    """The probe, as a variant that the clock runs like a reference. It returns its outputs where the call asks for the copy."""
    empty: dict[tuple[int, ...], torch.Tensor] = {}

    def bind(call: Call) -> Bound:
        read = [_span(slot, tensor, arena) for slot, tensor in zip(call.inputs, job.inputs, strict=True) if tensor.shape]
        changed = [_span(slot, tensor, arena) for slot, tensor in zip(call.inputs, job.inputs, strict=True) if tensor.inout]
        if not call.copy_out:
            written = [_span(slot, tensor, arena) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
            return Bound(launch=lambda: device.touch(read, [*changed, *written]))
        targets, returned = _outputs(call, job, arena, empty)
        returned_spans = [*changed, *((value.data_ptr(), value.nbytes) for value in returned)]
        return Bound(
            launch=lambda: device.touch(read, returned_spans),
            finish=lambda _: _copy(returned, targets),
            blank=lambda: _copy(returned, targets),
        )

    return Loaded(bind=bind, uses_torch=False)


def _outputs(
    call: Call, job: wire.RunnerJob, arena: Arena, empty: dict[tuple[int, ...], torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    targets = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
    keys = [(index, *target.shape) for index, target in enumerate(targets)]
    for key, target in zip(keys, targets, strict=True):
        if key not in empty:
            empty[key] = torch.empty_like(target)
    return targets, [empty[key] for key in keys]


def _span(slot: Slot, tensor: wire.TensorSpec, arena: Arena) -> tuple[int, int]:
    return arena.address(slot.offset), slot.element_count * int(getattr(torch, tensor.dtype).itemsize)


def _copy(values: Any, targets: list[torch.Tensor]) -> None:
    for value, target in zip(values, targets, strict=True):
        target.copy_(value)


class CompiledReference:
    """A reference as `torch.compile` runs it. Refused for good at shapes where it is still compiled in its third call, the last of the
    warm-up: where a reference depends on a number that is new in every call, a run's time would mostly be the compiler's.

    Raises RuntimeError there; the problem then has no such baseline.
    """

    def __init__(self, compiled: Reference) -> None:
        self._compiled = compiled
        self._call_counts: dict[tuple[object, ...], int] = {}
        self._refused: set[tuple[object, ...]] = set()

    def __call__(self, inputs: list[Any]) -> list[torch.Tensor]:
        """Its outputs."""
        shapes = tuple(tensor if isinstance(tensor, int) else tensor.shape for tensor in inputs)
        if shapes in self._refused:
            raise RuntimeError(COMPILED_ANEW)
        before = _compilation_count()
        outputs = self._compiled(inputs)
        count = self._call_counts[shapes] = self._call_counts.get(shapes, 0) + 1
        if count == WARMUP_COUNT and _compilation_count() > before:
            self._refused.add(shapes)
            raise RuntimeError(COMPILED_ANEW)
        return outputs


def _compilation_count() -> int:
    return int(torch._dynamo.utils.counters["frames"]["ok"])


def _references_of(problem: wire.ProblemSpec, device: Device, loaded: dict[str, dict[int, Reference]]) -> dict[int, Reference]:
    """The references of a problem, as they are and compiled, by the gate's number. loaded: those of the last problems; the oldest goes."""
    if problem.digest and problem.digest in loaded:
        return loaded[problem.digest]
    eager = load_task(problem, device.TORCH).reference
    references = loaded[problem.digest] = {VARIANTS[EAGER]: eager}
    if device.CLOCK is wire.Clock.DEVICE_EVENTS:
        # Compiled when it is first run at a shape. Without graphs of CUDA's: inputs lie elsewhere in every run.
        references[VARIANTS["compile"]] = CompiledReference(torch.compile(eager, dynamic=False))
        references[VARIANTS["max-autotune"]] = CompiledReference(torch.compile(eager, dynamic=False, mode="max-autotune-no-cudagraphs"))
    if len(loaded) > wire.KEPT_PROBLEM_COUNT:
        del loaded[next(iter(loaded))]
    return references


def run(kind: str, link: socket.socket, requests: Connection, inherited: Sequence[socket.socket | Connection | BinaryIO]) -> None:
    """Serve problem after problem until the judge goes away. inherited: what is the judge's own."""
    for end in inherited:
        end.close()
    end_with_parent(link.fileno())
    with Path(os.devnull).open("r+b") as nowhere:
        os.dup2(nowhere.fileno(), 0)  # the judge's jobs
        os.dup2(nowhere.fileno(), 1)
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # a reference may start processes
    # What inductor and triton compile stays from server to server; one process at a time compiles, and does it itself.
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    if cache := os.environ.get(COMPILE_CACHE):
        os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TRITON_CACHE_DIR"] = f"{cache}/inductor", f"{cache}/triton"
    device, loaded = open_device(kind), dict[str, dict[int, Reference]]()
    if device.CLOCK is wire.Clock.DEVICE_EVENTS:  # elsewhere nothing is compiled, and the import takes as long as half of torch's
        torch._dynamo.config.recompile_limit = 256  # a shape per workload, and a problem may have many
    gc.collect()
    gc.freeze()  # as in the judge
    link.sendall(b"r")
    while True:
        problem = wire.decode(requests.recv_bytes()).problem
        job, (gate_fd, arena_fd, artifact_fd, state_fd) = receive_job(link)
        gate, arena = Gate(gate_fd), device.attach_arena(arena_fd, job.arena_bytes)
        kernels = {number: _load(reference, problem, job, arena) for number, reference in _references_of(problem, device, loaded).items()}
        if device.CLOCK is wire.Clock.DEVICE_EVENTS:
            kernels[VARIANTS[PROBE]] = _load_probe(job, arena, device)
        first = gate.announce(VERSION)
        gate.reply(first, Answer(status=Status.OK))
        with torch.no_grad():
            serve(gate, first, device, arena, kernels)
        arena.close()
        kernels.clear()
        gc.collect()
        device.release_cached_memory()  # the next job's subject may need it
        for fd in (gate_fd, artifact_fd, state_fd):
            os.close(fd)
