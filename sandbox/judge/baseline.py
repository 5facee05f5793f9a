"""The trusted baseline runner: PyTorch's own time by the same protocol and the same loop as the subject.

A process of its own beside the judge, kept from job to job: the subject must not be timed against a cold start. For each job it
receives the problem on its standard input, and link and memory as every runner does.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sandbox import arena as link_protocol
from sandbox import wire
from sandbox.box.languages import Loaded
from sandbox.box.run import serve
from sandbox.devices import Arena, Device, open_device
from sandbox.gate import Answer, Call, Gate, Status
from sandbox.judge.placement import arena_bytes
from sandbox.judge.references import Reference, load_reference
from sandbox.judge.runner_link import RunnerLink, connect

LOAD_S = 60.0


class Baseline:
    """The judge's handle on the process."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._link, theirs = socket.socketpair(socket.AF_UNIX)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sandbox.judge.baseline", str(theirs.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    @contextmanager
    def serve(self, problem: wire.ProblemSpec, language: str) -> Iterator[RunnerLink]:
        """Let the process run this problem's reference until the context is left."""
        assert self._process.stdin is not None
        self._process.stdin.write(wire.encode(_spec_job(problem, language)))
        self._process.stdin.flush()
        with connect(self._device, self._link, runner_job(problem, language, "", self._device), b"", LOAD_S) as runner:
            if not (isinstance(runner.loaded, Answer) and runner.loaded.status is Status.OK):
                raise RuntimeError(f"the baseline did not load: {runner.loaded}")
            yield runner

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._link.close()


def runner_job(problem: wire.ProblemSpec, language: str, entry: str, device: Device) -> wire.RunnerJob:
    """What a runner is told of a problem."""
    return wire.RunnerJob(
        device_kind=device.KIND,
        language=language,
        entry=entry,
        inputs=problem.inputs,
        outputs=problem.outputs,
        arena_bytes=arena_bytes(problem),
    )


def _spec_job(problem: wire.ProblemSpec, language: str) -> wire.Job:
    return wire.Job(
        job_id="baseline",
        problem=problem,
        language=language,
        entry="",
        mode=wire.Mode.BENCHMARK,
        link_path="",
        artifact_path="",
        artifact_digest="",
    )


def _load(reference: Reference, job: wire.RunnerJob, arena: Arena) -> Loaded:
    def bind(call: Call) -> Callable[[], object]:
        arguments = [
            arena.tensor(slot.offset, tensor.dtype, slot.shape) if tensor.shape else _scalar(slot.scalar, tensor)
            for slot, tensor in zip(call.inputs, job.inputs, strict=True)
        ]
        return lambda: reference(arguments)

    def finish(call: Call, result: object) -> None:
        assert isinstance(result, list)
        for value, slot, tensor in zip(result, call.outputs, job.outputs, strict=True):
            arena.tensor(slot.offset, tensor.dtype, slot.shape).copy_(value)

    return Loaded(bind=bind, finish=finish, uses_torch=False)


def _scalar(value: float, tensor: wire.TensorSpec):  # type: ignore[no-untyped-def]
    import torch

    return torch.tensor(value, dtype=getattr(torch, tensor.dtype))


def main() -> None:
    """Serve problem after problem until the judge goes away."""
    link = socket.socket(fileno=int(sys.argv[1]))
    while line := sys.stdin.buffer.readline():
        problem = wire.decode(line).problem
        job, (gate_fd, arena_fd, _) = link_protocol.receive(link)
        device = open_device(job.device_kind)
        gate = Gate(gate_fd)
        kernel = _load(load_reference(problem), job, device.attach_arena(arena_fd, job.arena_bytes))
        first = gate.next(0)
        gate.reply(first, Answer(status=Status.OK))
        serve(gate, first, device, kernel)


if __name__ == "__main__":
    main()
