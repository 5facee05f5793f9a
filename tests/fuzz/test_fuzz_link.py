"""The link between judge and runner: whatever connects, and whatever it sends, the judge goes on and keeps no descriptor.

A runner stays until the judge has ended, so a judge that waits for it, and not for its own deadline, never ends.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge import runner_link
from sandbox.judge.runner_link import NoRunner, Silence, accept, connect
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Call, Gate, GateViolated, Operation, Status, receive_job
from sandbox.protocol.version import VERSION
from tests.clock import SteppedTime
from tests.fuzz import values
from tests.fuzz.test_fuzz_gate import well_formed

LOAD_S, CALL_S, NEVER_S = 0.15, 0.03, 3600.0
BACKLOG = 5  # strangers that are connected and not yet looked at: what `accept` listens with, and one more
TENSOR = wire.TensorSpec(name="a", dtype="float32", shape=("n",))


def job(template_bytes: int = 0) -> wire.RunnerJob:
    templates = ("x" * template_bytes,) if template_bytes else ()
    return wire.RunnerJob(
        device_kind="emulated", language="cuda", entry="solve", inputs=(TENSOR,), outputs=(TENSOR,), arena_bytes=4096, templates=templates
    )


@dataclass
class Peer:
    """A runner that does as it is told, in its own thread."""

    end: socket.socket
    judge_left: threading.Event  # by the judge
    gate: Gate | None = None

    def act(self, steps: list[tuple[str, Any]]) -> None:
        with contextlib.suppress(OSError, EOFError, wire.WireError, ValueError):
            for name, value in steps:
                getattr(self, name)(value)

    def send(self, data: bytes) -> None:
        self.end.send(data, socket.MSG_DONTWAIT)

    def hand(self, count: int) -> None:
        socket.send_fds(self.end, [b"x"], [self.end.fileno()] * count, socket.MSG_DONTWAIT)

    def shut(self, how: int) -> None:
        self.end.shutdown(how)

    def close(self, _: object) -> None:
        self.end.close()

    def nap(self, seconds: float) -> None:
        time.sleep(seconds)

    def stay(self, _: object) -> None:
        self.judge_left.wait()

    def read(self, count: int) -> None:
        self.end.settimeout(0.05)
        self.end.recv(count)

    def receive(self, _: object) -> None:
        """Take the job and announce a runner; what comes next answers LOAD."""
        self.take(None)
        self.announce(VERSION)

    def announce(self, version: str) -> None:
        assert self.gate is not None
        first = self.gate.next(0)
        self.gate.reply(first, Answer(status=Status.OK, message=version))
        while self.gate._page.go == first and not self.judge_left.is_set():
            time.sleep(0.001)

    def take(self, _: object) -> None:
        self.end.settimeout(60)
        _, fds = receive_job(self.end)
        self.gate = Gate(fds[0])
        for fd in fds:
            os.close(fd)

    def reply(self, many: int) -> None:
        for _ in range(many):
            if self.gate is not None:
                self.gate.reply(self.gate._page.go, Answer(status=Status.OK))
                time.sleep(0.002)

    def serve(self, _: object) -> None:
        while not self.judge_left.is_set():
            self.reply(1)

    def echo(self, _: object) -> None:
        assert self.gate is not None
        self.gate.reply(self.gate._page.go, Answer(status=Status.OK))

    def lie(self, number: int) -> None:
        if self.gate is not None:
            self.gate._page.status, self.gate._page.done = number, number

    def scribble(self, data: bytes) -> None:
        if self.gate is not None:
            self.gate._map[64 : 64 + len(data)] = data


def steps() -> st.SearchStrategy[list[tuple[str, Any]]]:
    step = st.one_of(
        st.tuples(st.just("send"), st.binary(min_size=1, max_size=100)),
        st.tuples(st.just("hand"), st.integers(1, 64)),
        st.tuples(st.just("shut"), st.sampled_from((socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR))),
        st.tuples(st.just("close"), st.none()),
        st.tuples(st.just("nap"), st.floats(0, 0.03)),
        st.tuples(st.just("read"), st.integers(1, 5000)),
        st.tuples(st.just("reply"), st.integers(1, 20)),
        st.tuples(st.just("lie"), st.integers(0, 2**32 - 1)),
        st.tuples(st.just("scribble"), st.binary(min_size=1, max_size=300)),
    )
    return st.one_of(st.lists(step, max_size=6), st.lists(step, max_size=6).map(lambda rest: [("receive", None), ("reply", 2), *rest]))


def judged(acts: list[tuple[str, Any]], template_bytes: int = 0, turns: int = 2, load_s: float = LOAD_S, call_s: float = CALL_S) -> object:
    """Return the judge's conclusion about a peer that acts so."""
    ours, theirs = socket.socketpair()
    peer = Peer(theirs, threading.Event())
    thread = threading.Thread(target=peer.act, args=(acts,), daemon=True)
    with ours:
        thread.start()
        try:
            with connect(EmulatedDevice(), ours, job(template_bytes), b"artifact", load_s) as runner:
                outcome: object = runner.loaded
                for _ in range(turns if isinstance(outcome, Answer) else 0):
                    outcome = runner.call(Call(operation=Operation.CALL), call_s)
        except NoRunner as absence:
            outcome = NoRunner(str(absence))  # without the frames, which hold the gate
        except GateViolated as violation:
            outcome = violation.with_traceback(None)  # whose frames hold the gate
        peer.judge_left.set()
    thread.join()
    theirs.close()
    peer.gate = None
    return outcome


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@values.examples(10)
@given(steps(), st.sampled_from((0, 0, 0, 100_000, 900_000)))
@example([("nap", 0.5)], 900_000)
def test_a_runner_that_does_anything_is_answered_in_time(acts: list[tuple[str, Any]], template_bytes: int) -> None:
    """No runner, an answer, silence or a violation, while it stays; and the judge keeps nothing open."""
    before = descriptors()
    outcome = judged([*acts, ("stay", None)], template_bytes)
    assert isinstance(outcome, (Silence, GateViolated, NoRunner)) or (isinstance(outcome, Answer) and well_formed(outcome)), outcome
    if descriptors() > before:
        gc.collect()  # it takes long, and only what is in a circle needs it
    assert descriptors() <= before  # those of an earlier test may be closed meanwhile


