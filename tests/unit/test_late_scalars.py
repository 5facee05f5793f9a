"""A scalar that varies reaches a runner with `go`, inside the judge's clock, and no call before it carries the value."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from sandbox.devices import Arena
from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge.runner_link import RunnerLink
from sandbox.launch.loop import Bound, Loaded, serve
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, GATE_BYTES, Call, Gate, Operation, Status, create_sealed
from tests import fakes
from tests.collection import AFTER_COLLECTION

if AFTER_COLLECTION:
    import torch

    from sandbox.judge.references import Task
    from sandbox.judge.trial import RunOptions, WorkloadContext, run, scalars_are_late

X = wire.TensorSpec(name="x", dtype="float32", shape=("n",))
PHASE = wire.TensorSpec(name="phase", dtype="float64", shape=(), distribution=wire.Distribution(kind="uniform", low=0.5, high=1.5))
FACTOR = wire.TensorSpec(name="factor", dtype="float32", shape=(), distribution=wire.Distribution(kind="constant", high=3.0))
ARENA_BYTES = 1 << 20


def problem(scalar: wire.TensorSpec) -> wire.ProblemSpec:
    workload = wire.Workload(workload_id="only", axes={"n": 100})
    return replace(fakes.problem().spec, inputs=(X, scalar), outputs=(replace(X, name="y"),), workloads=(workload,))


@dataclass
class Runner:
    """A runner in a thread, whose kernel notes during which operation it was bound to which scalar."""

    link: RunnerLink
    page: Gate
    arena: Arena
    bindings: list[tuple[Operation, float]] = field(default_factory=list)

    def bind(self, call: Call) -> Bound:
        """y = x * scalar."""
        (x, scalar), (y,) = call.inputs, call.outputs
        self.bindings.append((self.page.operation(), scalar.scalar))
        source, to = (self.arena.tensor(slot.offset, "float32", slot.shape) for slot in (x, y))
        return Bound(launch=lambda: to.copy_(source * scalar.scalar))


@pytest.fixture
def runner() -> Iterator[Runner]:
    device = EmulatedDevice()
    fd = create_sealed("gate", GATE_BYTES)
    ours, theirs = socket.socketpair()
    arena = device.create_arena(ARENA_BYTES)
    fake = Runner(link=RunnerLink(device=device, arena=arena, gate=Gate(fd), link=ours, loaded=FINE), page=Gate(fd), arena=arena)
    thread = threading.Thread(target=serve, args=(Gate(fd), 0, device, arena, {0: Loaded(bind=fake.bind, uses_torch=False)}), daemon=True)
    thread.start()
    yield fake
    fake.link.call(Call(operation=Operation.EXIT), 60.0)
    thread.join()
    ours.close()
    theirs.close()


def bench_of(scalar: wire.TensorSpec) -> WorkloadContext:
    spec = problem(scalar)
    return WorkloadContext(Task(spec=spec, reference=lambda inputs: [inputs[0] * inputs[1]]), spec.workloads[0])


@pytest.mark.parametrize("how", [{}, {"poison_allocations": True, "stir": True}, {"warm_count": 3}])
def test_a_scalar_that_varies_is_published_with_go(runner: Runner, how: dict[str, bool]) -> None:
    """The scalar is bound in CALL, and never in PLACE; a warm launch gets the value of an earlier run."""
    bench = bench_of(PHASE)
    before: list[float] = []
    for _ in range(4):
        result = run(runner.link, bench, RunOptions(**how, limit_s=60.0))  # type: ignore[arg-type]
        assert result.reply == FINE and torch.equal(result.outputs[0], result.inputs[0] * float(result.inputs[1]))
        fresh = float(result.inputs[1])
        assert (Operation.CALL, fresh) in runner.bindings
        assert all(value in before for operation, value in runner.bindings if operation is not Operation.CALL)
        before.append(fresh)
        runner.bindings.clear()
    assert len(set(before)) == 4


def test_a_constant_is_known_before(runner: Runner) -> None:
    """The control: PLACE carries it, so that a kernel is bound outside of the clock."""
    result = run(runner.link, bench_of(FACTOR), RunOptions(limit_s=60.0))
    assert result.reply == FINE and runner.bindings == [(Operation.PLACE, 3.0)]


def test_a_null_run_is_bound_too(runner: Runner) -> None:
    """Binding costs time of the protocol's own, which is subtracted."""
    assert run(runner.link, bench_of(PHASE), RunOptions(operation=Operation.NULL, limit_s=60.0)).reply.status is Status.OK  # type: ignore[union-attr]
    assert [operation for operation, _ in runner.bindings] == [Operation.NULL]


def test_a_formats_own_draw_may_vary_whatever_the_problem_declares() -> None:
    """Only a constant that the judge draws itself is known to be one."""
    bench = bench_of(FACTOR)
    assert not scalars_are_late(bench)
    own_draw = replace(bench.task, draw=lambda *_: [])
    assert scalars_are_late(WorkloadContext(own_draw, bench.workload))
