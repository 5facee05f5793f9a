"""A timed run ends on the device: the runner lets it say so, behind all that it launched and before its host says `done`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from sandbox.devices import Arena
from sandbox.devices.emulated import EmulatedDevice
from sandbox.launch.kernel import Bound, Loaded
from sandbox.launch.loop import serve
from sandbox.protocol.gate import FINE, GATE_BYTES, Call, Gate, Operation, Status, create_sealed

ARENA_BYTES, LIMIT_NS = 4096, 60_000_000_000


class NotingDevice(EmulatedDevice):
    """Notes what is asked of it, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def hold(self, arena: Arena, number: int) -> None:
        """Before every launch."""
        self.asked.append(f"hold {number}")

    def finish(self, arena: Arena, number: int) -> None:
        """Behind it."""
        self.asked.append(f"finish {number}")

    def launch_null(self) -> None:
        """A launch."""
        self.asked.append("null")

    def wait(self) -> int:
        """For everything, right before `done`."""
        self.asked.append("wait")
        return 0


@pytest.fixture
def runner() -> Iterator[tuple[Gate, NotingDevice, list[bool]]]:
    """The judge's end of a gate, the runner's device, and whether its next launches fail. A kernel of no tensors."""
    fd = create_sealed("gate", GATE_BYTES)
    ours, theirs, device, failing = Gate(fd), Gate(fd), NotingDevice(), [False]

    def launch() -> None:
        device.asked.append("launch")
        if failing[0]:
            raise ValueError("no launch")

    loaded = Loaded(bind=lambda _: Bound(launch=launch), uses_torch=False)
    thread = threading.Thread(target=serve, args=(theirs, 0, device, device.create_arena(ARENA_BYTES), {0: loaded}), daemon=True)
    thread.start()
    yield ours, device, failing
    do(ours, Call(operation=Operation.EXIT))
    thread.join(5)


def do(gate: Gate, call: Call) -> int:
    """One call, to its end."""
    previous = gate.done
    number = gate.open(call)
    assert gate.wait(number, previous, time.monotonic_ns() + LIMIT_NS, lambda: True)
    return number


@pytest.mark.parametrize("poison", [False, True])
@pytest.mark.parametrize(("operation", "launched"), [(Operation.CALL, "launch"), (Operation.NULL, "null")])
def test_the_device_says_when_a_run_has_ended(
    runner: tuple[Gate, NotingDevice, list[bool]], operation: Operation, launched: str, poison: bool
) -> None:
    """After the launch, with the number of the call, timed and verified."""
    gate, device, _ = runner
    do(gate, Call(operation=Operation.PLACE, poison=poison))
    device.asked.clear()
    number = do(gate, Call(operation=operation, poison=poison))
    assert [one for one in device.asked if one != "wait"] == [f"hold {number}", launched, f"finish {number}"]
    assert poison or device.asked[-1] == "wait"
    assert gate.answer() == FINE


def test_the_floor_ends_before_its_kernel(runner: tuple[Gate, NotingDevice, list[bool]]) -> None:
    """It is the least that the protocol can cost: the inputs have come, and nothing has run."""
    gate, device, _ = runner
    number = do(gate, Call(operation=Operation.FLOOR))
    assert device.asked == [f"hold {number}", f"finish {number}", "null"]


@pytest.mark.parametrize("poison", [False, True])
def test_a_launch_that_fails_ends_nothing(runner: tuple[Gate, NotingDevice, list[bool]], poison: bool) -> None:
    """The answer says what failed, and the judge does not wait for the device (`tests/unit/test_clock.py`)."""
    gate, device, failing = runner
    do(gate, Call(operation=Operation.PLACE, poison=poison))
    device.asked.clear()
    failing[0] = True
    number = do(gate, Call(operation=Operation.CALL, poison=poison))
    assert gate.answer().status is Status.RAISED
    assert device.asked[:2] == [f"hold {number}", "launch"] and f"finish {number}" not in device.asked
