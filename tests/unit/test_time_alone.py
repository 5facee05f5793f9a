"""Times of the trusted runner while nobody else is there, by device clock."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from multiprocessing.context import SpawnProcess
from types import SimpleNamespace
from typing import Any

import pytest

from grader.dispatch.lanes import CUDA_SILENCE_S, SILENCE_S
from sandbox.judge.timing import steady
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, Answer, Operation, Status
from tests import fakes
from tests.collection import AFTER_COLLECTION
from tests.draining import drained

if AFTER_COLLECTION:
    from sandbox.judge import baseline, timing
    from sandbox.judge.references import ReferenceFailed
    from sandbox.judge.trial import Run


PROTOCOL_NS, COPY_NS, EAGER_NS, SPELL_NS = 600_000, 40_000, 90_000, 30_000
PROBE_NS, TOUCH_NS = 25_000, 4_000


def alone(
    monkeypatch: pytest.MonkeyPatch,
    run_of: Callable[[Any], tuple[Answer, int]],
    *,
    baselines: tuple[str, ...] = ("eager",),
    clock: wire.Clock = wire.Clock.DEVICE_EVENTS,
    trial_s: float = 1.0,
    longest: int = 1,
    returned_ns: int = 0,
) -> tuple[list[wire.Fact], timing.SoloTimings]:
    """Time baselines by runs that are answered so and take so long, in trains of up to longest; the facts, and the times.
    returned_ns: by how much do_bench is longer of a probe that returns its outputs."""

    last: list[Any] = []

    def run_train(_runner: Any, _bench: Any, how: Any) -> list[Run]:
        last[:] = [how]
        answers = [run_of(how) for _ in range(how.count)]
        return [Run(key="", reply=reply, duration_ns=duration_ns, inputs=[]) for reply, duration_ns in answers]

    monkeypatch.setattr(baseline, "run", lambda *arguments: run_train(*arguments)[0])
    monkeypatch.setattr(baseline, "run_train", run_train)
    monkeypatch.setattr(baseline, "longest_train", lambda *_: longest)

    def bench_of_last(*_: object) -> Answer:
        return Answer(status=Status.OK, samples_ns=(PROBE_NS + returned_ns * last[0].copy_out,))

    trusted = SimpleNamespace(device=SimpleNamespace(CLOCK=clock), silence=None, call=bench_of_last)
    bench = SimpleNamespace(problem=SimpleNamespace(trial_s=trial_s, is_repeatable=True), workload=SimpleNamespace(hidden=False))
    return drained(baseline.time_alone(trusted, bench, baselines))  # type: ignore[arg-type, return-value]


def slow_from(number: int, touch_ns: int = TOUCH_NS, copied_ns: int = 0) -> Callable[[Any], tuple[Answer, int]]:
    """Runs on a host that gets slow at the one of this number. touch_ns: of a probe's run, beyond its do_bench. copied_ns: by how much
    its copy takes longer than a null run's."""
    numbers = itertools.count()

    def run_of(how: Any) -> tuple[Answer, int]:
        call_ns = PROBE_NS + touch_ns if how.variant == baseline.VARIANTS[timing.PROBE] else EAGER_NS
        call_ns += copied_ns * how.copy_out * (how.variant == baseline.VARIANTS[timing.PROBE])
        duration_ns = PROTOCOL_NS + COPY_NS * how.copy_out + (call_ns if how.operation is Operation.CALL else 0)
        return FINE, duration_ns + (SPELL_NS if next(numbers) >= number else 0)

    return run_of


@pytest.mark.parametrize(("longest", "share"), [(1, 0.1), (24, 0.5)])
@pytest.mark.parametrize("number", [0, 6, 30, 54, 78, 10_000])
def test_a_host_that_gets_slow_meanwhile_is_in_no_difference(
    monkeypatch: pytest.MonkeyPatch, number: int, longest: int, share: float
) -> None:
    """Else eager would be timed in one second and what is subtracted from it in the next. All run as often. Of trains there are fewer, so
    that one of them may be all slow."""
    _, times = alone(monkeypatch, slow_from(number), baselines=("eager", "compile"), longest=longest)
    net_ns = steady(times.run_ns["eager"]) - steady(times.null_ns[True])
    assert abs(net_ns - EAGER_NS) < share * SPELL_NS
    assert abs(steady(times.null_ns[True]) - steady(times.null_ns[False]) - COPY_NS) < share * SPELL_NS
    counts = {len(runs_ns) for runs_ns in (*times.run_ns.values(), *times.null_ns.values())}
    assert len(counts) == 1 and min(counts) >= baseline.ALONE_COUNT[wire.Clock.DEVICE_EVENTS] and set(times.run_ns) == {"eager", "compile"}


@pytest.mark.parametrize(("touch_ns", "expected_ns"), [(TOUCH_NS, -TOUCH_NS), (-9_000, 9_000), (60_000, -10_000)])
def test_what_is_not_the_protocols_is_known_by_the_probe(monkeypatch: pytest.MonkeyPatch, touch_ns: int, expected_ns: int) -> None:
    """Touching memory costs a run what it does not cost a null run; where that seems to be much, something else was slow."""
    _, times = alone(monkeypatch, slow_from(10_000, touch_ns), longest=24)
    assert times.null_work_ns == {False: expected_ns, True: expected_ns}