def test_a_runner_that_reads_nothing_does_not_hold_the_judge() -> None:
    """Found: a job larger than the socket's buffer was sent without a limit; the judge waited for as long as the box lived."""
    outcome = judged([("stay", None)], template_bytes=900_000)
    assert isinstance(outcome, NoRunner)


@pytest.mark.parametrize(
    "steps",
    [
        [("close", None)],
        [("take", None), ("close", None)],
        [("take", None), ("stay", None)],
        [("take", None), ("lie", 7), ("stay", None)],
        [("take", None), ("echo", None), ("stay", None)],
        [("take", None), ("announce", "0123456789abcdef"), ("stay", None)],
    ],
)
def test_a_runner_that_fails_before_it_announces_itself_is_our_fault(steps: list[tuple[str, Any]]) -> None:
    """The runner ends, is silent, lies, or has another version of our code: nothing of the submission has run by then."""
    assert isinstance(judged(steps), NoRunner)


@pytest.mark.parametrize(("step", "expected"), [(("close", None), Silence.GONE), (("stay", None), Silence.TIMED_OUT)])
def test_a_runner_that_fails_after_that_is_the_submissions(step: tuple[str, Any], expected: Silence) -> None:
    """The control."""
    assert judged([("receive", None), step]) is expected


def test_a_job_that_was_sent_whole_is_not_sent_again() -> None:
    """A runner may have answered and gone when the judge looks: that it loaded is known then."""
    for _ in range(20):
        outcome = judged([("receive", None), ("echo", None), ("close", None)], turns=0, load_s=NEVER_S)
        assert isinstance(outcome, Answer) and outcome.status is Status.OK


def test_a_large_job_arrives_whole() -> None:
    """The control: a runner that reads gets all of it, with the descriptors, in however many pieces."""
    outcome = judged([("receive", None), ("serve", None)], template_bytes=900_000, turns=1, load_s=NEVER_S, call_s=NEVER_S)
    assert isinstance(outcome, Answer) and outcome.status is Status.OK


@values.examples(15)
@given(st.binary(max_size=200), st.booleans())
def test_what_arrives_at_a_runner_is_a_job_or_an_error_that_it_knows(data: bytes, framed: bool) -> None:
    """Bytes that are no job, a length that is not theirs, another message."""
    body = data if framed else data if data else wire.encode(wire.Check(job_id="x"))
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(struct.pack("<I", len(body)) + body if framed else body)
        ours.close()
        with pytest.raises((EOFError, wire.WireError, OSError)):
            receive_job(theirs)


def flooded(path: str, uid: int | None, limit_s: float) -> tuple[object, int]:
    """Return the judge's conclusion about a flood of connections, and how many there were."""
    stop, knocks = threading.Event(), []

    def run() -> None:
        while not stop.is_set():
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as knock:
                knock.settimeout(0.2)
                knock.connect(path)
                knocks.append(1)
                knock.send(b"hello")

    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with accept(path, uid, limit_s) as link:
            outcome: object = link.fileno() >= 0
    except NoRunner as absence:
        outcome = absence
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    return outcome, len(knocks)


def test_a_flood_of_strangers_does_not_hold_the_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found: the deadline was looked at only when nobody knocked; now it is after every stranger, and by this clock a look takes 0.1 s. The
    control is the same flood where its uid is the right one."""
    monkeypatch.setattr(runner_link, "time", SteppedTime(step_ns=100_000_000))
    with tempfile.TemporaryDirectory(prefix="gl-") as place:
        outcome, knocks = flooded(str(Path(place) / "a"), os.getuid() + 1, 1.0)
        assert isinstance(outcome, NoRunner) and knocks <= 11 + BACKLOG
        outcome, _ = flooded(str(Path(place) / "b"), os.getuid(), NEVER_S)
        assert outcome is True
