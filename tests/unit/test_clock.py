"""The native part of the judge's clock, with a driver that only writes down what it is asked for."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from sandbox.devices import clock as clock_module
from sandbox.devices.clock import FUNCTIONS, NON_BLOCKING, NativeClock, RunCopies, TrainTime, WaitEnd
from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge.runner_link import RunnerLink
from sandbox.launch.loop import Bound, Loaded, serve
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, GATE_BYTES, Call, Gate, Operation, create_sealed
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.references import Task
    from sandbox.judge.trial import RunOptions, WorkloadContext, judge_run, run_train


COPY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p)
FILL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint64, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p)
PLAIN = ctypes.CFUNCTYPE(ctypes.c_int)
WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint)
RECORD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
QUERY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
ELAPSED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p)
NOT_READY = 600
RELEASING, UNTIL_EQUAL = 77, 1
NEVER_S, LONG_NS = 3600.0, 3600 * 10**9
WORKS_MS, SLOW_MS = (10.0, 20.0, 40.0), 1000.0
SHIFTS = 2  # of each kind


class FakeDriver:
    """The functions of the driver, on the host's memory and by a clock that stands still. The default stream does one thing after the
    other, and nothing behind a wait for a number until that number is there; calls are in the order in which things were done."""

    def cuEventCreate(self, event: object, _: int) -> int:
        """An event is the place of its time, plus 1."""
        self.times.append(None)
        event._obj.value = len(self.times)  # type: ignore[attr-defined]
        return 0

    def cuStreamCreate(self, stream: object, flags: int) -> int:
        """Return any handle but the default stream's."""
        assert flags == NON_BLOCKING
        stream._obj.value = RELEASING  # type: ignore[attr-defined]
        return 0

    def __init__(self, code: int = 0, overwritten: int = 0, release_code: int = 0) -> None:
        """code: what copies return. overwritten: how many of the judge's releases a runner undoes; release_code: what those return."""
        self.now_ms = 0.0
        self.times: list[float | None] = []
        self.calls: list[str] = []
        self.copied: list[tuple[int, int]] = []
        self.published, self.finished = ctypes.c_uint64(0), ctypes.c_uint64(0)
        self.publish_count = 0  # enqueued
        self.started_s = 0.0
        self._first = 0  # number of the train
        self._queued: list[tuple[str, Callable[[], bool]]] = []
        self._lock = threading.RLock()

        def copy(to: int, source: int, size: int, _: object) -> int:
            def do() -> None:
                self.copied.append((to, source))
                ctypes.memmove(to, source, size)

            if source == to + 8:
                return self._queue("shift", lambda: None)
            self._queue("copy", do)
            return code

        def fill(_to: int, _value: int, count: int, _: object) -> int:
            return self._queue("shift" if count == 1 else "evict", lambda: None)

        def write(stream: int | None, to: int, value: int, __: int) -> int:
            def do() -> None:
                ctypes.c_uint64.from_address(to).value = value

            if stream is None:
                assert to == ctypes.addressof(self.published)
                self._first = self._first or value
                self.publish_count += 1
                return self._queue(f"published {value - self._first}", do)
            assert stream == RELEASING
            assert to == ctypes.addressof(self.finished)
            with self._lock:
                self.calls.append("released")
                if not (release_code or self.calls.count("released") <= overwritten):
                    do()
                self.look()
            return release_code

        def record(event: int, _: object) -> int:
            def do() -> None:
                self.times[event - 1] = self.now_ms
                self.started_s = self.started_s or time.monotonic()

            self.times[event - 1] = None
            return self._queue("record", do)

        def elapsed(milliseconds: object, begin: int, end: int) -> int:
            milliseconds[0] = self.times[end - 1] - self.times[begin - 1]  # type: ignore[index, operator]
            return 0

        def hold(_: object, at: int, value: int, flags: int) -> int:
            assert flags == UNTIL_EQUAL
            self._first = self._first or value
            name = f"waited {value - self._first}" if at == ctypes.addressof(self.finished) else "waited"
            return self._queue(name, lambda: ctypes.c_uint64.from_address(at).value == value)

        def query(event: int) -> int:
            self.look()
            return NOT_READY if self.times[event - 1] is None else 0

        def say(name: str) -> int:
            self.calls.append(name)
            return 0

        def unpin() -> int:
            self.look()
            return say("unpin") if not self._queued else NOT_READY  # it would wait for the stream, and all that comes later for it

        def synchronize() -> int:
            self.look()
            assert not self._queued, "the judge waits for ever"
            return say("synchronize")

        self._callbacks = (
            COPY(copy),
            FILL(fill),
            PLAIN(synchronize),
            PLAIN(unpin),
            WRITE(write),
            RECORD(record),
            ELAPSED(elapsed),
            WRITE(hold),
            QUERY(query),
        )
        for name, function in zip(FUNCTIONS, self._callbacks, strict=True):
            setattr(self, name, function)

    def _queue(self, name: str, action: Callable[[], object]) -> int:
        with self._lock:
            self._queued.append((name, lambda: action() is not False))
            self.look()
        return 0

    def look(self) -> None:
        """Let the default stream do what it may."""
        with self._lock:
            while self._queued and self._queued[0][1]():
                self.calls.append(self._queued.pop(0)[0])


