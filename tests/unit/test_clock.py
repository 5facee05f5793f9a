"""The native part of the judge's clock, with a driver that only writes down what it is asked for."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from sandbox.devices import clock as clock_module
from sandbox.devices.clock import FUNCTIONS, NON_BLOCKING, SHADE_COUNT, NativeClock, Signals, TurnTime, WaitEnd
from sandbox.protocol.gate import FINE, GATE_BYTES, Gate, Operation, create_sealed
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch


COPY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
FILL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p)
PLAIN = ctypes.CFUNCTYPE(ctypes.c_int)
WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint)
RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
QUERY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
ELAPSED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p)
PUBLISHED, FINISHED = ctypes.c_uint64(0), ctypes.c_uint64(0)
NOT_READY = 600
RELEASING, UNTIL_EQUAL = 77, 1
NEVER_S, WORK_S = 3600.0, 0.3


class FakeDriver:
    """The functions of the driver, on the host's memory and by the host's clock. After a wait for a number the default stream does nothing
    until that number is there."""

    def cuEventCreate(self, event: object, _: int) -> int:
        """An event is the place of its time, plus 1."""
        self.times.append(None)
        event._obj.value = len(self.times)  # type: ignore[attr-defined]
        return 0

    def cuStreamCreate(self, stream: object, flags: int) -> int:
        """Any handle but the default stream's."""
        assert flags == NON_BLOCKING
        stream._obj.value = RELEASING  # type: ignore[attr-defined]
        return 0

    def __init__(self, code: int = 0, overwritten: int = 0, release_code: int = 0) -> None:
        """code: what copies return. overwritten: how many of the judge's releases a runner undoes; release_code: what those return."""
        self.times: list[float | None] = []
        self.calls: list[str] = []
        self.copied: list[tuple[int, int]] = []
        self._waiting: tuple[int, int] | None = None
        self._queued: list[Callable[[], None]] = []

        def copy(to: int, source: int, size: int, _: object) -> int:
            def do() -> None:
                self.calls.append("copy")
                self.copied.append((to, source))
                ctypes.memmove(to, source, size)

            self._do(do)
            return code

        def said(name: str) -> int:
            self.calls.append(name)
            return 0

        def write(stream: int | None, to: int, value: int, __: int) -> int:
            assert stream == (RELEASING if to == ctypes.addressof(FINISHED) else None)
            said("released" if stream else "published")
            if stream and (release_code or self.calls.count("released") <= overwritten):
                return release_code
            ctypes.c_uint64.from_address(to).value = value
            return 0

        def record(event: int, _: object) -> int:
            def do() -> None:
                self.calls.append("record")
                self.times[event - 1] = time.monotonic()

            self.times[event - 1] = None
            self._do(do)
            return 0

        def elapsed(milliseconds: object, begin: int, end: int) -> int:
            milliseconds[0] = 1e3 * (self.times[end - 1] - self.times[begin - 1])  # type: ignore[index, operator]
            return 0

        def hold(_: object, at: int, value: int, flags: int) -> int:
            assert flags == UNTIL_EQUAL
            self._waiting = at, value
            return said("hold")

        def query(event: int) -> int:
            self.look()
            return NOT_READY if self.times[event - 1] is None else 0

        def synchronize() -> int:
            self.look()
            assert self._waiting is None, "the judge waits for ever"
            return said("synchronize")

        self._kept = (
            COPY(copy),
            FILL(lambda *_: said("evict")),
            PLAIN(synchronize),
            PLAIN(lambda: said("unpin")),
            WRITE(write),
            RECORD(record),
            ELAPSED(elapsed),
            WRITE(hold),
            QUERY(query),
        )
        for name, function in zip(FUNCTIONS, self._kept, strict=True):
            setattr(self, name, function)

    def _do(self, action: Callable[[], None]) -> None:
        self._queued.append(action)
        self.look()

    def look(self) -> None:
        """Let the default stream do what it may."""
        if self._waiting is not None and ctypes.c_uint64.from_address(self._waiting[0]).value == self._waiting[1]:
            self._waiting = None
        while self._queued and self._waiting is None:
            self._queued.pop(0)()


