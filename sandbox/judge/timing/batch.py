"""Batches of distinct inputs: a second figure for short kernels, whose single launch is small next to the protocol's own time.

Every launch has inputs and a place of its own and is verified. Launches may overlap, so this is throughput: shown, never scored
(timing.md 3.2).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator
from dataclasses import dataclass

from sandbox.judge.run.placement import BATCH_LIMIT, placement_bytes
from sandbox.judge.run.runner_link import RunnerLink
from sandbox.judge.run.trial import RunOptions, WorkloadContext, run_batch
from sandbox.judge.timing.heartbeat import Heartbeat
from sandbox.judge.timing.interleaved import WARM_COUNT
from sandbox.judge.verify import judge_run
from sandbox.protocol import wire
from sandbox.protocol.gate import Operation

BATCH_BYTES = 2 << 30  # what an arena is made larger for
BELOW_NS = 500_000
BATCH_NS = 2_000_000
BATCH_COUNT = 6
BATCHES_S = 20.0  # beyond this one is enough: where a reference takes a second, comparing takes minutes
FLOOR = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Times per launch, and how many launches a batch had."""

    times: wire.Samples
    size: int


def batch_size(estimate_ns: int, bench: WorkloadContext, arena_bytes: int) -> int:
    """As many as make a batch long next to the clock's noise, and fit; 0 where one launch is long enough, or few fit."""
    if estimate_ns >= BELOW_NS:
        return 0
    size = min(BATCH_LIMIT, arena_bytes // placement_bytes(bench.problem, bench.workload), BATCH_NS // max(estimate_ns, 1))
    return size if size >= FLOOR else 0


def time_batches(
    subject: RunnerLink,
    trusted: RunnerLink,
    bench: WorkloadContext,
    own: WorkloadContext,
    estimate_ns: int,
    signs: Heartbeat,
    *,
    copies: bool,
) -> Generator[wire.Progress, None, Batch | wire.Trial | None]:
    """Time some batches, less what publishing and reading that many takes; a trial where a launch failed; None where none is needed."""
    size = batch_size(estimate_ns, bench, min(subject.arena.size_bytes, trusted.arena.size_bytes))
    if not size:
        return None
    nulls, taken, begun = [], [], time.monotonic()
    nothing = RunOptions(operation=Operation.NULL, limit_s=60.0, copy_out=copies, count=size, warm_count=WARM_COUNT, inspect=False)
    for index in range(BATCH_COUNT + 1):
        if index > 1 and time.monotonic() - begun > BATCHES_S:
            break
        empty = run_batch(trusted, own, nothing)
        nulls.append(empty[0].duration_ns)
        done = run_batch(subject, bench, RunOptions(count=size, warm_count=WARM_COUNT))
        for one in done:
            trial = judge_run(one, bench, wire.TrialPhase.CERTIFY, 0)
            yield from signs.emit_if_due()
            if trial.outcome is not wire.TrialOutcome.PASSED:
                return trial
        taken.append(done[0].duration_ns)
    null_ns = statistics.median(nulls[1:])
    return Batch(times=wire.Samples(durations_ns=tuple(round((one - null_ns) / size) for one in taken[1:])), size=size)
