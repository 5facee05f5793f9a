"""Batches of launches: how many there are, and what comes of them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Operation, Status
from tests.collection import AFTER_COLLECTION
from tests.draining import drained

if AFTER_COLLECTION:
    from sandbox.judge.timing import measure
    from sandbox.judge.timing.interleaved import Heartbeat
    from sandbox.judge.timing.measure import BATCH_COUNT, Batch, time_batches
    from sandbox.judge.trial import Run, RunOptions


SIZE, LAUNCH_NS, PROTOCOL_NS = 8, 5_000, 300_000


def _trial(outcome: wire.TrialOutcome) -> wire.Trial:
    return wire.Trial(workload_id="n", hidden=False, phase=wire.TrialPhase.CERTIFY, index=0, key="", duration_ns=1, outcome=outcome)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[wire.Progress], Batch | wire.Trial | None]]:
    """Time batches of SIZE launches; comparing one takes so long, and the given one is wrong."""
    clock = [0.0]

    def run_batch(runner: str, bench: object, how: RunOptions) -> list[Run]:
        own_ns = LAUNCH_NS * how.count if how.operation is Operation.CALL else 0
        return [Run(key="", reply=Answer(status=Status.OK), duration_ns=PROTOCOL_NS + own_ns, inputs=[]) for _ in range(how.count)]

    def time(compare_s: float = 0.0, wrong: int = -1) -> tuple[list[wire.Progress], Batch | wire.Trial | None]:
        compared = []

        def judge_run(*_: object) -> wire.Trial:
            clock[0] += compare_s
            compared.append(0)
            return _trial(wire.TrialOutcome.MISMATCHED if len(compared) - 1 == wrong else wire.TrialOutcome.PASSED)

        monkeypatch.setattr(measure, "judge_run", judge_run)
        party: Any = SimpleNamespace(arena=SimpleNamespace(size_bytes=1 << 30))
        bench: Any = SimpleNamespace(workload=None)
        return drained(time_batches(party, party, bench, bench, LAUNCH_NS, Heartbeat(wire.Stage.MEASURING, "n"), copies=False))

    monkeypatch.setattr(measure, "run_batch", run_batch)
    monkeypatch.setattr(measure, "batch_size", lambda *_: SIZE)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    return time


def test_a_launch_of_a_batch_takes_what_the_batch_takes_beyond_the_protocol(timed: Any) -> None:
    """The first batch is a warm-up."""
    assert timed() == ([], Batch(times=wire.Samples(durations_ns=(LAUNCH_NS,) * BATCH_COUNT), size=SIZE))


@pytest.mark.parametrize("wrong", [0, 5 * SIZE + 3])
def test_a_launch_that_is_wrong_is_the_answer(timed: Any, wrong: int) -> None:
    _, batch = timed(wrong=wrong)
    assert batch == _trial(wire.TrialOutcome.MISMATCHED)


def test_batches_whose_comparison_takes_minutes_are_few(timed: Any) -> None:
    """One beside the warm-up, and signs of life meanwhile: the judge was taken for dead."""
    progress, batch = timed(compare_s=4.0)
    assert isinstance(batch, Batch) and len(batch.times.durations_ns) == 1
    assert progress == [wire.Progress(stage=wire.Stage.MEASURING, workload_id="n")] * (2 * SIZE * 4 // 20)
