"""The trusted baseline runner: PyTorch's own time by the same protocol and the same loop as the subject.

A process of its own next to the judge, kept from job to job: the subject must not be timed against a cold start, and what
`torch.compile` makes of a problem is made once. For each job it receives the problem on its standard input, and link and memory as every
runner does.
"""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from sandbox.devices import Arena, Device, open_device
from sandbox.judge import end_with_parent
from sandbox.judge.references import Reference, load_task
from sandbox.judge.runner_link import RunnerLink, connect
from sandbox.judge.timing.interleaved import EAGER, VARIANTS, WARMUP_COUNT
from sandbox.judge.timing.kept_timings import KeptTimings
from sandbox.judge.timing.measure import BATCH_BYTES
from sandbox.judge.trial import arena_bytes, rounded
from sandbox.launch.kernel import Bound, Loaded
from sandbox.launch.loop import serve
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Call, Gate, Status, receive_job
from sandbox.protocol.languages import module_of
from sandbox.protocol.version import VERSION

LOAD_S = 60.0
COMPILE_CACHE = "GRADER_COMPILE_CACHE"
COMPILED_ANEW = "torch.compile compiles it anew in every call; its time would be the compiler's"


class Baseline:
    """The judge's handle on the process. kept: what baselines took while they were alone."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.kept = KeptTimings(wire.KEPT_PROBLEM_COUNT)
        self._ready = False
        self._link, theirs = socket.socketpair(socket.AF_UNIX)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sandbox.judge.baseline", str(theirs.fileno()), device.KIND],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env={**_without_allocator_settings(os.environ), **_compile_environment(os.environ.get(COMPILE_CACHE))},
        )
        theirs.close()

    @contextmanager
    def serve(self, problem: wire.ProblemSpec, language: str) -> Iterator[RunnerLink]:
        """Let the process run this problem's reference until the context is left."""
        self.started()
        job = runner_job(problem, language, "", self._device, trusted=True)

        def tell() -> None:
            assert self._process.stdin is not None
            self.kept.load(problem)
            self._process.stdin.write(wire.encode(unsubmitted("baseline", problem, language)))
            self._process.stdin.flush()

        with connect(self._device, self._link, job, b"", LOAD_S, before=tell) as runner:
            if not (isinstance(runner.loaded, Answer) and runner.loaded.status is Status.OK):
                raise RuntimeError(f"the baseline did not load: {runner.loaded}")
            yield runner

    def started(self) -> None:
        """Wait until the process has opened its device: from then on it is among those that belong there."""
        if not self._ready and not self._link.recv(1):
            raise RuntimeError("the baseline's process ended while it started")
        self._ready = True

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._link.close()


def runner_job(
    problem: wire.ProblemSpec, language: str, entry: str, device: Device, templates: tuple[str, ...] = (), *, trusted: bool = False
) -> wire.RunnerJob:
    """What a runner gets to know of a problem. An arena's exact size is for a trusted one."""
    needed = arena_bytes(problem, BATCH_BYTES if device.CLOCK is wire.Clock.DEVICE_EVENTS else 0)
    return wire.RunnerJob(
        device_kind=device.KIND,
        language=language,
        language_module=module_of(language),
        entry=entry,
        inputs=problem.inputs,
        outputs=problem.outputs,
        convention=problem.convention,
        templates=templates,
        arena_bytes=needed if trusted else rounded(needed),
    )


def _without_allocator_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The judge's own are not the baseline's: it allocates as the subject's process does."""
    return {name: value for name, value in environment.items() if not name.startswith("MALLOC_")}


def _compile_environment(cache: str | None) -> dict[str, str]:
    """What inductor and triton compile stays from server to server; one process at a time compiles, and does it itself."""
    places = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    kept = {name: str(Path(cache) / folder) for name, folder in places.items()} if cache else {}
    return {"TORCHINDUCTOR_COMPILE_THREADS": "1", **kept}


def unsubmitted(job_id: str, problem: wire.ProblemSpec, language: str = "cuda") -> wire.Job:
    """A job that is about the problem alone, without a runner."""
    return wire.Job(
        job_id=job_id,
        problem=problem,
        language=language,
        entry="",
        mode=wire.Mode.BENCHMARK,
        link_path="",
        artifact_path="",
        artifact_digest="",
    )