@pytest.fixture
def runner() -> Iterator[tuple[Gate, Gate, socket.socket, socket.socket]]:
    """Both ends of a gate and of a link."""
    fd = create_sealed("gate", GATE_BYTES)
    ours, theirs = socket.socketpair()
    yield Gate(fd), Gate(fd), ours, theirs
    ours.close()
    theirs.close()
    os.close(fd)


def clock_of(driver: FakeDriver) -> NativeClock:
    """A clock with a cache of 64 bytes to overwrite."""
    return NativeClock(torch.zeros(64, dtype=torch.uint8), driver)  # type: ignore[arg-type]


def taken(gate: Gate, link: socket.socket, driver: FakeDriver, limit_s: float = NEVER_S) -> tuple[TurnTime, torch.Tensor, torch.Tensor]:
    """A turn that publishes 1, 2, 3 and reads what the runner made of it."""
    arena, snapshot = torch.zeros(3), torch.zeros(3)
    pairs = [(arena, torch.tensor([1.0, 2.0, 3.0]))], [(snapshot, arena)]
    return clock_of(driver).take(*pairs, signals(gate, link, limit_s)), arena, snapshot


def signals(gate: Gate, link: socket.socket, limit_s: float) -> Signals:
    """Of a call that is armed now."""
    go, done_address = gate.addresses()
    return Signals(
        go_address=go,
        done_address=done_address,
        published_address=ctypes.addressof(PUBLISHED),
        finished_address=ctypes.addressof(FINISHED),
        previous=gate.done,
        number=gate.arm(Operation.CALL),
        limit_ns=int(limit_s * 1e9),
        link_fd=link.fileno(),
    )


@pytest.fixture
def turn_served_by(runner: tuple[Gate, Gate, socket.socket, socket.socket]) -> Callable[..., Turn]:
    """Takes a turn with a runner that works for WORK_S, then does its last steps in this order: "finish", by its stream, and "reply"."""

    def serve(*steps: str, driver: FakeDriver | None = None) -> Turn:
        ours, theirs, link, _ = runner
        driver = driver or FakeDriver()
        seen: list[str] = []

        def runs() -> None:
            number = theirs.next(0)
            assert theirs.operation() is Operation.CALL
            while "hold" not in driver.calls:
                time.sleep(0.001)
            time.sleep(WORK_S)
            seen.extend(driver.calls)
            for step in steps:
                if step == "finish":
                    FINISHED.value = number
                    driver.look()
                else:
                    driver.calls.append("done")
                    theirs.reply(number, FINE)

        thread = threading.Thread(target=runs, daemon=True)
        thread.start()
        turn_time, arena, snapshot = taken(ours, link, driver)
        thread.join(2)
        assert arena.tolist() == [1.0, 2.0, 3.0]
        assert turn_time.code != 0 or snapshot.tolist() == arena.tolist()
        return Turn(turn_time, seen, driver.calls[len(seen) :])

    return serve


class Turn(NamedTuple):
    """What a turn took, what the driver was asked before the runner's last steps, and since."""

    time: TurnTime
    before: list[str]
    after: list[str]


def test_a_turn_goes_and_publishes_then_reads(turn_served_by: Callable[..., Turn]) -> None:
    """The inputs are published after `go`, in one order on the device, and the snapshot is taken when the run has ended there."""
    turn = turn_served_by("finish", "reply")
    turn_time = turn.time
    assert (turn_time.ending, turn_time.code) == (WaitEnd.DONE, 0)
    assert turn_time.duration_ns > 1e9 * WORK_S
    shade = ["evict"] * (1 + SHADE_COUNT)
    assert turn.before == ["synchronize", "unpin", *shade, "record", "copy", "evict", "published", "hold"]
    assert turn.after == ["record", "copy", "record", "done", "synchronize"]  # a host that is slow to say `done` is in nobody's time


