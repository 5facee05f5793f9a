"""The native part of the judge's clock, with a driver that only writes down what it is asked for."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from sandbox.devices import clock as clock_module
from sandbox.devices.clock import FUNCTIONS, SHADE_COUNT, NativeClock, Signals, TurnTime, WaitEnd
from sandbox.protocol.gate import FINE, GATE_BYTES, Gate, Operation, create_sealed
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch


COPY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
FILL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p)
PLAIN = ctypes.CFUNCTYPE(ctypes.c_int)
WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint)
RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
ELAPSED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p)
PUBLISHED = ctypes.c_uint64(0)
NEVER_S, WORK_S = 3600.0, 0.3


class FakeDriver:
    """The functions of the driver, on the host's memory and by the host's clock."""

    def cuEventCreate(self, event: object, _: int) -> int:
        """An event is the place of its time."""
        self.created += 1
        event._obj.value = self.created  # type: ignore[attr-defined]
        return 0

    def __init__(self, code: int = 0) -> None:
        self.created = 0
        self.calls: list[str] = []
        self.copied: list[tuple[int, int]] = []

        def copy(to: int, source: int, size: int, _: object) -> int:
            self.calls.append("copy")
            self.copied.append((to, source))
            ctypes.memmove(to, source, size)
            return code

        def said(name: str) -> int:
            self.calls.append(name)
            return 0

        def write(_: object, to: int, value: int, __: int) -> int:
            ctypes.c_uint64.from_address(to).value = value
            return said("published")

        def record(event: int, _: object) -> int:
            self.times[event - 1] = time.monotonic()
            return said("record")

        def elapsed(milliseconds: object, begin: int, end: int) -> int:
            milliseconds[0] = 1e3 * (self.times[end - 1] - self.times[begin - 1])  # type: ignore[index]
            return 0

        self.times = [0.0, 0.0]
        self._kept = (
            COPY(copy),
            FILL(lambda *_: said("evict")),
            PLAIN(lambda: said("synchronize")),
            PLAIN(lambda: said("unpin")),
            WRITE(write),
            RECORD(record),
            ELAPSED(elapsed),
        )
        for name, function in zip(FUNCTIONS, self._kept, strict=True):
            setattr(self, name, function)


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
    go, done = gate.addresses()
    return Signals(
        go_address=go,
        done_address=done,
        published_address=ctypes.addressof(PUBLISHED),
        previous=gate.done,
        number=gate.arm(Operation.CALL),
        limit_ns=int(limit_s * 1e9),
        link_fd=link.fileno(),
    )


def test_a_turn_goes_and_publishes_then_reads(runner: tuple[Gate, Gate, socket.socket, socket.socket]) -> None:
    """The inputs are published after `go`, in one order on the device, and the snapshot is taken after `done`."""
    ours, theirs, link, _ = runner
    driver = FakeDriver()
    seen: list[str] = []

    def serve() -> None:
        number = theirs.next(0)
        assert theirs.operation() is Operation.CALL
        while "published" not in driver.calls:
            time.sleep(0.001)
        time.sleep(WORK_S)
        seen.extend(driver.calls)
        theirs.reply(number, FINE)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    found, arena, snapshot = taken(ours, link, driver)
    thread.join(2)
    assert (found.ending, found.code) == (WaitEnd.DONE, 0)
    assert found.duration_ns > 1e9 * WORK_S > found.read_ns > 0  # what was read was read after the work, which it has no part in
    shade = ["evict"] * (1 + SHADE_COUNT)
    assert seen == ["synchronize", "unpin", *shade, "record", "copy", "evict", "published"]
    assert driver.calls[len(seen) :] == ["copy", "record", "synchronize"]
    assert arena.tolist() == snapshot.tolist() == [1.0, 2.0, 3.0]


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
    kept, seen = [], []
    for turn in range(3):
        inputs, outputs, arena = torch.full((1000,), float(turn)), torch.full((2, 5), -1.0 - turn), [torch.zeros(1000), torch.zeros(2, 5)]
        kept.append((inputs, outputs))
        driver.copied.clear()
        clock.take([(arena[0], inputs), (arena[1], outputs)], [(outputs, arena[0][:10].view(2, 5))], signals(ours, link, 0.01))
        assert arena[0].tolist() == inputs.tolist() and arena[1].tolist() == [[-1.0 - turn] * 5] * 2
        assert outputs.tolist() == [[turn] * 5] * 2
        (_, first), (_, poison), (read, _) = driver.copied
        assert poison == read
        seen.append((first, poison))
    assert len(set(seen)) == (1 if limit_bytes else 3)


@pytest.mark.timeout(60)  # hundreds of times the deadline
def test_silence_is_a_time_out(runner: tuple[Gate, Gate, socket.socket, socket.socket]) -> None:
    """The deadline is kept, and the snapshot is taken all the same."""
    ours, _, link, _ = runner
    begun = time.monotonic()
    found, _, snapshot = taken(ours, link, FakeDriver(), limit_s=0.1)
    assert found.ending is WaitEnd.TIMED_OUT and time.monotonic() - begun >= 0.1
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