Ends = tuple[Gate, Gate, socket.socket, socket.socket]


@pytest.fixture
def runner() -> Iterator[Ends]:
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


def take_train(gate: Gate, link: socket.socket, driver: FakeDriver, limit_s: float = NEVER_S) -> tuple[TrainTime, torch.Tensor]:
    """A train of one run that publishes 1, 2, 3 and reads what the runner made of it."""
    arena, snapshot = torch.zeros(3), torch.zeros(3)
    copies = RunCopies(publish=[(arena, torch.tensor([1.0, 2.0, 3.0]))], snapshot=[(snapshot, arena)])
    return clock_of(driver).take([copies], **signals(gate, link, driver, limit_s)), snapshot


def signals(gate: Gate, link: socket.socket, driver: FakeDriver, limit_s: float) -> dict[str, int]:
    """Keyword arguments of a call that is armed now."""
    places = {"published": ctypes.addressof(driver.published), "finished": ctypes.addressof(driver.finished)}
    counters = {"previous": gate.done, "number": gate.arm(Operation.CALL), "limit_ns": int(limit_s * 1e9), "link": link.fileno()}
    return gate.addresses() | places | counters


class HeldDevice(EmulatedDevice):
    """A device of the native clock, whose launches wait for their inputs on the host."""

    CLOCK = wire.Clock.DEVICE_EVENTS

    def __init__(self, driver: FakeDriver) -> None:
        super().__init__()
        self.driver, self.clock = driver, clock_of(driver)

    def hold(self, _arena: object, number: int) -> None:
        while self.driver.published.value != number:
            time.sleep(0.001)
            self.driver.look()

    def finish(self, _arena: object, number: int) -> None:
        self.driver.finished.value = number
        self.driver.look()


class Train(NamedTuple):
    """Times of a train, and what was done before each step of the runner and after the last."""

    time: TrainTime
    parts: list[list[str]]
    snapshots: list[list[float]]

    @property
    def calls(self) -> list[str]:
        """Return all calls but releases."""
        return [call for part in self.parts for call in part if call != "released"]


@pytest.fixture
def train_served_by(runner: Ends, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Train]:
    """Take trains with a runner that says "launched", ends the run of a number, or says "done", in this order. All runs are in one place
    and a kernel adds 0.5 there."""
    monkeypatch.setattr(clock_module, "secrets", SimpleNamespace(randbelow=lambda limit: min(SHIFTS, limit - 1)))

    def serve(
        *steps: str | int, driver: FakeDriver | None = None, launch_limit_ns: int = LONG_NS, scalars: tuple[float, ...] = (), count: int = 3
    ) -> Train:
        monkeypatch.setattr(clock_module, "LAUNCH_LIMIT_NS", launch_limit_ns)
        ours, theirs, link, _ = runner
        driver = driver or FakeDriver()
        arena, snapshots, cuts = torch.zeros(1), [torch.zeros(1) for _ in range(count)], [0]
        values: list[float] = []

        def runs() -> None:
            number = theirs.next(0)
            values.extend(theirs.scalars(len(scalars)))
            for step in steps:
                while isinstance(step, int) and driver.published.value < number + step:
                    time.sleep(0.001)
                    driver.look()
                driver.look()  # what the judge's thread is at is noted
                cuts.append(len(driver.calls))
                if isinstance(step, int):
                    driver.now_ms += WORKS_MS[step]
                    arena.add_(0.5)
                    driver.finished.value = number + step
                    driver.look()
                elif step == "launched":
                    theirs.say_launched(number)
                else:
                    driver.now_ms += SLOW_MS
                    driver.calls.append("done")
                    theirs.reply(number, FINE)

        thread = threading.Thread(target=runs, daemon=True)
        thread.start()
        copies = [RunCopies(publish=[(arena, torch.full((1,), 1.0 + index))], snapshot=[(to, arena)]) for index, to in enumerate(snapshots)]
        train_time = clock_of(driver).take(copies, scalars, **signals(ours, link, driver, NEVER_S))
        thread.join(300)
        assert tuple(values) == scalars
        return Train(train_time, [driver.calls[a:b] for a, b in pairwise([*cuts, None])], [to.tolist() for to in snapshots])

    return serve


