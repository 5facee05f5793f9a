"""Calls of a runner, from `go` to `done`. A run ends on the device, behind all that it launched and before the host says `done`."""

import threading
from collections.abc import Callable, Iterator

import pytest

from sandbox.devices import DeviceFault
from sandbox.devices.emulated import EmulatedDevice
from sandbox.launch.loop import Bound, Loaded, Observe, serve
from sandbox.protocol.gate import FINE, GATE_BYTES, Call, Gate, Operation, Status, create_sealed

ILLEGAL = 700
WAITS = ("wait", "synchronize")


class StoppedDevice(EmulatedDevice):
    """A device that a kernel has brought to a stop, or one whose code nobody can name any more."""

    def __init__(self, name: str | None) -> None:
        super().__init__()
        self.name = name

    def wait(self) -> int:
        return ILLEGAL

    def synchronize(self) -> None:
        if self.name is not None:
            raise DeviceFault(self.name)


class NotingDevice(EmulatedDevice):
    """A device that notes when it waits for inputs, for kernels, and when it is told that a call has ended."""

    HAS_PROFILER = True

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def hold(self, _arena: object, number: int) -> None:
        self.steps.append(f"hold {number}")

    def synchronize(self) -> None:
        self.steps.append("synchronize")

    def finish(self, _arena: object, number: int) -> None:
        self.steps.append(f"finish {number}")

    def launch_null(self) -> None:
        self.steps.append("null")

    def wait(self) -> int:
        self.steps.append("wait")
        return 0


class Judge:
    """A judge that makes calls, of which the last is EXIT, and collects the answers."""

    def __init__(self, device: EmulatedDevice, kernel: Callable[[], object], observe: Observe | None = None) -> None:
        fd = create_sealed("gate", GATE_BYTES)
        self.gate, arena = Gate(fd), device.create_arena(4096)
        kernels = {0: Loaded(bind=lambda call: Bound(launch=kernel), uses_torch=False)}
        self.runner = threading.Thread(target=serve, args=(Gate(fd), 0, device, arena, kernels, observe), daemon=True)
        self.runner.start()

    def call(self, operation: Operation, *, poison: bool = False, count: int = 1) -> tuple[Status, str]:
        previous = self.gate.done
        number = self.gate.open(Call(operation=operation, poison=poison, count=count))
        assert self.gate.wait(number, previous, 2**63, self.runner.is_alive)
        return self.gate.answer().status, self.gate.answer().message


Start = Callable[..., Judge]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start runners that serve a judge, and end them after the test."""
    judges: list[Judge] = []

    def start_runner(device: EmulatedDevice, kernel: Callable[[], object], observe: Observe | None = None) -> Judge:
        judges.append(Judge(device, kernel, observe))
        return judges[-1]

    yield start_runner
    for judge in judges:
        judge.call(Operation.EXIT)


@pytest.mark.parametrize("verifying", [False, True])
@pytest.mark.parametrize("operation", [Operation.CALL, Operation.NULL])
def test_a_call_is_done_when_its_kernel_has_run(start: Start, operation: Operation, verifying: bool) -> None:
    ran: list[int] = []
    judge = start(EmulatedDevice(), lambda: ran.append(1))
    assert judge.call(Operation.PLACE, poison=verifying)[0] is Status.OK
    assert judge.call(operation)[0] is Status.OK and len(ran) == (operation is Operation.CALL)


@pytest.mark.parametrize(("name", "expected"), [("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_ILLEGAL_ADDRESS"), (None, str(ILLEGAL))])
def test_a_fault_that_waiting_tells_of_is_the_answer(start: Start, name: str | None, expected: str) -> None:
    """`done` never comes for free: the driver's own name for it where it still has one, else its code."""
    judge = start(StoppedDevice(name), lambda: None)
    judge.call(Operation.PLACE)
    status, message = judge.call(Operation.CALL)
    assert status is Status.DEVICE_FAULT and message.startswith(f"{expected}: ")


@pytest.mark.parametrize("operation", [Operation.OBSERVE, Operation.OBSERVE_KERNELS])
def test_an_observed_call_is_on_the_inputs_of_that_call(start: Start, operation: Operation) -> None:
    """On a GPU the launch waits for inputs that the judge publishes after `go`, and its end is told on the device, as of a call. The wait
    is over when the observation begins: it is no work of the kernel's."""
    device = NotingDevice()

    def observe(launch: Callable[[], object], kernels: bool) -> str:
        launch()
        return f"kernels {kernels}"

    judge = start(device, lambda: device.steps.append("kernel"), observe)
    judge.call(Operation.PLACE, poison=True)
    device.steps.clear()
    assert judge.call(operation) == (Status.OK, f"kernels {operation is Operation.OBSERVE_KERNELS}")
    number = judge.gate.done
    assert device.steps[:3] == [f"hold {number}", "synchronize", "kernel"] and device.steps[-2:] == ["synchronize", f"finish {number}"]


def test_nothing_is_done_where_nothing_was_placed(start: Start) -> None:
    """The judge always places first; a runner that is asked out of order says so."""
    status, message = start(EmulatedDevice(), lambda: None).call(Operation.CALL)
    assert status is Status.RAISED and "nothing was placed" in message


@pytest.mark.parametrize(("poison", "count"), [(False, 1), (False, 3), (True, 1)])
@pytest.mark.parametrize(("operation", "kernel"), [(Operation.CALL, "kernel"), (Operation.NULL, "null")])
def test_the_device_says_when_a_run_has_ended(
    start: Start, operation: Operation, kernel: str, poison: bool, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run of a train waits for its own inputs, and the device once more behind the last. A runner that only launches says so."""
    device = NotingDevice()
    monkeypatch.setattr(Gate, "say_launched", lambda _, number: device.steps.append(f"launched {number}"))
    judge = start(device, lambda: device.steps.append("kernel"))
    judge.call(Operation.PLACE, poison=poison, count=count)
    device.steps.clear()
    judge.call(operation, poison=poison)
    first = judge.gate.done
    runs = [step for number in range(first, first + count) for step in (f"hold {number}", kernel, f"finish {number}")]
    after = [] if poison else [f"hold {first + count}", f"launched {first}"]
    assert [step for step in device.steps if step not in WAITS] == runs + after
    assert poison or device.steps[-1] == "wait"
    assert judge.gate.answer() == FINE


def test_the_floor_ends_before_its_kernel(start: Start) -> None:
    """The least that the protocol can cost: the inputs have come, and nothing has run."""
    device = NotingDevice()
    judge = start(device, lambda: device.steps.append("kernel"))
    judge.call(Operation.FLOOR)
    assert device.steps[:3] == [f"hold {judge.gate.done}", f"finish {judge.gate.done}", "null"] and "kernel" not in device.steps


@pytest.mark.parametrize("poison", [False, True])
def test_a_launch_that_fails_ends_nothing(start: Start, poison: bool) -> None:
    """The answer is what it raised, and the judge does not wait for the device (`tests/unit/test_clock.py`)."""
    device = NotingDevice()

    def fail() -> None:
        device.steps.append("kernel")
        raise ValueError("no such size")

    judge = start(device, fail)
    judge.call(Operation.PLACE, poison=poison)
    device.steps.clear()
    assert judge.call(Operation.CALL, poison=poison) == (Status.RAISED, "ValueError: no such size")
    number = judge.gate.done
    assert device.steps[:2] == [f"hold {number}", "kernel"] and f"finish {number}" not in device.steps
