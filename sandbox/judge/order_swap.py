"""What a harness that compares inside the kernel's process would say, with the kernel called first and with PyTorch called first.

Such a harness gives the kernel memory that an earlier call has freed. If PyTorch was called first, its answer still lies there, and a
kernel that writes nothing passes. Shown only, and seen only after the trial that decided, or in a run that is never scored.
"""

from __future__ import annotations

import time
from contextlib import suppress

import torch

from sandbox.judge.references import ReferenceFailed
from sandbox.judge.run.runner_link import RunnerLink
from sandbox.judge.run.trial import RunOptions, WorkloadContext, run
from sandbox.judge.verify import expected
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Status

FURTHER_TRIES, TRIES_S = 2, 2.0  # malloc, unlike torch's allocator on a GPU, gives the freed block back most of the time, not always


def order_swap(subject: RunnerLink, bench: WorkloadContext) -> wire.OrderSwap | None:
    """Run it in both orders, each on fresh inputs of a public workload; None where it could not be run or compared."""
    if bench.workload.hidden:
        raise RuntimeError("no answer of a hidden workload may reach the kernel's process")

    with suppress(ReferenceFailed, torch.OutOfMemoryError):
        kernel_first = _accepts(subject, bench, pytorch_first=False)
        begun_s, pytorch_first = time.monotonic(), _accepts(subject, bench, pytorch_first=True)
        for _ in range(FURTHER_TRIES):
            if pytorch_first is False and time.monotonic() - begun_s < TRIES_S:
                pytorch_first = _accepts(subject, bench, pytorch_first=True)
        if kernel_first is not None and pytorch_first is not None:
            return wire.OrderSwap(kernel_first=kernel_first, pytorch_first=pytorch_first)
    return None


def _accepts(subject: RunnerLink, bench: WorkloadContext, *, pytorch_first: bool) -> bool | None:
    """Whether a comparison without poison passes. The memory for the outputs holds PyTorch's answer, or zeros, as memory does that the
    process has never had before."""
    right: list[torch.Tensor] = []

    def left_over(drawn: list[torch.Tensor]) -> list[torch.Tensor]:
        right[:] = expected(bench.reference, drawn, bench.problem)
        return right if pytorch_first else [torch.zeros(())] * len(right)

    done = run(subject, bench, RunOptions(left_over=left_over))
    if not isinstance(done.reply, Answer) or done.reply.status is not Status.OK:
        return None
    if bench.compare is not None:
        nothing = [torch.zeros_like(one, dtype=torch.bool) for one in done.outputs]
        found = bench.compare(bench.workload, done.inputs, done.outputs, right, nothing)
        return all(one.outcome is wire.TrialOutcome.PASSED for one in found)
    return all(_close(output, answer, bench.tolerance) for output, answer in zip(done.outputs, right, strict=True))


def _close(output: torch.Tensor, answer: torch.Tensor, tolerance: wire.Tolerance) -> bool:
    """As `torch.allclose` says it, at the problem's tolerance; integers and booleans have to be equal."""
    if not output.dtype.is_floating_point:
        return torch.equal(output, answer)
    if output.dtype.itemsize < torch.float32.itemsize:
        output, answer = output.float(), answer.float()
    return torch.allclose(output, answer, rtol=tolerance.rtol, atol=tolerance.atol)
