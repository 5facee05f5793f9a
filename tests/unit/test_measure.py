"""Measurements of the clock's samples."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Generator, Mapping, Sequence
from types import SimpleNamespace

import pytest

from grader.dispatch.lanes import CUDA_SILENCE_S, SILENCE_S
from sandbox.judge import timing
from sandbox.judge.timing import (
    EAGER,
    NULL,
    OWN_NULL,
    SUBJECT,
    Bias,
    HalfWidth,
    InterimEstimate,
    LookAllowance,
    NoiseKind,
    SoloTimings,
    Times,
    baseline_times,
    classify_noise,
    overhead_allowance,
    steady,
    subtract_overhead,
    undisturbed_count,
)
from sandbox.protocol import wire
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    from sandbox.judge import measure
    from sandbox.judge.baseline import SIGN_S, Heartbeat, train_length
    from sandbox.judge.measure import TURN_LIMITS, _shortest_ns, bench_limit_s, confirmed, merge_trials, plan_turns


def speedup(subject: Sequence[float], baseline: Sequence[float], **bias: float) -> tuple[wire.Speedup, ...]:
    return timing.speedup("eager", subject, baseline, timing.interval_width(subject, baseline, Bias(**bias)))


def test_a_steady_ratio_has_a_narrow_interval() -> None:
    (figure,) = speedup([100] * 4, [200] * 4)
    assert (figure.ratio, figure.ratio_low, figure.ratio_high) == pytest.approx((2.0, 2.0, 2.0))


def test_a_noisy_ratio_has_an_interval_that_holds_its_mean() -> None:
    """Student's t over the turns' logarithms, against numbers worked out by hand: ln ratios 0, ln 1.1025; t(1) = 12.706."""
    (figure,) = speedup([100, 100], [100, 110.25])
    half = 12.7062 * (math.log(1.1025) / math.sqrt(2)) / math.sqrt(2)
    assert figure.ratio == pytest.approx(1.05)
    assert figure.ratio_low == pytest.approx(1.05 * math.exp(-half)) and figure.ratio_high == pytest.approx(1.05 * math.exp(half))


def test_a_ratio_whose_interval_spans_more_than_four_is_no_figure() -> None:
    """Two turns, of which one says 1 and the other 4, say nothing; those of 1 and 1.1 do."""
    assert speedup([100, 100], [100, 400]) == ()
    assert len(speedup([100, 100], [100, 110])) == 1


def test_a_drift_that_hits_both_cancels() -> None:
    """In ABBA order a machine that gets slower by the same factor each turn does not change the ratio."""
    (figure,) = speedup([105, 155], [210, 310])
    assert figure.ratio == pytest.approx(2.0)


@pytest.mark.parametrize(("subject", "baseline"), [([100, -100], [200] * 2), ([100] * 2, [200, -300]), ([100], [200])])
def test_a_time_below_the_floor_fails_closed(subject: list[int], baseline: list[int]) -> None:
    assert speedup(subject, baseline) == ()


def test_the_judge_decides_how_many_turns() -> None:
    """Slow kernels get fewer, none gets less than two, nobody gets more than the limit; a fifth of the budget is kept for runs that take
    longer than those before the first turn."""
    for clock, limits in TURN_LIMITS.items():
        assert (plan_turns(clock, 1000.0, 20.0), plan_turns(clock, 1e-9, 20.0)) == limits
    assert plan_turns(wire.Clock.DEVICE_EVENTS, 1.0, 20.0) == 8
    assert plan_turns(wire.Clock.DEVICE_EVENTS, 0.1, 10.0, between_s=0.2) == 20


def test_a_long_kernel_is_not_run_more_often_than_its_interval_needs() -> None:
    """Scatter of some microseconds is soon known to half a percent of milliseconds."""
    lengths = [train_length(subject_ns, 24) for subject_ns in (1e4, 1e5, 5e5, 1e6, 1e7)]
    assert lengths == sorted(lengths, reverse=True) and 6 >= lengths[0] > lengths[-1] == 1
    assert train_length(1e4, 2) == 2 and train_length(1e4, 1) == 1  # no more than fit


def test_one_fact_for_many_runs_keeps_the_worst_of_them() -> None:
    fact = dataclasses.replace(fakes.trial(), index=4, max_absolute_error=0.1, budget_ratio=0.2, duration_ns=10)
    figure = merge_trials([fact, dataclasses.replace(fact, index=5, max_absolute_error=0.3, budget_ratio=0.1, duration_ns=30), fact])
    assert (figure.index, figure.run_count, figure.max_absolute_error, figure.budget_ratio, figure.duration_ns) == (4, 3, 0.3, 0.2, 10)


def test_a_claim_is_confirmed_only_near_the_clock() -> None:
    """25 us or 5 % on a device clock; a claim that is a half is not confirmed, an honest one is."""
    certified = wire.Samples(durations_ns=(1_000_000,) * 5)
    assert confirmed(wire.Samples(durations_ns=(960_000,)), certified, wire.Clock.DEVICE_EVENTS)
    assert not confirmed(wire.Samples(durations_ns=(500_000,)), certified, wire.Clock.DEVICE_EVENTS)
    assert not confirmed(wire.Samples(durations_ns=(1_500_000,)), certified, wire.Clock.DEVICE_EVENTS)


@pytest.mark.parametrize(("clock", "seen_ns"), [(wire.Clock.HOST, 3_400_000), (wire.Clock.DEVICE_EVENTS, 12_000)])
def test_a_claim_of_a_nanosecond_is_not_confirmed(clock: wire.Clock, seen_ns: int) -> None:
    """Both lie within the clock's slack, which is the control: a claim that is not below half of the certified time is confirmed."""
    certified = wire.Samples(durations_ns=(seen_ns,) * 5)
    assert not confirmed(wire.Samples(durations_ns=(1,)), certified, clock)
    assert not confirmed(wire.Samples(durations_ns=(seen_ns * 49 // 100,)), certified, clock)
    assert confirmed(wire.Samples(durations_ns=(seen_ns // 2,)), certified, clock)


def test_what_time_does_not_average_out_widens_the_interval() -> None:
    """A steady ratio of two processes is known no better than two of the same kind agree: 10 of 100 ns, and half a percent."""
    (figure,) = speedup([100.0] * 4, [200.0] * 4, apart_ns=10.0)
    assert (figure.ratio_low, figure.ratio_high) == pytest.approx((2.0 * math.exp(-0.1), 2.0 * math.exp(0.1)))
    (figure,) = speedup([100.0] * 4, [200.0] * 4, apart_share=0.005)
    assert figure.ratio_high / figure.ratio == pytest.approx(math.exp(0.005))


@pytest.mark.parametrize(("baseline_ns", "width"), [(200.0, 10 / 100 - 10 / 200), (50.0, 10 / 50 - 10 / 100), (100.0, 0.0)])
def test_an_error_that_both_times_share_counts_where_they_differ(baseline_ns: float, width: float) -> None:
    """A kernel that takes as long as the baseline is in a tie, whatever the protocol costs."""
    (figure,) = speedup([100.0] * 4, [baseline_ns] * 4, common_ns=10.0)
    assert math.log(figure.ratio_high / figure.ratio) == pytest.approx(width)


def test_what_a_host_adds_now_and_then_moves_a_time_by_little() -> None:
    """A core that is slow for less than half of the runs counts as 3 us for each, however slow; so does one run in twenty that seems to
    have taken nothing."""
    still = [10, 11, 12, 13] * 5
    assert steady([*still[:11], *[1_000_000] * 9]) == pytest.approx(steady(still) + 9 / 20 * 3_000, abs=1)
    assert steady([*still[:19], -5000]) == pytest.approx(steady(still) - 1 / 20 * 3_000, abs=1)
    assert (steady([5]), steady([5, 7])) == (5.0, 6.0)


@pytest.mark.parametrize("more_ns", [100, 2_900, 3_100, 50_000])
def test_no_run_that_is_slower_makes_a_kernel_look_faster(more_ns: int) -> None:
    """Whichever it is. A mean of what lies near the median, the control, falls where a run leaves the window."""

    def near_the_median(values: list[int]) -> float:
        return statistics.fmean(value for value in values if value <= statistics.median_low(values) + 3_000)

    runs = [20_000, 20_500, 21_000, 21_400, 22_000, 22_300, 22_900, 23_500, 23_900, 24_300]
    slower_runs = [[*runs[:index], runs[index] + more_ns, *runs[index + 1 :]] for index in range(len(runs))]
    assert all(steady(slower) >= steady(runs) for slower in slower_runs)
    assert more_ns < 1_000 or any(near_the_median(slower) < near_the_median(runs) for slower in slower_runs)


def test_runs_that_are_slow_on_purpose_cost_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of them, for what they save the others. The control: of the lower half alone they cost nothing."""
    bimodal = [20_000] * 5 + [40_000] * 5
    assert steady(bimodal) == 21_500
    monkeypatch.setattr(timing, "REACH_NS", 0.0)
    monkeypatch.setattr(timing, "REACH_SHARE", 0.0)
    assert steady(bimodal) == 20_000


class TimingSetup:
    """The part of TimingSetup that `slowed` and `measure` use."""

    clock = wire.Clock.DEVICE_EVENTS
    copies = True
    copy_ns = 0.0

    def __init__(self, alone_ns: int, null_work_ns: float = 0.0) -> None:
        self.null_work_ns = null_work_ns
        self.alone = SoloTimings(
            null_ns={False: [300_000], True: [300_000]},
            floor_ns=[290_000],
            run_ns={"eager": [300_000 + alone_ns]},
            null_work_ns={False: null_work_ns, True: null_work_ns},
        )


def _times(subject: list[int], eager: list[int], null: list[int]) -> Times:
    return Times(taken_ns={"subject": [subject] * 12, "eager": [eager] * 12, NULL[True]: [null] * 12})


def test_a_baseline_that_was_slowed_counts_as_alone() -> None:
    """A gross time is mostly the protocol: 63 us instead of 30 is a tenth of it, and twice the speedup."""
    parties = TimingSetup(alone_ns=30_000)
    slowed = baseline_times(parties, _times([0], [363_000] * 4, [300_000] * 4), [])["eager"]  # type: ignore[arg-type]
    assert slowed.slowed and set(slowed.turns_ns) == {30_000}
    honest = baseline_times(parties, _times([0], [331_000] * 4, [300_000] * 4), [])["eager"]  # type: ignore[arg-type]
    assert not honest.slowed and set(honest.turns_ns) == {31_000}
    parties = TimingSetup(alone_ns=30_000, null_work_ns=5_000.0)  # of a null run and of nothing else
    assert set(baseline_times(parties, _times([0], [331_000] * 4, [300_000] * 4), [])["eager"].turns_ns) == {36_000}  # type: ignore[arg-type]


def test_null_runs_forgive_no_more_than_alone_and_a_little() -> None:
    """A turn's own null runs, held to what they took before there was a subject; the null kernel's own time is not the protocol's."""
    parties, times = TimingSetup(alone_ns=1), _times([400_000], [], [303_000] * 8)
    assert set(overhead_allowance(parties, times, [], NoiseKind.NONE)) == {303_000.0}  # type: ignore[arg-type]
    longer = _times([400_000], [], [340_000] * 60)
    assert set(overhead_allowance(parties, longer, [], NoiseKind.NONE)) == {305_000.0}  # type: ignore[arg-type]
    assert set(overhead_allowance(parties, longer, [], NoiseKind.SCATTER)) == {300_000.0}  # type: ignore[arg-type]
    assert set(overhead_allowance(parties, longer, [], NoiseKind.SLOWER)) == {300_000.0}  # type: ignore[arg-type]
    least = _times([400_000], [], [299_000] + [312_000] * 30)
    assert set(overhead_allowance(parties, least, [], NoiseKind.SCATTER)) == {299_000.0}  # type: ignore[arg-type]
    for own_ns, forgiven_ns in ((296_000, 296_000), (304_000, 304_000), (340_000, 305_000)):  # of the subject's own word so much
        times.taken_ns[OWN_NULL] = [[own_ns] * 8] * 12
        assert set(overhead_allowance(parties, times, [], NoiseKind.NONE)) == {float(forgiven_ns)}  # type: ignore[arg-type]
    del times.taken_ns[OWN_NULL]
    parties = TimingSetup(alone_ns=1, null_work_ns=5_000.0)
    assert set(overhead_allowance(parties, times, [], NoiseKind.NONE)) == {298_000.0}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("own_nulls", "least_ns"),
    [
        ([[300_000, 301_000]] * 12, 109_000),  # the control: a process as quick as the trusted one explains nothing
        ([[420_000, 405_000]] * 12, 0),
        ([[300_000, 380_000]] * 9 + [[300_000, 900_000]] * 3, 30_000),
        ([[300_000, 301_000]] * 11 + [[300_000, 5_000_000]], 109_000),
    ],
)
def test_a_slow_launch_is_not_tampering(own_nulls: list[list[int]], least_ns: int) -> None:
    """3 us claimed and at least 110 seen: where scalars are late the launch is in the clock, and the kernel's own null runs tell that its
    box launches so slowly. Where they are known before, no launch is in the clock, and null runs of its own explain nothing."""
    parties, times = TimingSetup(alone_ns=1), _times([410_000, 450_000], [], [300_000] * 8)
    times.taken_ns[OWN_NULL] = own_nulls

    def least(*distributions: str) -> int | None:
        inputs = [SimpleNamespace(shape=(), distribution=SimpleNamespace(kind=kind)) for kind in distributions]
        bench = SimpleNamespace(task=SimpleNamespace(draw=None), problem=SimpleNamespace(inputs=inputs))
        return _shortest_ns(parties, bench, times, 110_000, [])  # type: ignore[arg-type]

    assert least("uniform") == least_ns
    assert least("constant") is None and least() is None


def test_a_device_that_somebody_keeps_busy_is_seen() -> None:
    """By null runs that scatter, or that all take longer than alone; an odd one is nothing."""
    assert classify_noise([[299_000] + [312_000] * 30 + [500_000] * 29] * 12, 311_000) is NoiseKind.SCATTER
    assert classify_noise([[340_000] * 8] * 12, 300_000) is NoiseKind.SLOWER
    assert classify_noise([[303_000] * 8] * 12, 300_000) is NoiseKind.NONE
    assert classify_noise([[303_000] * 8] * 10 + [[340_000] * 8] * 2, 300_000) is NoiseKind.NONE


def test_turns_in_which_the_subjects_process_was_slow_are_counted() -> None:
    """A trusted null run that somebody slowed does not make the subject's believed."""
    still, slow = [300_000] * 8, [309_000] * 8
    assert undisturbed_count([still, slow, still, still], [still] * 4, 300_000.0) == 3
    assert undisturbed_count([slow, still, still], [slow, still, still], 300_000.0) == 2
    assert undisturbed_count([[306_000] * 8] * 2, [[305_000] * 8] * 2, 300_000.0) == 2


def _turns_taken(
    monkeypatch: pytest.MonkeyPatch,
    clock: wire.Clock,
    looks: Callable[[int], InterimEstimate],
    *,
    budget_s: float = 20.0,
    turn_s: float = 0.0,
    arms: Mapping[str, Callable[[int], Sequence[object]]] | None = None,
    take_turn: Callable[..., Generator] | None = None,  # type: ignore[type-arg]
) -> tuple[list[wire.Fact], Times]:
    """Return the facts that `take_turns` emits of turns that do nothing but let time pass; looks: by the number of turns."""
    now_s, times = [0.0], Times()

    def turn(_among: object, _bench: object, _length: int, times: Times, _index: int, signs: Heartbeat) -> Generator:  # type: ignore[type-arg]
        yield from signs.emit_if_due()
        now_s[0] += turn_s
        times.taken_ns.setdefault(SUBJECT, []).append([1])
        return fakes.trial()

    monkeypatch.setattr(measure, "contestants", lambda *_: arms or {})
    monkeypatch.setattr(measure, "judge_run", lambda *_: fakes.trial())
    monkeypatch.setattr(measure, "_turn", take_turn or turn)
    monkeypatch.setattr(measure, "longest_train", lambda *_: 5 if arms else 1)
    monkeypatch.setattr(measure, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(measure, "gc", SimpleNamespace(collect=lambda: 0))  # between turns; all of a test process takes half a second
    parties = SimpleNamespace(
        clock=clock,
        copies=True,
        budget_s=budget_s,
        precision=0.01,
        allowance=LookAllowance.FACTOR,
        alone=TimingSetup(alone_ns=1).alone,
        subject=SimpleNamespace(device=SimpleNamespace(conditions=lambda *_: {})),
        trusted=None,
    )
    bench = SimpleNamespace(workload=SimpleNamespace(workload_id="n"))
    signs = Heartbeat(wire.Stage.MEASURING)
    facts = measure.take_turns(
        *(parties, bench, bench, times, signs),  # type: ignore[arg-type]
        lambda: looks(len(times.taken_ns[SUBJECT])),
    )
    return list(facts), times


@pytest.mark.parametrize(("quiet_from", "turns", "end"), [(0, 12, "width"), (13, 18, "width"), (29, 40, "width"), (99, 60, "turns")])
def test_turns_are_taken_until_enough_of_them_are_quiet(quiet_from: int, turns: int, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the next look; a host that is never quiet, or a subject that dawdles, gets sixty and no more. What was taken is planned."""
    narrow = HalfWidth(sampled=0.001, bias=0.002)
    facts, times = _turns_taken(
        monkeypatch, wire.Clock.DEVICE_EVENTS, lambda turn: InterimEstimate(quiet=turn >= quiet_from, widths=(narrow,))
    )
    assert sum(isinstance(fact, wire.Trial) for fact in facts) == turns
    assert times.end == wire.MeasurementEnd(end) and times.allowance is LookAllowance.FACTOR
    *_, (last, *_) = (fact.trials for fact in facts if isinstance(fact, wire.Plan))
    assert last == ("n", wire.TrialPhase.CERTIFY, 2 * turns)


@pytest.mark.parametrize(
    ("clock", "turn_s", "turns", "allowance"),
    [
        (wire.Clock.DEVICE_EVENTS, 0.0, 60, "FACTOR"),  # the control
        (wire.Clock.DEVICE_EVENTS, 1.0, 21, "CUT_SHORT"),
        (wire.Clock.DEVICE_EVENTS, 100.0, 3, "CUT_SHORT"),
        (wire.Clock.HOST, 1.0, 8, "NONE"),  # nothing is looked at
        (wire.Clock.HOST, 100.0, 2, "CUT_SHORT"),
    ],
)
def test_the_budget_is_not_longer_for_a_subject_that_gets_slow(
    clock: wire.Clock, turn_s: float, turns: int, allowance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns end with it, but for the least that there are, and the interval is as wide as of an end that the subject chose."""
    wide = HalfWidth(sampled=0.1, bias=0.002)
    _, times = _turns_taken(monkeypatch, clock, lambda _: InterimEstimate(quiet=True, widths=(wide,)), turn_s=turn_s)
    assert len(times.taken_ns[SUBJECT]) == turns and times.allowance is LookAllowance[allowance]
    assert times.end is (wire.MeasurementEnd.BUDGET if allowance == "CUT_SHORT" else wire.MeasurementEnd.TURNS)


@pytest.mark.parametrize(
    ("slow_places", "slice_ns", "length"), [(range(4), 2_000_000, 1), (range(0), 0, 5), (range(4), 400_000, 5), (range(1), 2_000_000, 5)]
)
def test_a_kernel_that_a_train_slows_is_run_alone(slow_places: range, slice_ns: int, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where four runs of five take a time slice more than a single one: by streams that wait for one another. The controls: none does, all
    do a little, one does."""
    lengths: list[int] = []

    def train(count: int) -> list[SimpleNamespace]:
        return [SimpleNamespace(duration_ns=9_000 + slice_ns * (count > 1 and place in slow_places)) for place in range(count)]

    def turn(_among: object, _bench: object, length: int, times: Times, *_: object) -> Generator:  # type: ignore[type-arg]
        lengths.append(length)
        times.taken_ns.setdefault(SUBJECT, []).append([1])
        yield from ()
        return fakes.trial()

    _turns_taken(monkeypatch, wire.Clock.DEVICE_EVENTS, lambda _: measure.NOTHING_SEEN, arms={SUBJECT: train}, take_turn=turn)
    assert set(lengths) == {length}


def test_a_process_that_is_slow_in_most_turns_is_said() -> None:
    """Its time holds what its own null runs took more, which is no kernel's fault; where a few turns are so, the others count."""
    still, slow = [300_000] * 8, [309_000] * 8

    def unrest(own_nulls: list[list[int]]) -> NoiseKind:
        times = Times(taken_ns={SUBJECT: [[400_000] * 8] * 4, EAGER: [[400_000] * 8] * 4, NULL[True]: [still] * 4, OWN_NULL: own_nulls})
        return subtract_overhead(TimingSetup(alone_ns=100_000), times, {True: []}, 0).unrest  # type: ignore[arg-type]

    assert unrest([slow, slow, still, still]) is NoiseKind.OWN
    assert unrest([slow, still, still, still]) is NoiseKind.NONE


@pytest.mark.parametrize(("slow_count", "quiet"), [(3, False), (2, False), (1, True)])
def test_a_look_ends_turns_where_three_quarters_are_quiet(slow_count: int, quiet: bool) -> None:
    """All of them count in any case: a subject decides by its own null runs which are quiet."""
    still, slow = [300_000] * 8, [309_000] * 8
    own_nulls, theirs = [slow] * slow_count + [still] * (7 - slow_count), [still] * 7
    times = Times(taken_ns={SUBJECT: [[400_000] * 8] * 7, EAGER: [[400_000] * 8] * 7, OWN_NULL: own_nulls, NULL[True]: theirs})
    net = subtract_overhead(TimingSetup(alone_ns=100_000), times, {True: [300_000]}, 0)  # type: ignore[arg-type]
    assert net.look.quiet is quiet and len(net.certified.durations_ns) == 8 * 7


@pytest.mark.parametrize(("apart_ns", "wider"), [(0, False), (1_000, False), (4_000, True), (-4_000, True)])
def test_an_interval_is_wider_where_one_process_is_slower_than_the_other(apart_ns: int, wider: bool) -> None:
    """The process is slower by more than its null runs tell: in a busy hour a kernel was 2 % faster than itself (record 0014)."""
    # A subject whose null runs are slower is forgiven 2 us of them, and its turns count where they are most of all.
    own_nulls = [[300_000 - apart_ns] * 8] * 12
    times = Times(
        taken_ns={
            SUBJECT: [[400_000 - apart_ns] * 8] * 12,
            EAGER: [[400_000] * 8] * 12,
            NULL[True]: [[300_000] * 8] * 12,
            OWN_NULL: own_nulls,
        }
    )
    (figure,) = subtract_overhead(TimingSetup(alone_ns=100_000), times, {True: [300_000]}, 0).speedups  # type: ignore[arg-type]
    half = math.log(figure.ratio_high / figure.ratio_low) / 2
    assert half == pytest.approx(math.hypot(*([2_500 / 100_000] if wider else []), 400 / 100_000, 0.002), rel=0.03)


@pytest.mark.parametrize("trial_s", [0.1, 1.0, 10.0, 30.0, 300.0])
@pytest.mark.parametrize("usual_s", [SILENCE_S, CUDA_SILENCE_S])
def test_who_never_comes_back_from_do_bench_does_not_make_the_judge_look_dead(trial_s: float, usual_s: float) -> None:
    """A kernel that takes nearly as long as it may in every call, and then for ever: its judge was ended, three times, at nobody's cost.
    There is time enough for one that comes back."""
    for launch_ns in (None, trial_s * 1e9):
        assert bench_limit_s(trial_s, launch_ns) + SIGN_S < usual_s + 3 * trial_s
    assert bench_limit_s(trial_s, 1e9 * min(trial_s, 20.0)) > 8 * min(trial_s, 20.0)
