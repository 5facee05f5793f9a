"""The gate gives calls and answers back, and tells a lie from an answer."""

import fcntl
import os
import threading
import time
from dataclasses import replace

import pytest

from sandbox.protocol import gate as gates
from sandbox.protocol.gate import FINE, GATE_BYTES, Answer, Call, Gate, GateViolated, Operation, Slot, Status, create_sealed
from tests.clock import SteppedTime

CALL = Call(
    operation=Operation.CALL,
    inputs=(Slot(offset=4096, shape=(3, 5)), Slot(offset=0, shape=(), scalar=0.25)),
    outputs=(Slot(offset=8192, shape=(15,)),),
    axes=(3, 5),
    poison=True,
    seed=7,
)


@pytest.fixture
def pair() -> tuple[Gate, Gate, int]:
    fd = create_sealed("gate", GATE_BYTES)
    return Gate(fd), Gate(fd), fd


def never() -> int:
    """A deadline that no test lives to see."""
    return time.monotonic_ns() + 3600 * 10**9


def test_waiting_ends_at_the_deadline_and_when_nobody_is_there(pair: tuple[Gate, Gate, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """No wait is for ever: it looks at the clock at most twice after the deadline, and as soon as it may sleep it asks who is there."""
    judge, _, _ = pair
    number, time = judge.open(replace(CALL, poison=False)), SteppedTime(step_ns=500_000)
    monkeypatch.setattr(gates, "time", time)
    for deadline_ns in (20_000_000, 500_000):  # one after naps, one while it spins
        time.now_ns = 0
        assert not judge.wait(number, 0, deadline_ns, lambda: True)
        assert deadline_ns < time.now_ns <= deadline_ns + 2 * time.step_ns + gates.NAP_NS
    time.now_ns = 0
    assert not judge.wait(number, 0, 3600 * 10**9, lambda: False)
    assert gates.SPIN_NS < time.now_ns < 2 * gates.SPIN_NS


def test_an_answer_to_a_call_never_made_is_a_violation(pair: tuple[Gate, Gate, int]) -> None:
    """`done` is the last number or this one; numbers are random and do not repeat, so it can't be written ahead, nor is an old one an
    answer."""
    judge, runner, _ = pair
    number = judge.open(CALL)
    runner.reply(number + 1, Answer(status=Status.OK))
    with pytest.raises(GateViolated):
        judge.wait(number, 0, never(), lambda: True)
    assert len({judge.open(CALL) for _ in range(100)}) == 100


@pytest.mark.parametrize(("field", "value"), [("status", 99), ("sample_count", 10_000), ("message_bytes", 1 << 31)])
def test_an_answer_out_of_its_layout_is_a_violation(pair: tuple[Gate, Gate, int], field: str, value: int) -> None:
    judge, runner, _ = pair
    setattr(runner._page, field, value)
    with pytest.raises(GateViolated):
        judge.answer()


def test_a_time_that_no_clock_has_seen_is_a_violation(pair: tuple[Gate, Gate, int]) -> None:
    """Nanoseconds of 64 bits, as from a negative number, do not fit into a report."""
    judge, runner, _ = pair
    number = judge.open(CALL)
    runner.reply(number, Answer(status=Status.OK, samples_ns=(1000, 2**64 - 1000)))
    with pytest.raises(GateViolated):
        judge.answer()


def test_the_gate_can_not_be_shrunk(pair: tuple[Gate, Gate, int]) -> None:
    """A shrunk memfd would kill the judge by SIGBUS; without the seals ftruncate succeeds."""
    _, _, fd = pair
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    with pytest.raises(PermissionError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    control = os.memfd_create("control", os.MFD_ALLOW_SEALING)
    os.ftruncate(control, GATE_BYTES)
    os.ftruncate(control, 0)


def test_every_placement_of_a_train_has_outputs_of_its_own() -> None:
    """An output without axes has a place as any other; a scalar input has none."""
    call = Call(
        operation=Operation.PLACE,
        inputs=(Slot(offset=512, shape=(3,)), Slot(offset=0, shape=(), scalar=0.5)),
        outputs=(Slot(offset=4096, shape=()), Slot(offset=8192, shape=(3,))),
        count=3,
        stride_bytes=65536,
    )
    third = call.at(2)
    assert [slot.offset for slot in third.outputs] == [4096 + 2 * 65536, 8192 + 2 * 65536]
    assert [slot.offset for slot in third.inputs] == [512 + 2 * 65536, 0] and third.count == 1


def test_done_comes_when_the_device_has_ended_and_not_when_it_was_stopped(pair: tuple[Gate, Gate, int]) -> None:
    """The number is there once wait is over; where that tells of a fault, there is none, and the answer says what it was."""
    judge, runner, _ = pair
    echoes = []
    number = judge.open(CALL)
    assert runner.reply_after(lambda: echoes.append(judge.done) or 700, number) == 700
    assert judge.done == 0 and echoes == [0]
    assert runner.reply_after(lambda: echoes.append(judge.done) or 0, number) == 0
    assert judge.done == number and echoes == [0, 0] and judge.answer().status is Status.OK


def test_a_sleeping_runner_is_woken(pair: tuple[Gate, Gate, int]) -> None:
    """A runner that is not woken does not look again before its nap of an hour is over."""
    judge, runner, _ = pair
    serving = threading.Thread(target=lambda: runner.reply(runner.next(0, nap_ns=3600 * 10**9), FINE), daemon=True)
    serving.start()
    assert judge.wait(judge.open(CALL), 0, never(), serving.is_alive)
    serving.join()
