"""Grades for a rehearsal: facts and times are made up, nothing is built or run.  Everything behind the facts is the real server."""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum

from grader import devices
from grader.config import Settings
from grader.model import Lease
from grader.server.grading import Grading, Wiring
from sandbox.protocol import wire
from sandbox.protocol.signatures import rule_of

STEP_S = 0.2  # so that somebody can watch a submission; the ledger is filled without it
CAPACITY = 4
ISOLATION = "none: nothing is run"
SAMPLE_COUNT = 24  # of each workload in each process
HALF_WIDTH = 0.01  # of the interval of one process
SCATTER = 0.004  # between processes
_ORDER = re.compile(r"simulated: outcome=(\w+) speedup=([0-9.]+)")


class SimulatedOutcome(StrEnum):
    """What a made-up source says that becomes of it."""

    ACCEPTED = "accepted"
    WRONG = "wrong"
    REJECTED = "rejected"  # by the compiler
    UNRESOLVED = "unresolved"  # right, and not scored: the times of one process could not be distinguished
    FLAKY = "flaky"  # right when it was submitted, wrong when it is run again


def order_line(outcome: SimulatedOutcome, speedup: float) -> str:
    """The line of a source that says what becomes of it."""
    return f"simulated: outcome={outcome} speedup={speedup:.3f}"


def wiring(seed: int, device_kinds: Sequence[str]) -> Wiring:
    """A server that grades by made-up facts, and offers these devices."""

    async def grade(lease: Lease) -> AsyncIterator[wire.Fact]:
        for fact in facts(lease, seed):
            yield fact
            if isinstance(fact, wire.Build | wire.Load | wire.Round):
                await asyncio.sleep(STEP_S)

    @asynccontextmanager
    async def wired(settings: Settings) -> AsyncIterator[Grading]:
        yield Grading(grade=grade, capacity=lambda: CAPACITY, device_kinds=lambda: tuple(device_kinds), isolation=ISOLATION, safe=True)

    return wired


def facts(lease: Lease, seed: int) -> Iterator[wire.Fact]:
    """What a judge would have said. The same for the same seed and source; a run of a rejudge has times of its own."""
    text = "\0".join(one.content for one in lease.submission.new.sources)
    again = bool(lease.submission.rejudge_id)
    rng = random.Random(f"{seed}/{again}/{hashlib.sha256(text.encode()).hexdigest()}")
    outcome, speedup = _ordered(text, rng)
    yield wire.Environment(device=devices.SIMULATED, device_kind=_kind(lease), clock=wire.Clock.HOST, isolation=ISOLATION)
    if outcome is SimulatedOutcome.REJECTED:
        log = f"{lease.submission.new.sources[0].path}:3:1: error: a made-up error of a rehearsal\n"
        yield wire.Build(outcome=wire.BuildOutcome.REJECTED, log=log)
        return
    yield wire.Build(outcome=wire.BuildOutcome.BUILT, artifact_digest=hashlib.sha256(text.encode()).hexdigest())
    wrong = outcome is SimulatedOutcome.WRONG or (outcome is SimulatedOutcome.FLAKY and again)
    count = lease.ranking.process_count if lease.ranking else 1
    for index in range(1 if wrong else count):
        if lease.ranking:
            yield wire.Round(index=index, count=count)
        unresolved = outcome is SimulatedOutcome.UNRESOLVED and index == 0
        yield from _process(lease, rng, None if unresolved else speedup * math.exp(rng.gauss(0, SCATTER)), wrong=wrong)


def _ordered(text: str, rng: random.Random) -> tuple[SimulatedOutcome, float]:
    """What the source says; of a kernel that says nothing, a speedup that depends on its text."""
    found = _ORDER.search(text)
    if found is None or found[1] not in tuple(SimulatedOutcome):
        return SimulatedOutcome.ACCEPTED, rng.uniform(0.8, 3.8)
    return SimulatedOutcome(found[1]), max(float(found[2]), 0.01)


def _kind(lease: Lease) -> str:
    asked = lease.submission.new.device_kind
    return devices.EMULATED if asked == devices.EMULATED else devices.CUDA


def _process(lease: Lease, rng: random.Random, speedup: float | None, *, wrong: bool) -> Iterator[wire.Fact]:
    """All that one process has to show. speedup None: its times say nothing."""
    spec, timed = lease.problem.spec, lease.ranking is not None or lease.submission.new.mode is wire.Mode.BENCHMARK
    everything = lease.ranking is not None
    workloads = [one for one in spec.workloads if one.device_kind in ("", _kind(lease)) and (everything or not one.hidden)]
    names = tuple(one.workload_id for one in workloads)
    plan = tuple((name, wire.TrialPhase.VERIFY, 1) for name in names)
    yield wire.Plan(trials=plan, measured=names if timed else (), rule=rule_of(spec))
    yield wire.Load(outcome=wire.LoadOutcome.LOADED)
    for workload in workloads:
        yield _trial(workload, wrong=wrong)
        if wrong:
            break
    else:
        baselines = dict.fromkeys(("eager", *spec.baselines))
        yield from (_measurement(one, tuple(baselines), rng, speedup) for one in workloads if timed)
    yield wire.Finished(job_id=lease.submission.submission_id)


def _trial(workload: wire.Workload, *, wrong: bool) -> wire.Trial:
    elements = max(math.prod(workload.axes.values()), 1)
    return wire.Trial(
        workload_id=workload.workload_id,
        phase=wire.TrialPhase.VERIFY,
        index=0,
        outcome=wire.TrialOutcome.MISMATCHED if wrong else wire.TrialOutcome.PASSED,
        hidden=workload.hidden,
        element_count=elements,
        mismatched_count=max(elements // 11, 1) if wrong else 0,
        max_absolute_error=0.5 if wrong else 0.0,
    )


def _measurement(workload: wire.Workload, baselines: Sequence[str], rng: random.Random, speedup: float | None) -> wire.Measurement:
    eager_ns = 50_000 + min(math.prod(workload.axes.values()), 10**10) // 100
    ratio = speedup if speedup is not None else 1.0
    certified = _samples(rng, eager_ns / ratio)
    return wire.Measurement(
        workload_id=workload.workload_id,
        clock=wire.Clock.HOST,
        certified=certified,
        bound_ns=max(certified.durations_ns),
        floor_ns=1000,
        hidden=workload.hidden,
        reported=certified,
        reported_confirmed=True,
        baselines={name: _samples(rng, eager_ns) for name in baselines},
        speedups=tuple(_speedup(name, ratio) for name in baselines) if speedup is not None else (),
        turn_count=SAMPLE_COUNT,
    )


def _speedup(baseline: str, ratio: float) -> wire.Speedup:
    return wire.Speedup(baseline=baseline, ratio=ratio, ratio_low=ratio * (1 - HALF_WIDTH), ratio_high=ratio * (1 + HALF_WIDTH))


def _samples(rng: random.Random, middle_ns: float) -> wire.Samples:
    return wire.Samples(durations_ns=tuple(max(int(middle_ns * math.exp(rng.gauss(0, 0.01))), 1) for _ in range(SAMPLE_COUNT)))
