"""What the trusted runner takes while nobody else is there, by device clock."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from grader.dispatch.judge_process import CUDA_SILENCE_S, SILENCE_S
from sandbox.judge.runner_link import Silence
from sandbox.judge.timing.stopping import steady
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Operation, Status
from tests.collection import AFTER_COLLECTION
from tests.draining import drained

if AFTER_COLLECTION:
    from sandbox.judge.references import ReferenceFailed
    from sandbox.judge.timing import interleaved
    from sandbox.judge.trial import Run


PROTOCOL_NS, COPY_NS, EAGER_NS, SPELL_NS = 600_000, 40_000, 90_000, 30_000


def _runs(slow_from: int) -> Callable[[Any, Any, Any], Run]:
    """Runs on a host that gets slow at the given one."""
    numbers = itertools.count()

    def run(runner: Any, bench: Any, how: Any) -> Run:
        own_ns = EAGER_NS if how.operation is Operation.CALL else 0
        took = PROTOCOL_NS + COPY_NS * (how.copy_out or how.operation is Operation.CALL) + own_ns
        took += SPELL_NS if next(numbers) >= slow_from else 0
        return Run(key="", reply=Answer(status=Status.OK), duration_ns=took, inputs=[])

    return run


def _taken(monkeypatch: pytest.MonkeyPatch, slow_from: int) -> interleaved.SoloTimings:
    monkeypatch.setattr(interleaved, "run", _runs(slow_from))
    trusted = SimpleNamespace(device=SimpleNamespace(CLOCK=wire.Clock.DEVICE_EVENTS), silence=None)
    bench = SimpleNamespace(problem=SimpleNamespace(trial_s=1.0), workload=SimpleNamespace(hidden=False))
    return drained(interleaved.time_alone(trusted, bench, (interleaved.EAGER, "compile")))[1]  # type: ignore[arg-type]


@pytest.mark.parametrize("slow_from", [0, 6, 30, 54, 78, 10_000])
def test_a_host_that_gets_slow_meanwhile_is_in_no_difference(monkeypatch: pytest.MonkeyPatch, slow_from: int) -> None:
    """One after the other, eager would be timed in one second and what is subtracted from it in the next."""
    alone = _taken(monkeypatch, slow_from)
    net_ns = steady(alone.run_ns[interleaved.EAGER]) - steady(alone.null_ns[True])
    assert abs(net_ns - EAGER_NS) < 0.1 * SPELL_NS
    assert abs(steady(alone.null_ns[True]) - steady(alone.null_ns[False]) - COPY_NS) < 0.1 * SPELL_NS


def test_everyone_runs_as_often_and_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times only: the memory of a run is needed for the next."""
    alone = _taken(monkeypatch, 10_000)
    count = interleaved.ALONE_COUNT[wire.Clock.DEVICE_EVENTS]
    assert {len(runs_ns) for runs_ns in (*alone.run_ns.values(), *alone.null_ns.values())} == {count}
    assert set(alone.run_ns) == {"eager", "compile"}


def _replies(*replies: Answer | Silence) -> Callable[[Any, Any, Any], Run]:
    """Runs that are answered so, one after the other; a Silence is the runner's from then on."""
    progress = iter(replies)

    def run(runner: Any, bench: Any, how: Any) -> Run:
        reply = next(progress)
        runner.silence = reply if isinstance(reply, Silence) else None
        return Run(key="", reply=reply, duration_ns=1, inputs=[])

    return run


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (Answer(status=Status.RAISED, message="ValueError: oops"), "ValueError: oops"),
        (Answer(status=Status.OUT_OF_MEMORY), "out of memory"),
    ],
)
@pytest.mark.parametrize("at", [0, 2])
def test_a_reference_that_raises_is_quoted_and_nothing_else(monkeypatch: pytest.MonkeyPatch, bad: Answer, said: str, at: int) -> None:
    """Whichever of its first runs it was; a person reads it."""
    fine = Answer(status=Status.OK)
    with pytest.raises(ReferenceFailed) as caught:
        _warmed_up(monkeypatch, *(bad if index == at else fine for index in range(interleaved.WARMUP_COUNT)))
    assert str(caught.value) == f"the reference does not run by itself: {said}"


def _warmed_up(monkeypatch: pytest.MonkeyPatch, *replies: Answer | Silence) -> None:
    monkeypatch.setattr(interleaved, "run", _replies(*replies))
    trusted = SimpleNamespace(device=SimpleNamespace(CLOCK=wire.Clock.DEVICE_EVENTS), silence=None)
    bench = SimpleNamespace(problem=SimpleNamespace(trial_s=1.0), workload=SimpleNamespace(hidden=False))
    drained(interleaved.time_alone(trusted, bench, (interleaved.EAGER,)))  # type: ignore[arg-type]


def test_a_judge_that_times_for_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the host's clock and by a device's: whoever waits for it takes a silent one for dead."""
    bench = SimpleNamespace(problem=SimpleNamespace(trial_s=1.0), workload=SimpleNamespace(hidden=False))
    monkeypatch.setattr(interleaved, "SIGN_S", 0.0)
    for clock, count in ((wire.Clock.HOST, 3 + 6), (wire.Clock.DEVICE_EVENTS, 3 + 12 * 2 * 3)):
        monkeypatch.setattr(interleaved, "run", _runs(10_000))
        trusted = SimpleNamespace(device=SimpleNamespace(CLOCK=clock), silence=None)
        progress, _ = drained(interleaved.time_alone(trusted, bench, (interleaved.EAGER,)))  # type: ignore[arg-type]
        assert progress == [wire.Progress(stage=wire.Stage.BASELINE)] * count


def test_a_reference_has_as_long_as_a_run_of_it_and_a_compiler_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference that never ends is known within the time after which a silent judge is taken for dead, and so is a compiler."""
    limits: dict[int, float] = {}

    def run(runner: Any, bench: Any, how: Any) -> Run:
        limits.setdefault(how.variant, how.limit_s)
        return Run(key="", reply=Answer(status=Status.OK), duration_ns=1, inputs=[])

    monkeypatch.setattr(interleaved, "run", run)
    trusted = SimpleNamespace(device=SimpleNamespace(CLOCK=wire.Clock.DEVICE_EVENTS), silence=None)
    bench = SimpleNamespace(problem=SimpleNamespace(trial_s=3.0), workload=SimpleNamespace(hidden=False))
    drained(interleaved.time_alone(trusted, bench, (interleaved.EAGER, "compile")))  # type: ignore[arg-type]
    assert limits[0] + 3.0 < SILENCE_S and limits[0] < limits[1] < CUDA_SILENCE_S