@pytest.mark.parametrize(("copied_ns", "expected_ns"), [(-3_000, 3_000 - TOUCH_NS), (1_600, -TOUCH_NS)])
def test_a_null_run_does_not_copy_more_quickly_than_the_probe(monkeypatch: pytest.MonkeyPatch, copied_ns: int, expected_ns: int) -> None:
    """Null runs' outputs are cold. Where they are a few bytes, the probe's copy seemed to take 1.6 us longer on an H200: PyTorch's took no
    longer than a null run's, and its sum of 24 MB seemed to be faster by that."""
    _, times = alone(monkeypatch, slow_from(10_000, copied_ns=copied_ns), longest=24)
    assert times.null_work_ns == {False: -TOUCH_NS, True: expected_ns}


def test_a_probe_that_returns_its_outputs_has_a_do_bench_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe writes to other memory; else a microsecond there would be the protocol's."""
    _, times = alone(monkeypatch, slow_from(10_000), longest=24, returned_ns=1_000)
    assert times.null_work_ns == {False: -TOUCH_NS, True: 1_000 - TOUCH_NS}


@pytest.mark.parametrize(("touch_ns", "expected_ns"), [(120_000, -10_000.0), (220_000, 2_300.0)])
def test_a_probe_that_takes_far_longer_than_the_baseline_says_nothing(
    monkeypatch: pytest.MonkeyPatch, touch_ns: int, expected_ns: float
) -> None:
    """A kernel that reads a few rows of a large table does not pay for touching all of it."""
    _, times = alone(monkeypatch, slow_from(10_000, touch_ns), longest=6)
    assert times.null_work_ns == {False: expected_ns, True: expected_ns}


def test_a_null_run_that_the_trusted_runner_refuses_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a train that was never run would be subtracted from everybody."""
    answers = {Operation.NULL: Answer(status=Status.DEVICE_FAULT, message="700: gone")}
    with pytest.raises(RuntimeError, match=r"NULL.*700: gone"):
        alone(monkeypatch, lambda how: (answers.get(how.operation, FINE), 1))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (Answer(status=Status.RAISED, message="ValueError: oops"), "ValueError: oops"),
        (Answer(status=Status.OUT_OF_MEMORY), "out of memory"),
    ],
)
@pytest.mark.parametrize("at", [0, 2])
def test_a_reference_that_raises_is_quoted_and_nothing_else(monkeypatch: pytest.MonkeyPatch, bad: Answer, message: str, at: int) -> None:
    """Whichever of its first runs it was; a person reads it."""
    answers = iter(bad if index == at else FINE for index in range(baseline.WARMUP_COUNT))
    with pytest.raises(ReferenceFailed) as caught:
        alone(monkeypatch, lambda _: (next(answers), 1))
    assert str(caught.value) == f"the reference does not run by itself: {message}"


def test_a_judge_that_times_for_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the host's clock and by a device's, which has the baseline's do_bench too: a silent one is taken for dead."""
    monkeypatch.setattr(baseline, "SIGN_S", 0.0)
    for clock, count in ((wire.Clock.HOST, 3 + 6), (wire.Clock.DEVICE_EVENTS, 3 + 12 * 2 * 5 + 1)):
        progress, solo = alone(monkeypatch, slow_from(10_000), clock=clock)
        assert progress == [wire.Progress(stage=wire.Stage.BASELINE)] * count
        assert solo.reported.keys() == ({"eager"} if clock is wire.Clock.DEVICE_EVENTS else set())


def test_a_reference_has_as_long_as_a_run_of_it_and_a_compiler_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that never ends is known within the time after which a silent judge is taken for dead, and so is a compiler."""
    limits: dict[int, float] = {}

    def run_of(how: Any) -> tuple[Answer, int]:
        limits.setdefault(how.variant, how.limit_s)
        return FINE, 1

    alone(monkeypatch, run_of, baselines=("eager", "compile"), trial_s=3.0)
    assert limits[0] + 3.0 < SILENCE_S and limits[0] < limits[1] < CUDA_SILENCE_S


def test_a_baseline_that_does_not_take_its_job_is_the_end_of_its_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """No subject is there that could have no runner; and it may answer this job when the next one is asked of it."""
    monkeypatch.setattr(baseline, "LOAD_S", 0.3)
    runner = baseline.Baseline("emulated", SpawnProcess)
    try:
        runner.started()
        os.kill(runner._process.pid, signal.SIGSTOP)
        with pytest.raises(RuntimeError, match="did not take its job"), runner.serve(fakes.problem().spec):
            pass
    finally:
        runner.close()


def test_do_bench_on_several_places_has_one_limit_in_all() -> None:
    """Samples of all places count alike; a runner that dawdles at each has no more time than at one, and one that fails has no figure."""
    answers = iter([(1, 2), (3,), (), (4,)])
    limits, launches = list[float](), list[int]()

    def call(call: Any, limit_s: float) -> Answer:
        limits.append(limit_s)
        assert call.budget_ns == 50
        return Answer(status=Status.OK, samples_ns=next(answers))

    runner: Any = SimpleNamespace(call=call)
    samples = baseline.bench_samples(runner, lambda: launches.append(1), 100, 7.0, places=2)
    assert samples is not None and samples.durations_ns == (1, 2, 3)
    assert len(launches) == 2 and 7.0 >= limits[0] > limits[1]
    assert baseline.bench_samples(runner, lambda: None, 100, 7.0, places=2) is None
    assert [baseline.place_count(wire.Clock.DEVICE_EVENTS, run_ns) for run_ns in (20_000, 2_000_000)] == [5, 1]
    assert baseline.place_count(wire.Clock.HOST, 20_000) == 1
