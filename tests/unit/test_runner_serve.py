"""What a runner does between `go` and `done`."""

import threading
from collections.abc import Callable

import pytest

from sandbox.devices import DeviceFault
from sandbox.devices.emulated import EmulatedDevice
from sandbox.launch.kernel import Bound, Loaded
from sandbox.launch.loop import Observe, serve
from sandbox.protocol.gate import GATE_BYTES, Call, Gate, Operation, Status, create_sealed

ILLEGAL = 700


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

    def hold(self, _arena: object, _number: int) -> None:
        self.steps.append("hold")

    def synchronize(self) -> None:
        self.steps.append("synchronize")

    def finish(self, _arena: object, _number: int) -> None:
        self.steps.append("finish")


class Judge:
    """Makes calls, of which the last is EXIT, and collects the answers."""

    def __init__(self, device: EmulatedDevice, kernel: Callable[[], object], observe: Observe | None = None) -> None:
        fd = create_sealed("gate", GATE_BYTES)
        self.gate, arena = Gate(fd), device.create_arena(4096)
        kernels = {0: Loaded(bind=lambda call: Bound(launch=kernel), uses_torch=False)}
        self.runner = threading.Thread(target=serve, args=(Gate(fd), 0, device, arena, kernels, observe), daemon=True)
        self.runner.start()

    def call(self, operation: Operation, *, poison: bool = False) -> tuple[Status, str]:
        previous = self.gate.done
        number = self.gate.open(Call(operation=operation, poison=poison))
        assert self.gate.wait(number, previous, 2**63, self.runner.is_alive)
        return self.gate.answer().status, self.gate.answer().message


@pytest.mark.parametrize("verifying", [False, True])
@pytest.mark.parametrize("operation", [Operation.CALL, Operation.NULL])
def test_a_call_is_done_when_its_kernel_has_run(operation: Operation, verifying: bool) -> None:
    """Once for a call, whether it is verified or timed, and not at all for nothing."""
    ran: list[int] = []
    judge = Judge(EmulatedDevice(), lambda: ran.append(1))
    assert judge.call(Operation.PLACE, poison=verifying)[0] is Status.OK
    assert judge.call(operation)[0] is Status.OK and len(ran) == (operation is Operation.CALL)
    judge.call(Operation.EXIT)


@pytest.mark.parametrize(("name", "said"), [("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_ILLEGAL_ADDRESS"), (None, str(ILLEGAL))])
def test_a_fault_that_waiting_tells_of_is_the_answer(name: str | None, said: str) -> None:
    """`done` never comes for free: the driver's own name for it where it still has one, else its code."""
    judge = Judge(StoppedDevice(name), lambda: None)
    judge.call(Operation.PLACE)
    status, message = judge.call(Operation.CALL)
    assert status is Status.DEVICE_FAULT and message.startswith(f"{said}: ")
    judge.call(Operation.EXIT)


@pytest.mark.parametrize("operation", [Operation.OBSERVE, Operation.OBSERVE_KERNELS])
def test_an_observed_call_is_on_the_inputs_of_that_call(operation: Operation) -> None:
    """On a GPU the launch waits for inputs that the judge publishes after `go`, and its end is told on the device, as of a call. The wait
    is over when the observation begins: it is no work of the kernel's."""
    device = NotingDevice()

    def observe(launch: Callable[[], object], kernels: bool) -> str:
        launch()
        return f"kernels {kernels}"

    judge = Judge(device, lambda: device.steps.append("kernel"), observe)
    judge.call(Operation.PLACE, poison=True)
    device.steps.clear()
    assert judge.call(operation) == (Status.OK, f"kernels {operation is Operation.OBSERVE_KERNELS}")
    assert device.steps[:3] == ["hold", "synchronize", "kernel"] and device.steps[-2:] == ["synchronize", "finish"]
    judge.call(Operation.EXIT)


def test_nothing_is_done_where_nothing_was_placed() -> None:
    """The judge always places first; a runner that is asked out of order says so."""
    judge = Judge(EmulatedDevice(), lambda: None)
    status, message = judge.call(Operation.CALL)
    assert status is Status.RAISED and "nothing was placed" in message
    judge.call(Operation.EXIT)


def test_a_kernels_own_error_is_told() -> None:
    """As before: what it raised, not that it was waited for."""

    def raises() -> None:
        raise ValueError("no such size")

    judge = Judge(EmulatedDevice(), raises)
    judge.call(Operation.PLACE)
    assert judge.call(Operation.CALL) == (Status.RAISED, "ValueError: no such size")
    judge.call(Operation.EXIT)