def _load(reference: Reference, job: wire.RunnerJob, arena: Arena) -> Loaded:
    empty: dict[tuple[int, ...], torch.Tensor] = {}  # made once: a launch of its own would leave the device in this process's hands

    def bind(call: Call) -> Bound:
        arguments = [
            arena.tensor(slot.offset, tensor.dtype, slot.shape, slot.strides) if tensor.shape else _scalar(slot.scalar, tensor)
            for slot, tensor in zip(call.inputs, job.inputs, strict=True)
        ]
        targets = [arena.tensor(slot.offset, tensor.dtype, slot.shape) for slot, tensor in zip(call.outputs, job.outputs, strict=True)]
        blanks = [empty.setdefault((index, *one.shape), torch.empty_like(one)) for index, one in enumerate(targets)]

        def finish(result: object) -> None:
            assert isinstance(result, list)
            _copy(result, targets)

        return Bound(
            launch=lambda: reference(arguments),
            finish=finish,
            blank=(lambda: _copy(blanks, targets)) if call.copy_out else None,
        )

    return Loaded(bind=bind, uses_torch=False)


def _copy(values: list[torch.Tensor], targets: list[torch.Tensor]) -> None:
    for value, target in zip(values, targets, strict=True):
        target.copy_(value)


def _scalar(value: float, tensor: wire.TensorSpec) -> torch.Tensor:
    return torch.tensor(value, dtype=getattr(torch, tensor.dtype))


class CompiledReference:
    """A reference as `torch.compile` runs it. Refused for good at shapes where it is still compiled in its third call, the last of the
    warm-up: where a reference depends on a number that is new in every call, a run's time would mostly be the compiler's.

    Raises RuntimeError there; the problem then has no such baseline.
    """

    def __init__(self, compiled: Reference) -> None:
        self._compiled = compiled
        self._call_counts: dict[tuple[torch.Size, ...], int] = {}
        self._refused: set[tuple[torch.Size, ...]] = set()

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Its outputs."""
        shapes = tuple(one.shape for one in inputs)
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
    """How many frames were compiled in this process."""
    return int(torch._dynamo.utils.counters["frames"]["ok"])


class _References:
    """The references of the last problems, as they are and compiled, by the gate's number."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[int, Reference]] = {}

    def of(self, problem: wire.ProblemSpec, device: Device) -> dict[int, Reference]:
        """Load a problem's reference, or find it; the oldest goes."""
        if problem.digest and problem.digest in self._kept:
            return self._kept[problem.digest]
        found = {VARIANTS[EAGER]: load_task(problem, device.TORCH).reference}
        if device.CLOCK is wire.Clock.DEVICE_EVENTS:
            eager = found[VARIANTS[EAGER]]
            # Compiled when it is first run at a shape. Without graphs of CUDA's: inputs lie elsewhere in every run.
            found[VARIANTS["compile"]] = CompiledReference(torch.compile(eager, dynamic=False))
            found[VARIANTS["max-autotune"]] = CompiledReference(torch.compile(eager, dynamic=False, mode="max-autotune-no-cudagraphs"))
        self._kept[problem.digest] = found
        if len(self._kept) > wire.KEPT_PROBLEM_COUNT:
            del self._kept[next(iter(self._kept))]
        return found


def main() -> None:
    """Serve problem after problem until the judge goes away."""
    link = socket.socket(fileno=int(sys.argv[1]))
    end_with_parent(link.fileno())
    device, references = open_device(sys.argv[2]), _References()
    torch._dynamo.config.recompile_limit = 256  # a shape per workload, and a problem may have many
    gc.collect()
    gc.freeze()  # as in the judge
    link.sendall(b"r")
    while line := sys.stdin.buffer.readline():
        problem = wire.decode(line).problem
        job, (gate_fd, arena_fd, artifact_fd, state_fd) = receive_job(link)
        gate, arena = Gate(gate_fd), device.attach_arena(arena_fd, job.arena_bytes)
        kernels = {number: _load(reference, job, arena) for number, reference in references.of(problem, device).items()}
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


if __name__ == "__main__":
    main()
