"""The judge's clock (DESIGN section 4): certified time, baseline in turns, speedup with an interval.

Null runs go through the trusted baseline runner, never through the subject: a subject that is slow at doing nothing would be forgiven
time it really took. Turns are ABBA, so that a drift of the machine falls on both alike.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from sandbox import wire
from sandbox.gate import Answer, Call, Operation
from sandbox.judge.runner_link import RunnerLink
from sandbox.judge.trial import Bench, Run, judge_run, run

NULL_COUNT = 12
TURN_LIMIT = 8  # ABBA turns, two certified runs of the subject in each
TURN_FLOOR = 2
ALONE_COUNT = 6
BASELINE_S = 60.0  # trusted, so not held to the problem's trial_s; beyond this the judge itself is unwell
BENCH_NS = 400_000_000
# How much slower than alone the baseline may run beside an idle subject before that is the subject's doing (cheating F2).
SLOWED_FACTOR = {wire.Clock.DEVICE_EVENTS: 1.1, wire.Clock.HOST: 2.0}
# Student's t, 97.5 %, by degrees of freedom; beyond the table the normal's 1.96 is close enough for at most 16 turns.
_T = (math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13)


def turn_count(subject_ns: int, budget_s: float) -> int:
    """How many ABBA turns: decided by the judge from a verified run, within the budget."""
    return max(TURN_FLOOR, min(TURN_LIMIT, int(budget_s * 1e9 / 4 / max(subject_ns, 1))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """What the trusted runner took by the protocol, in nanoseconds, before there was a subject that could slow it."""

    null_ns: list[int]
    run_ns: list[int]


def time_alone(baseline: RunnerLink, bench: Bench) -> Alone:
    """Time the null run and the baseline while nobody else is there. The first run is a warm-up."""
    runs = [_timed(baseline, bench).duration_ns for _ in range(ALONE_COUNT + 1)][1:]
    return Alone(null_ns=[_null(baseline, bench).duration_ns for _ in range(NULL_COUNT)], run_ns=runs)


def measure(
    subject: RunnerLink, baseline: RunnerLink, bench: Bench, baseline_bench: Bench, turns: int, alone: Alone
) -> Iterator[wire.Trial | wire.Measurement]:
    """Emit a trial for every certified run, and the measurement at the end; end early after a trial that failed."""
    nulls = [_null(baseline, baseline_bench).duration_ns for _ in range(NULL_COUNT)]
    # The smaller of both: a subject that keeps the machine busy must not be forgiven the protocol's time that it made longer.
    null_ns, floor_ns = int(min(statistics.median(nulls), statistics.median(alone.null_ns))), min(*nulls, *alone.null_ns)
    subject_ns: list[int] = []
    baseline_ns: list[int] = []
    for turn in range(turns):
        for who in "ABBA":
            if who == "B":
                baseline_ns.append(_timed(baseline, baseline_bench).duration_ns)
                continue
            done = run(subject, bench, Operation.CALL, poison_allocations=False, stir=turn % 2 == 0)
            trial = judge_run(done, bench, wire.TrialPhase.CERTIFY, len(subject_ns))
            yield trial
            if trial.outcome is not wire.TrialOutcome.PASSED:
                return
            subject_ns.append(done.duration_ns)
    reported = _reported(subject, bench)
    slowed = statistics.median(baseline_ns) > SLOWED_FACTOR[subject.device.CLOCK] * statistics.median(alone.run_ns)
    if slowed:
        baseline_ns = [int(statistics.median(alone.run_ns))] * len(baseline_ns)
    bound_ns = int(statistics.median(subject_ns)) - floor_ns
    certified = [one - null_ns for one in subject_ns]
    # Opposite ends, so that what the protocol's own noise gives to the quotient it takes from the subject (DESIGN section 4).
    slow, fast = [one - floor_ns for one in subject_ns], [one - null_ns for one in baseline_ns]
    yield wire.Measurement(
        workload_id=bench.workload.workload_id,
        hidden=bench.workload.hidden,
        clock=subject.device.CLOCK,
        certified=wire.Samples(durations_ns=tuple(certified)),
        bound_ns=bound_ns,
        floor_ns=floor_ns,
        reported=reported,
        reported_confirmed=reported is not None and confirmed(reported, certified, subject.device.CLOCK),
        baseline_slowed=slowed,
        baselines={"eager": wire.Samples(durations_ns=tuple(fast))},
        speedups=speedup("eager", slow, fast),
    )


def confirmed(reported: wire.Samples, certified: list[int], clock: wire.Clock) -> bool:
    """Whether the claim agrees with the judge's clock: within max(25 us, 5 %) by device clock; the host's clock of a shared machine,
    where kernel and judge compete for cores, is given max(5 ms, 60 %)."""
    claim, seen = statistics.median(reported.durations_ns), statistics.median(certified)
    slack = max(25_000, 0.05 * seen) if clock is wire.Clock.DEVICE_EVENTS else max(5_000_000, 0.6 * seen)
    return abs(seen - claim) <= slack


def speedup(baseline: str, subject_ns: list[int], baseline_ns: list[int]) -> tuple[wire.Speedup, ...]:
    """The geometric mean of the turns' ratios with a 95 % interval of their logarithms (Student's t).

    None where a turn of either is at or below the protocol's floor: a time that small is no time, and fails closed.
    """
    turns = range(0, len(subject_ns) - 1, 2)
    pairs = [(baseline_ns[at] + baseline_ns[at + 1], subject_ns[at] + subject_ns[at + 1]) for at in turns]
    if len(pairs) < 2 or min(min(pair) for pair in pairs) <= 0:
        return ()
    logs = [math.log(theirs / ours) for theirs, ours in pairs]
    mean = statistics.fmean(logs)
    half = _T[min(len(logs) - 1, len(_T) - 1)] * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = math.exp(mean - half), math.exp(min(mean + half, 700.0))
    return (wire.Speedup(baseline=baseline, ratio=math.exp(mean), ratio_low=low, ratio_high=high),)


def _null(baseline: RunnerLink, bench: Bench) -> Run:
    return run(baseline, bench, Operation.NULL, poison_allocations=False, stir=False, limit_s=BASELINE_S)


def _timed(baseline: RunnerLink, bench: Bench) -> Run:
    done = run(baseline, bench, Operation.CALL, poison_allocations=False, stir=False, limit_s=BASELINE_S + bench.problem.trial_s)
    if not isinstance(done.reply, Answer):
        raise RuntimeError("the baseline's runner did not answer")
    return done


def _reported(subject: RunnerLink, bench: Bench) -> wire.Samples | None:
    """The subject's own do_bench on the last placement: a claim."""
    placement = bench.next_placement()
    call = Call(
        operation=Operation.BENCH,
        inputs=placement.inputs,
        outputs=placement.outputs,
        axes=tuple(bench.workload.axes[name] for name in bench.problem.axes),
        budget_ns=BENCH_NS,
    )
    # do_bench keeps its budget but for a handful of launches and cache writes; a runner that is slower than this is not coming back.
    reply = subject.call(call, 10 * BENCH_NS / 1e9 + 8 * bench.problem.trial_s)
    if isinstance(reply, Answer) and reply.samples_ns and all(reply.samples_ns):
        return wire.Samples(durations_ns=reply.samples_ns)
    return None
