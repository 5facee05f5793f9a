"""Trials that are observed for libraries: which ones, and that they are verified like all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grader.model import Verdict
from grader.verdict.fold import fold
from sandbox.launch.loop import serve
from sandbox.protocol import wire
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from tests.unit.test_lane import PROBLEM, honest, judged, outcomes

SIZES = {"n100": False, "n64": False, "n33": True, "n7": True}  # and whether they are hidden
LAST = (64, 7)  # of the public and of the hidden ones
Use = Callable[[], None]


def problem(trial_count: int = 3, libraries: wire.Libraries = wire.Libraries.FORBIDDEN) -> wire.ProblemSpec:
    workloads = tuple(wire.Workload(workload_id=name, axes={"n": int(name[1:])}, hidden=hidden) for name, hidden in SIZES.items())
    return replace(PROBLEM, workloads=workloads, trial_count=trial_count, libraries=libraries)


@dataclass
class Watched:
    """A kernel that says when it uses a library, and the runner's observer, which hears it."""

    kernel: Callable[[list[torch.Tensor], list[torch.Tensor], Use], None]
    sizes: list[int] = field(default_factory=list)  # of all launches
    observed: list[tuple[int, str]] = field(default_factory=list)  # the number of the launch, and what was heard
    repeated: list[str] = field(default_factory=list)  # what was heard of a second launch on the same inputs
    _used: list[str] = field(default_factory=list)

    def launch(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        self.sizes.append(inputs[0].numel())
        self.kernel(inputs, outputs, lambda: self._used.append("operator add"))

    def observe(self, launch: Callable[[], object], _kernels: bool) -> str:
        number = len(self.sizes)
        heard = []
        for _ in range(2):
            self._used.clear()
            launch()
            heard.append("\n".join(self._used))
        del self.sizes[number + 1 :]
        self.observed.append((number, heard[0]))
        self.repeated.append(heard[1])
        return heard[0]

    def judged(self, place: Path, **settings: Any) -> list[wire.Fact]:
        return judged(place, self.launch, problem=problem(**settings), serve=lambda *parts: serve(*parts, self.observe))


def without_library(inputs: list[torch.Tensor], outputs: list[torch.Tensor], _use: Use) -> None:
    honest(inputs, outputs)


def always(inputs: list[torch.Tensor], outputs: list[torch.Tensor], use: Use) -> None:
    use()
    honest(inputs, outputs)


def by_shape(inputs: list[torch.Tensor], outputs: list[torch.Tensor], use: Use) -> None:
    if inputs[0].numel() not in LAST:
        use()
    honest(inputs, outputs)


def memo() -> Callable[[list[torch.Tensor], list[torch.Tensor], Use], None]:
    last: list[torch.Tensor] = []

    def when_new(inputs: list[torch.Tensor], outputs: list[torch.Tensor], use: Use) -> None:
        if not last or not torch.equal(inputs[0], last[0]):
            use()
            last[:] = [inputs[0].clone()]
        honest(inputs, outputs)

    return when_new


def verdict(facts: list[wire.Fact]) -> Verdict:
    return fold([wire.Build(outcome=wire.BuildOutcome.BUILT, artifact_digest="d"), *facts]).verdict


def test_a_library_at_every_size_but_the_last_is_seen(tmp_path: Path) -> None:
    """Control: what is heard at the last public and the last hidden size acquits, and that was all that was listened to."""
    watched = Watched(by_shape)
    assert verdict(watched.judged(tmp_path)) is Verdict.DISQUALIFIED
    assert [heard for number, heard in watched.observed if watched.sizes[number] in LAST] == ["", ""]


def test_a_library_for_fresh_inputs_alone_is_seen(tmp_path: Path) -> None:
    """Control: what is heard of a second launch on the same inputs acquits, and that was all that was listened to."""
    watched = Watched(memo())
    assert verdict(watched.judged(tmp_path)) is Verdict.DISQUALIFIED
    assert watched.repeated == [""] * len(SIZES)


def test_a_kernel_without_libraries_is_accepted(tmp_path: Path) -> None:
    """The control of both: the same judge, and no call."""
    assert verdict(Watched(without_library).judged(tmp_path)) is Verdict.ACCEPTED


def test_one_trial_of_each_workload_is_observed_and_never_the_first(tmp_path: Path) -> None:
    """In the first, a kernel tunes itself. Which of the others it is, is drawn: that two kernels meet the same ones has chance 19^-4."""
    numbers = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        watched = Watched(without_library)
        facts = watched.judged(tmp_path / name, trial_count=20)
        assert outcomes(facts) == ["passed"] * 20 * len(SIZES) and len(watched.sizes) == 20 * len(SIZES)
        assert [number // 20 for number, _ in watched.observed] == list(range(len(SIZES)))
        assert all(number % 20 for number, _ in watched.observed)
        numbers.append(watched.observed)
    assert numbers[0] != numbers[1]


def test_a_problem_of_one_trial_has_a_second_one_that_is_observed(tmp_path: Path) -> None:
    """Else there would be only the first."""
    watched = Watched(always)
    facts = watched.judged(tmp_path, trial_count=1)
    assert outcomes(facts) == ["passed"] * 2 * len(SIZES) and [number % 2 for number, _ in watched.observed] == [1] * len(SIZES)
    assert verdict(facts) is Verdict.DISQUALIFIED


def test_the_trial_that_is_observed_is_verified(tmp_path: Path) -> None:
    """A kernel that writes nothing while it is observed is wrong."""
    observing: list[bool] = []

    def lazy(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        if not observing:
            honest(inputs, outputs)

    def observe(launch: Callable[[], object], _kernels: bool) -> str:
        observing.append(True)
        launch()
        return ""

    facts = judged(tmp_path, lazy, problem=problem(), serve=lambda *parts: serve(*parts, observe))
    assert outcomes(facts)[-1] == "unwritten" and verdict(facts) is Verdict.WRONG_ANSWER


@pytest.mark.parametrize("libraries", list(wire.Libraries))
def test_only_a_problem_that_asks_is_observed(tmp_path: Path, libraries: wire.Libraries) -> None:
    """A profiler takes time, and where libraries are allowed there is nothing to see."""
    watched = Watched(without_library)
    watched.judged(tmp_path, libraries=libraries)
    assert bool(watched.observed) is (libraries is not wire.Libraries.ALLOWED)
