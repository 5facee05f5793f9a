"""A limit does not count the time in which a runner waits for a core, up to a bound."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sandbox.judge.runner_link import run_queue_waits_of, wait_patiently
from sandbox.protocol.wire import WAIT_FACTOR


class FakeRunner:
    """A runner that needs so many seconds of a core, of which it gets a share. Its clock is its own."""

    def __init__(self, needs_s: float, share: float = 1.0, waits_shown: bool = True) -> None:
        self.needs_s, self.share, self.waits_shown = needs_s, share, waits_shown
        self.now_s = 0.0

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        return self.now_s * self.share >= self.needs_s

    def waits(self) -> dict[int, int]:
        return {1: 0, 2: int(self.now_s * (1 - self.share) * 1e9)} if self.waits_shown else {}


@pytest.mark.parametrize(
    ("runner", "ends"),
    [
        (FakeRunner(9.9), True),
        (FakeRunner(11.0), False),
        (FakeRunner(9.0, share=0.5), True),  # 18 s on the wall, half of them in the queue
        (FakeRunner(9.0, share=0.5, waits_shown=False), False),  # the control: nobody knows that it waited
        (FakeRunner(20.0, share=0.5), False),  # it computes too long, on a busy machine too
    ],
)
def test_only_time_with_a_core_counts(runner: FakeRunner, ends: bool) -> None:
    assert wait_patiently(10.0, runner.wait, runner.waits) is ends


def test_a_runner_that_makes_its_own_threads_wait_is_ended_all_the_same() -> None:
    runner = FakeRunner(1e9, share=1e-6)
    assert not wait_patiently(10.0, runner.wait, runner.waits)
    assert runner.now_s == pytest.approx(10.0 * WAIT_FACTOR)


def test_threads_of_a_process_are_found_with_its_children(tmp_path: Path) -> None:
    """As the kernel shows them; what has ended meanwhile is left out."""
    theirs, ours = socket.socketpair(socket.AF_UNIX)
    with theirs, ours:
        first = tmp_path / str(os.getpid()) / "task"
        for thread, (waited, child) in {11: (700, "21 "), 12: (800, "")}.items():
            (first / str(thread)).mkdir(parents=True)
            (first / str(thread) / "schedstat").write_text(f"500 {waited} 3\n")
            (first / str(thread) / "children").write_text(child)
        (tmp_path / "21" / "task" / "21").mkdir(parents=True)
        (tmp_path / "21" / "task" / "21" / "schedstat").write_text("1 900 1\n")
        assert run_queue_waits_of(ours, tmp_path) == {11: 700, 12: 800, 21: 900}
        assert run_queue_waits_of(ours, tmp_path / "elsewhere") == {}


def test_the_kernel_accounts_for_this_process() -> None:
    if not Path("/proc/self/schedstat").is_file():
        pytest.skip("this kernel has no schedstat")
    theirs, ours = socket.socketpair(socket.AF_UNIX)
    with theirs, ours:
        assert os.getpid() in run_queue_waits_of(ours)