SHIFTED = ["shift"] * 2 * SHIFTS
BEGUN = [["unpin", *SHIFTED, "evict", "waited", "record", "copy", "evict", f"published {index}"] for index in range(3)]
ENDED = [[f"waited {index}", "record", "copy", "record"] for index in range(3)]
PARTS = [["synchronize"], BEGUN[0], ENDED[0] + BEGUN[1], ENDED[1] + BEGUN[2], [*ENDED[2], "published 3"], ["synchronize"]]
WHOLE = [call for part in PARTS for call in part]


def test_a_train_publishes_and_reads_run_by_run(train_served_by: Callable[..., Train]) -> None:
    """All of it waits until the runner has launched. The inputs of a run are copied when the one before has ended and was read, a host that
    is slow to say `done` is in nobody's time, and each run has a time of its own."""
    train = train_served_by("launched", 0, 1, 2, "done")
    assert train.parts == [*PARTS[:-1], ["done", *PARTS[-1]]]
    assert (train.time.ending, train.time.code) == (WaitEnd.DONE, 0)
    assert train.time.durations_ns == tuple(1e6 * work_ms for work_ms in WORKS_MS)
    assert train.snapshots == [[1.5], [2.5], [3.5]]


def test_a_train_starts_without_a_runner_that_waits_for_its_kernels(train_served_by: Callable[..., Train]) -> None:
    """Such a runner can't say that it has launched. The train is held back for as long as launches may take, and is none the worse."""
    driver, begun_s = FakeDriver(), time.monotonic()
    train = train_served_by(0, 1, 2, "done", driver=driver, launch_limit_ns=20_000_000)
    assert driver.started_s - begun_s >= 3 * 0.02
    assert train.calls == [*WHOLE[:-1], "done", "synchronize"]
    assert train.time.durations_ns == tuple(1e6 * work_ms for work_ms in WORKS_MS) and train.snapshots == [[1.5], [2.5], [3.5]]


def test_scalars_are_there_with_go_and_inside_the_clock(train_served_by: Callable[..., Train]) -> None:
    """Their launch needs them: the clock runs before the runner may go, and for longer, so that the launch is not what it measures. All
    that is longer is over before the inputs are there."""
    train = train_served_by("launched", 0, "done", scalars=(0.0, 0.25), count=1)
    assert "record" in train.parts[0]
    begun = list(BEGUN[0])
    begun[begun.index("record") + 1 : begun.index("copy")] = ["evict"] * 8
    assert train.calls == ["synchronize", *begun, *ENDED[0], "published 1", "done", "synchronize"]
    assert train.time.durations_ns == (1e6 * WORKS_MS[0],) and train.snapshots == [[1.5]]


@pytest.mark.parametrize("overwritten", [0, 3])
@pytest.mark.parametrize("steps", [("done",), ("launched", 0, "done")])
def test_a_runner_that_only_says_done_holds_nobody(
    train_served_by: Callable[..., Train], steps: tuple[str | int, ...], overwritten: int
) -> None:
    """Its stream never wrote a number, as after an exception: the judge writes it for each run, until the stream has seen it, however often
    a kernel writes over it. It doesn't wait for launches either. The end is that of the judge's own write then."""
    train = train_served_by(*steps, driver=FakeDriver(overwritten=overwritten))
    ended = steps.count(0)
    assert (train.time.ending, train.time.code) == (WaitEnd.DONE, 0)
    assert [call for call in train.calls if call != "done"] == WHOLE
    assert sum(part.count("released") for part in train.parts) == 3 - ended + overwritten
    assert train.snapshots == [[1.5 if ended else 1.0], [2.0], [3.0]]


def test_a_stream_that_cannot_be_released_is_not_waited_for(train_served_by: Callable[..., Train]) -> None:
    """The wait would be for ever; the driver's code says that the train is worth nothing."""
    train = train_served_by("done", driver=FakeDriver(release_code=719))
    assert train.time.code == 719
    assert train.parts[-1][-1] == "released" and "synchronize" not in train.parts[-1]


