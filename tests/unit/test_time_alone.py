"""What the trusted runner takes while nobody else is there, by device clock."""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox import wire
from sandbox.gate import Answer, Operation, Status
from sandbox.judge import turns
from sandbox.judge.speedup import steady
from sandbox.judge.trial import Run

PROTOCOL_NS, COPY_NS, EAGER_NS, SPELL_NS = 600_000, 40_000, 90_000, 30_000


def _runs(slow_from: int) -> Callable[[Any, Any, Any], Run]:
    """Runs on a host that gets slow at the given one."""
    numbers = itertools.count()

    def run(runner: Any, bench: Any, how: Any) -> Run:
        own = EAGER_NS if how.operation is Operation.CALL else 0
        took = PROTOCOL_NS + COPY_NS * (how.copy_out or how.operation is Operation.CALL) + own
        took += SPELL_NS if next(numbers) >= slow_from else 0
        return Run(key="", reply=Answer(status=Status.OK), duration_ns=took, inputs=[], read_ns=7)

    return run


def _taken(monkeypatch: pytest.MonkeyPatch, slow_from: int) -> turns.Alone:
    monkeypatch.setattr(turns, "run", _runs(slow_from))
    trusted = SimpleNamespace(device=SimpleNamespace(CLOCK=wire.Clock.DEVICE_EVENTS), silence=None)
    bench = SimpleNamespace(problem=SimpleNamespace(trial_s=1.0))
    return turns.time_alone(trusted, bench, (turns.EAGER, "compile"))  # type: ignore[arg-type]


@pytest.mark.parametrize("slow_from", [0, 6, 30, 54, 78, 10_000])
def test_a_host_that_gets_slow_meanwhile_is_in_no_difference(monkeypatch: pytest.MonkeyPatch, slow_from: int) -> None:
    """One after the other, eager would be timed in one second and what is subtracted from it in the next."""
    alone = _taken(monkeypatch, slow_from)
    net_ns = steady(alone.run_ns[turns.EAGER]) - steady(alone.null_ns[True])
    assert abs(net_ns - EAGER_NS) < 0.1 * SPELL_NS
    assert abs(steady(alone.null_ns[True]) - steady(alone.null_ns[False]) - COPY_NS) < 0.1 * SPELL_NS


def test_everyone_runs_as_often_and_little_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times only: the memory of a run is needed for the next."""
    alone = _taken(monkeypatch, 10_000)
    count = turns.ALONE_COUNT[wire.Clock.DEVICE_EVENTS]
    assert {len(taken) for taken in (*alone.run_ns.values(), *alone.null_ns.values())} == {count}
    assert alone.read_ns == 7 and set(alone.run_ns) == {"eager", "compile"}
