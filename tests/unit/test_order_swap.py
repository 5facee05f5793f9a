"""What a harness inside the kernel's process would say, against runners that are Python functions in a thread."""

import threading
from dataclasses import replace

import pytest

from grader.api.conversion import to_message
from grader.v1 import report_pb2
from grader.views import formatting
from sandbox.devices.emulated import EmulatedDevice
from sandbox.launch.kernel import Bound, Loaded
from sandbox.launch.loop import serve
from sandbox.protocol import wire
from sandbox.protocol.gate import GATE_BYTES, Call, Gate, Operation, Slot, Status, create_sealed
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.order_swap import order_swap
    from sandbox.judge.run.runner_link import RunnerLink
    from tests.unit.test_lane import PROBLEM, honest, judged

PUBLIC = wire.Workload(workload_id="n4096", axes={"n": 4096})


def seen(facts) -> list[wire.OrderSwap | None]:
    return [fact.order_swap for fact in facts if isinstance(fact, wire.Trial)]


def of_public():
    return replace(PROBLEM, workloads=(PUBLIC,))


def nothing(inputs, outputs) -> None:
    """Writes nothing: what lies in the outputs is its answer."""


@pytest.mark.parametrize(
    ("kernel", "reference", "expected"),
    [
        (nothing, "a * 2 + b", (False, True)),
        (lambda given, out: out[0].zero_(), "a * 2 + b", (False, False)),
        (lambda given, out: out[0][:9].copy_(given[0][:9]), "torch.where(torch.arange(len(a)) < 9, a, 0 * a)", (True, True)),
        (lambda given, out: out[0].add_(given[0]), "a", (True, False)),
    ],
)
def test_a_wrong_answer_has_what_both_orders_would_have_shown(tmp_path, kernel, reference, expected) -> None:
    """It passes where what it did not write, or added to, happened to lie there. The verdict is the same for all."""
    problem = replace(of_public(), reference=f"import torch\n\ndef reference(a, b):\n    return {reference}\n")
    facts = judged(tmp_path, kernel, problem=problem)
    (found,) = seen(facts)
    assert found == wire.OrderSwap(kernel_first=expected[0], pytorch_first=expected[1])
    assert isinstance(facts[-1], wire.Finished)


def test_an_answer_is_left_in_the_allocators_free_memory(monkeypatch) -> None:
    """As PyTorch leaves it, and only where torch allocates for the kernel; what becomes of freed memory is the allocator's affair. The
    control is a call without reuse."""
    size, device, left = 1024, EmulatedDevice(), []
    arena, empty_like = device.create_arena(4 * size), torch.empty_like
    answer = arena.tensor(0, "uint8", (4 * size,)).random_(1, 255)
    monkeypatch.setattr(torch, "empty_like", lambda like: left.append(empty_like(like)) or left[-1])
    for uses_torch, reuse in ((False, True), (True, False), (True, True)):
        fd = create_sealed("gate", GATE_BYTES)
        gate, kernel = Gate(fd), Loaded(bind=lambda call: Bound(launch=list), uses_torch=uses_torch)
        runner = threading.Thread(target=serve, args=(Gate(fd), 0, device, arena, {0: kernel}))
        runner.start()
        for operation in (Operation.PLACE, Operation.CALL, Operation.EXIT):
            previous, outputs = gate.done, (Slot(offset=0, shape=(size,), item_bytes=4),)
            number = gate.open(Call(operation=operation, outputs=outputs, reuse=reuse))
            assert gate.wait(number, previous, 2**63, runner.is_alive) and gate.answer().status is Status.OK
        runner.join()
        assert bool(left) is (uses_torch and reuse) and all(torch.equal(one, answer) for one in left)


@pytest.mark.parametrize("hidden", [False, True])
def test_no_answer_reaches_a_kernel_that_is_right_or_on_a_hidden_workload(tmp_path, monkeypatch, hidden) -> None:
    """The control is the first test above, where it does."""
    kernel = nothing if hidden else honest
    asked: list[bool] = []
    call = RunnerLink.call
    monkeypatch.setattr(RunnerLink, "call", lambda link, one, *more: (asked.append(one.reuse), call(link, one, *more))[1])
    facts = judged(tmp_path, kernel, problem=replace(PROBLEM, workloads=(replace(PUBLIC, hidden=hidden),)))
    assert not any(seen(facts)) and asked and not any(asked)


def test_it_refuses_a_hidden_workload() -> None:
    """Whatever asks for it."""
    hidden = wire.Workload(workload_id="secret", axes={"n": 33}, hidden=True)
    bench = type("Bench", (), {"workload": hidden})()
    with pytest.raises(RuntimeError, match="hidden workload"):
        order_swap(None, bench)


def test_a_kernel_that_ends_in_it_keeps_its_verdict(tmp_path) -> None:
    """What the trial found stands; there is only no row."""
    calls: list[int] = []

    def dies_later(inputs, outputs) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("boom")

    facts = judged(tmp_path, dies_later, problem=of_public())
    assert seen(facts) == [None] and [one.outcome for one in facts if isinstance(one, wire.Trial)] == [wire.TrialOutcome.UNWRITTEN]
    assert isinstance(facts[-1], wire.Finished)


@pytest.mark.parametrize(("kernel_first", "pytorch_first"), [(False, True), (True, True), (False, False)])
@pytest.mark.parametrize("place", ["trial", "profile"])
def test_it_is_shown_in_a_sentence(kernel_first, pytorch_first, place) -> None:
    """Of a wrong answer, and of a profile; the reason where PyTorch's answer is what it took."""
    found = to_message(report_pb2.OrderSwap, wire.OrderSwap(kernel_first=kernel_first, pytorch_first=pytorch_first))
    trial, profile = report_pb2.Trial(order_swap=found), report_pb2.Profile(order_swap=found)
    report = report_pb2.Report(trials=[trial]) if place == "trial" else report_pb2.Report(profile=profile)
    sentence = formatting.order_swap(report)
    assert f"{'right' if kernel_first else 'wrong'} with the kernel first" in sentence
    assert f"{'right' if pytorch_first else 'wrong'} with PyTorch first" in sentence
    assert ("still lies" in sentence) is (pytorch_first and not kernel_first)
    assert formatting.order_swap(report_pb2.Report()) == ""