@pytest.mark.parametrize("trusted", [False, True])
def test_each_run_of_a_train_has_a_place_and_inputs_of_its_own(runner: Ends, trusted: bool) -> None:
    """And every one of them is verified; a trusted runner has the same inputs in all."""
    ours, theirs, link, _ = runner
    x = wire.TensorSpec(name="x", dtype="float32", shape=("n",))
    workload = wire.Workload(workload_id="only", axes={"n": 100})
    spec = replace(fakes.problem().spec, inputs=(x,), outputs=(replace(x, name="y"),), workloads=(workload,))
    driver, places = FakeDriver(), list[int]()
    device = HeldDevice(driver)
    arena = device.create_arena(1 << 20)
    arena.published, arena.finished = ctypes.addressof(driver.published), ctypes.addressof(driver.finished)

    def bind(call: Call) -> Bound:
        source, to = (arena.tensor(slot.offset, "float32", slot.shape) for slot in (*call.inputs, *call.outputs))
        places.append(source.data_ptr())
        return Bound(launch=lambda: to.copy_(2 * source))

    threading.Thread(target=serve, args=(theirs, 0, device, arena, {0: Loaded(bind=bind, uses_torch=False)}), daemon=True).start()
    subject = RunnerLink(device=device, arena=arena, gate=ours, link=link, loaded=FINE)
    bench = WorkloadContext(Task(spec=spec, reference=lambda inputs: [2 * inputs[0]]), workload)
    runs = run_train(subject, bench, RunOptions(count=3, limit_s=NEVER_S, inspect=not trusted))
    subject.call(Call(operation=Operation.EXIT), NEVER_S)
    assert len(runs) == len(set(places)) == 3
    assert all(torch.equal(result.outputs[0], 2 * result.inputs[0]) for result in runs)
    assert trusted or all(judge_run(result, bench, wire.TrialPhase.CERTIFY, 0).outcome is wire.TrialOutcome.PASSED for result in runs)
    assert len({float(result.inputs[0][0]) for result in runs}) == (1 if trusted else 3)


@pytest.mark.parametrize("limit_bytes", [1 << 20, 0])
def test_trains_copy_from_and_to_the_same_memory(runner: Ends, monkeypatch: pytest.MonkeyPatch, limit_bytes: int) -> None:
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
        copies = RunCopies(publish=[(arena[0], inputs), (arena[1], outputs)], snapshot=[(outputs, arena[0][:10].view(2, 5))])
        clock.take([copies], **signals(ours, link, driver, 0.01))
        assert arena[0].tolist() == inputs.tolist() and arena[1].tolist() == [[-1.0 - turn] * 5] * 2
        assert outputs.tolist() == [[turn] * 5] * 2
        (_, first), (_, poison), (read, _) = driver.copied
        assert poison == read
        steps.append((first, poison))
    assert len(set(steps)) == (1 if limit_bytes else 3)


@pytest.mark.timeout(60)  # hundreds of times the deadline
def test_silence_is_a_time_out(runner: Ends) -> None:
    """The deadline is kept, and the snapshot is taken all the same: the judge does not wait for a number that never comes."""
    ours, _, link, _ = runner
    begun = time.monotonic()
    train_time, snapshot = take_train(ours, link, FakeDriver(), limit_s=0.1)
    assert train_time.ending is WaitEnd.TIMED_OUT and time.monotonic() - begun >= 0.1
    assert snapshot.tolist() == [1.0, 2.0, 3.0]


def test_a_runner_that_leaves_is_noticed_long_before_the_deadline(runner: Ends) -> None:
    """Its end of the link closes, or says what no runner says."""
    ours, _, link, their_link = runner
    their_link.close()
    assert take_train(ours, link, FakeDriver())[0].ending is WaitEnd.GONE


@pytest.mark.parametrize(("further", "code", "ending"), [(2, 0, WaitEnd.VIOLATED), (0, 700, WaitEnd.DONE)])
def test_a_number_out_of_nowhere_is_a_violation_and_an_error_of_the_driver_is_told(
    runner: Ends, further: int, code: int, ending: WaitEnd
) -> None:
    """Answering a call that was never made; the first code that is no success: the train is worth nothing then."""
    ours, theirs, link, _ = runner
    thread = threading.Thread(target=lambda: theirs.reply(theirs.next(0) + further, FINE), daemon=True)
    thread.start()
    train_time, _ = take_train(ours, link, FakeDriver(code=code))
    assert (train_time.ending, train_time.code) == (ending, code)
    thread.join(300)
