"""Times of the trusted runner while nobody else is there, by device clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from grader.dispatch.judge_process import CUDA_SILENCE_S, SILENCE_S
from sandbox.judge.timing.stopping import steady
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, Answer, Operation, Status
from tests.collection import AFTER_COLLECTION
from tests.draining import drained

if AFTER_COLLECTION:
    from sandbox.judge.references import ReferenceFailed
    from sandbox.judge.timing import interleaved
    from sandbox.judge.trial import Run


PROTOCOL_NS, COPY_NS, EAGER_NS, SPELL_NS = 600_000, 40_000, 90_000, 30_000


def alone(
    monkeypatch: pytest.MonkeyPatch,
    run_of: Callable[[Any], tuple[Answer, int]],
    *,
    baselines: tuple[str, ...] = ("eager",),
    clock: wire.Clock = wire.Clock.DEVICE_EVENTS,
    trial_s: float = 1.0,
) -> tuple[list[wire.Fact], interleaved.SoloTimings]:
    """Time baselines by runs that are answered so and take so long; the facts, and the times."""

    def run(runner: Any, bench: Any, how: Any) -> Run:
        reply, duration_ns = run_of(how)
        return Run(key="", reply=reply, duration_ns=duration_ns, inputs=[])

    monkeypatch.setattr(interleaved, "run", run)
    trusted = SimpleNamespace(device=SimpleNamespace(CLOCK=clock), silence=None)
    bench = SimpleNamespace(problem=SimpleNamespace(trial_s=trial_s), workload=SimpleNamespace(hidden=False))
    return drained(interleaved.time_alone(trusted, bench, baselines))  # type: ignore[arg-type, return-value]


def slow_from(number: int) -> Callable[[Any], tuple[Answer, int]]:
    """Runs on a host that gets slow at the one of this number."""
    numbers = itertools.count()

    def run_of(how: Any) -> tuple[Answer, int]:
        own_ns = EAGER_NS if how.operation is Operation.CALL else 0
        duration_ns = PROTOCOL_NS + COPY_NS * (how.copy_out or how.operation is Operation.CALL) + own_ns
        return FINE, duration_ns + (SPELL_NS if next(numbers) >= number else 0)

    return run_of


@pytest.mark.parametrize("number", [0, 6, 30, 54, 78, 10_000])
def test_a_host_that_gets_slow_meanwhile_is_in_no_difference(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Else eager would be timed in one second and what is subtracted from it in the next. All run as often."""
    _, times = alone(monkeypatch, slow_from(number), baselines=("eager", "compile"))
    net_ns = steady(times.run_ns["eager"]) - steady(times.null_ns[True])
    assert abs(net_ns - EAGER_NS) < 0.1 * SPELL_NS
    assert abs(steady(times.null_ns[True]) - steady(times.null_ns[False]) - COPY_NS) < 0.1 * SPELL_NS
    counts = {len(runs_ns) for runs_ns in (*times.run_ns.values(), *times.null_ns.values())}
    assert counts == {interleaved.ALONE_COUNT[wire.Clock.DEVICE_EVENTS]} and set(times.run_ns) == {"eager", "compile"}


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
    answers = iter(bad if index == at else FINE for index in range(interleaved.WARMUP_COUNT))
    with pytest.raises(ReferenceFailed) as caught:
        alone(monkeypatch, lambda _: (next(answers), 1))
    assert str(caught.value) == f"the reference does not run by itself: {message}"


def test_a_judge_that_times_for_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the host's clock and by a device's: a silent one is taken for dead."""
    monkeypatch.setattr(interleaved, "SIGN_S", 0.0)
    for clock, count in ((wire.Clock.HOST, 3 + 6), (wire.Clock.DEVICE_EVENTS, 3 + 12 * 2 * 3)):
        progress, _ = alone(monkeypatch, slow_from(10_000), clock=clock)
        assert progress == [wire.Progress(stage=wire.Stage.BASELINE)] * count


def test_a_reference_has_as_long_as_a_run_of_it_and_a_compiler_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that never ends is known within the time after which a silent judge is taken for dead, and so is a compiler."""
    limits: dict[int, float] = {}

    def run_of(how: Any) -> tuple[Answer, int]:
        limits.setdefault(how.variant, how.limit_s)
        return FINE, 1

    alone(monkeypatch, run_of, baselines=("eager", "compile"), trial_s=3.0)
    assert limits[0] + 3.0 < SILENCE_S and limits[0] < limits[1] < CUDA_SILENCE_S