@pytest.mark.parametrize("overwritten", [0, 3])
def test_a_runner_that_only_says_done_holds_nobody(turn_served_by: Callable[..., Turn], overwritten: int) -> None:
    """Its stream never wrote the number, as after an exception: the judge writes it, until the stream has seen it, however often a kernel
    writes over it. The end is that of the judge's own write then."""
    turn = turn_served_by("reply", driver=FakeDriver(overwritten=overwritten))
    assert (turn.time.ending, turn.time.code) == (WaitEnd.DONE, 0)
    assert turn.after == ["done", *["released"] * (1 + overwritten), "record", "copy", "record", "synchronize"]


def test_a_stream_that_cannot_be_released_is_not_waited_for(turn_served_by: Callable[..., Turn]) -> None:
    """It would be for ever; the driver's code says that the turn is worth nothing."""
    turn = turn_served_by("reply", driver=FakeDriver(release_code=719))
    assert turn.time.code == 719
    assert turn.after == ["done", "released"]


@pytest.mark.parametrize("limit_bytes", [1 << 20, 0])
def test_turns_copy_from_and_to_the_same_memory(
    runner: tuple[Gate, Gate, socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch, limit_bytes: int
) -> None:
    """Wherever the judge's own tensors lie; the control has no such memory. What is copied is right both ways, and twice the same tensor
    has one place: what is published as poison is read into."""
    monkeypatch.setattr(clock_module, "STAGE_LIMIT_BYTES", limit_bytes)
    ours, _, link, _ = runner
    driver = FakeDriver()
    clock = clock_of(driver)
    turns, steps = [], []
    for turn in range(3):
        inputs, outputs, arena = torch.full((1000,), float(turn)), torch.full((2, 5), -1.0 - turn), [torch.zeros(1000), torch.zeros(2, 5)]
        turns.append((inputs, outputs))
        driver.copied.clear()
        clock.take([(arena[0], inputs), (arena[1], outputs)], [(outputs, arena[0][:10].view(2, 5))], signals(ours, link, 0.01))
        assert arena[0].tolist() == inputs.tolist() and arena[1].tolist() == [[-1.0 - turn] * 5] * 2
        assert outputs.tolist() == [[turn] * 5] * 2
        (_, first), (_, poison), (read, _) = driver.copied
        assert poison == read
        steps.append((first, poison))
    assert len(set(steps)) == (1 if limit_bytes else 3)


@pytest.mark.timeout(60)  # hundreds of times the deadline
def test_silence_is_a_time_out(runner: tuple[Gate, Gate, socket.socket, socket.socket]) -> None:
    """The deadline is kept, and the snapshot is taken all the same: the judge does not wait for a number that never comes."""
    ours, _, link, _ = runner
    begun = time.monotonic()
    turn_time, _, snapshot = taken(ours, link, FakeDriver(), limit_s=0.1)
    assert turn_time.ending is WaitEnd.TIMED_OUT and time.monotonic() - begun >= 0.1
    assert snapshot.tolist() == [1.0, 2.0, 3.0]


def test_a_runner_that_leaves_is_noticed_long_before_the_deadline(runner: tuple[Gate, Gate, socket.socket, socket.socket]) -> None:
    """Its end of the link closes, or says what no runner says."""
    ours, _, link, their_link = runner
    their_link.close()
    assert taken(ours, link, FakeDriver())[0].ending is WaitEnd.GONE


def test_a_number_out_of_nowhere_is_a_violation(runner: tuple[Gate, Gate, socket.socket, socket.socket]) -> None:
    """Answering a call that was never made."""
    ours, theirs, link, _ = runner
    thread = threading.Thread(target=lambda: theirs.reply(theirs.next(0) + 2, FINE), daemon=True)
    thread.start()
    assert taken(ours, link, FakeDriver())[0].ending is WaitEnd.VIOLATED
    thread.join(2)


def test_an_error_of_the_driver_is_told(runner: tuple[Gate, Gate, socket.socket, socket.socket]) -> None:
    """The first code that is no success comes back: the turn is worth nothing then."""
    ours, theirs, link, _ = runner
    thread = threading.Thread(target=lambda: theirs.reply(theirs.next(0), FINE), daemon=True)
    thread.start()
    assert taken(ours, link, FakeDriver(code=700))[0].code == 700
    thread.join(2)
