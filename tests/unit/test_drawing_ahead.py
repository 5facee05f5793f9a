"""By the host's clock the inputs of the next trial are drawn while the kernel runs: they are as fresh, and nobody waits for them."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

from sandbox.devices.emulated import EmulatedDevice
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge import trial
    from tests.unit.test_lane import PROBLEM, honest, judged

WAIT_S = 300.0
TRIALS = 3  # of each workload


class Draws:
    """Count the lines of Python that a call executes, and the characters that its functions return, but no finalizers of garbage."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[str] = []
        self._changed = threading.Condition()
        self._draw = trial.inputs.of_workload
        monkeypatch.setattr(trial.inputs, "of_workload", self._count)

    def _count(self, problem, workload, distributions, key, device):  # type: ignore[no-untyped-def]
        drawn = self._draw(problem, workload, distributions, key, device)
        with self._changed:
            self.keys.append(key)
            self._changed.notify_all()
        return drawn

    def reach(self, count: int, within_s: float = WAIT_S) -> bool:
        """Return whether so many were drawn within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.keys) >= count, within_s)


def trials_of(facts: list[wire.Fact]) -> list[wire.Trial]:
    return [fact for fact in facts if isinstance(fact, wire.Trial)]


def test_a_kernel_sees_its_successors_inputs_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every run but the last of the public workloads, and of the hidden ones: before those nothing of them is drawn."""
    draws, reached, seen_inputs = Draws(monkeypatch), [], []
    assert PROBLEM.trial_count == TRIALS

    def kernel(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        seen_inputs.append(inputs[0].clone())
        last = len(seen_inputs) % TRIALS == 0
        reached.append(draws.reach(len(seen_inputs) + 1, 0.0 if last else WAIT_S))
        honest(inputs, outputs)

    trials = trials_of(judged(tmp_path, kernel))
    assert [result.outcome for result in trials] == [wire.TrialOutcome.PASSED] * 2 * TRIALS
    assert reached == 2 * ([True] * (TRIALS - 1) + [False])
    assert [result.key for result in trials] == draws.keys and len(set(draws.keys)) == 2 * TRIALS  # in their order, each of them once
    assert not any(torch.equal(earlier, later) for earlier, later in itertools.pairwise(seen_inputs) if earlier.shape == later.shape)


def test_a_kernel_that_answers_for_the_inputs_before_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference is of the inputs that the run had, not of those that were drawn meanwhile."""
    draws, before = Draws(monkeypatch), []

    def kernel(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        honest(before[-1] if before else inputs, outputs)
        before.append([tensor.clone() for tensor in inputs])

    (first, second) = trials_of(judged(tmp_path, kernel))
    assert (first.outcome, second.outcome) == (wire.TrialOutcome.PASSED, wire.TrialOutcome.MISMATCHED)
    assert draws.reach(3)


def test_by_a_gpus_clock_nothing_is_drawn_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing would take the kernel's bandwidth."""
    draws, reached = Draws(monkeypatch), []
    monkeypatch.setattr(EmulatedDevice, "CLOCK", wire.Clock.DEVICE_EVENTS)

    def kernel(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        reached.append(len(draws.keys))
        honest(inputs, outputs)

    assert {result.outcome for result in trials_of(judged(tmp_path, kernel))} == {wire.TrialOutcome.PASSED}
    assert reached == list(range(1, 2 * TRIALS + 1))
