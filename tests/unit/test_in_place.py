"""An input that is the output too: where it lies, what is published there, what an entry gets and returns, and what is said of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from grader.verdict.timing_audit import impossible
from sandbox.compilers import entry_signature
from sandbox.devices import Arena
from sandbox.devices.clock import RunCopies, TrainTime
from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge.runner_link import RunnerLink
from sandbox.launch.loop import Bound, LaunchRefused, Loaded, serve
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE, GATE_BYTES, Answer, Call, Gate, Operation, Slot, Status, create_sealed
from sandbox.protocol.signatures import cuda_signature, torch_signature
from sandbox.protocol.wire import Symptom, TrialOutcome
from tests import fakes
from tests.collection import AFTER_COLLECTION
from tests.draining import drained

if AFTER_COLLECTION:
    import torch

    from sandbox.judge import baseline
    from sandbox.judge import measure as measuring
    from sandbox.judge.baseline import Baseline, Heartbeat, runner_job
    from sandbox.judge.baseline_process import _load
    from sandbox.judge.explain import explain
    from sandbox.judge.references import Task
    from sandbox.judge.tolerance import unwritten_mask
    from sandbox.judge.trial import BAND_BYTES, RunOptions, WorkloadContext, judge_run, place, run
    from sandbox.languages.torch_extension import copy_out, order_of
    from tests.unit.test_lane import PROBLEM as LANE_PROBLEM
    from tests.unit.test_lane import judged

ARENA_BYTES = 1 << 20
X = wire.TensorSpec(name="x", dtype="float32", shape=("n",), inout=True)
Y = wire.TensorSpec(name="y", dtype="float32", shape=("n",))
OUT = replace(Y, name="out")
WORKLOAD = wire.Workload(workload_id="only", axes={"n": 100})
PROBLEM = replace(
    fakes.problem().spec, inputs=(Y, X), outputs=(replace(X, inout=False), OUT), workloads=(WORKLOAD,), tolerance=wire.Tolerance()
)
IN_PLACE_ONLY = replace(PROBLEM, outputs=PROBLEM.outputs[:1])


def reference(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """x becomes 2 x + y, and out is x - y."""
    y, x = inputs
    return [2 * x + y, x - y]


def honest(y: torch.Tensor, x: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(x - y)
    x.mul_(2).add_(y)


class WatchedLink(RunnerLink):
    """A link that keeps what was copied."""

    def take_train(self, operation: Operation, limit_s: float, runs: Sequence[RunCopies], scalars: Sequence[float] = ()) -> TrainTime:
        self.copies = [*getattr(self, "copies", []), *runs]
        return super().take_train(operation, limit_s, runs, scalars)


@dataclass
class Runner:
    """A runner in a thread. before_go: what it does with the arena's tensors where it is told of them."""

    link: WatchedLink
    arena: Arena
    kernel: Callable[..., None] = honest
    before_go: Callable[..., None] = lambda *_: None
    calls: list[Call] = field(default_factory=list)

    def bind(self, call: Call) -> Bound:
        self.calls.append(call)
        tensors = [self.arena.tensor(slot.offset, "float32", slot.shape) for slot in (*call.inputs, *call.outputs)]
        self.before_go(*tensors)
        return Bound(launch=lambda: self.kernel(*tensors))


@pytest.fixture
def runner() -> Iterator[Runner]:
    device = EmulatedDevice()
    fd = create_sealed("gate", GATE_BYTES)
    ours, theirs = socket.socketpair()
    arena = device.create_arena(ARENA_BYTES)
    fake = Runner(link=WatchedLink(device=device, arena=arena, gate=Gate(fd), link=ours, loaded=FINE), arena=arena)
    thread = threading.Thread(target=serve, args=(Gate(fd), 0, device, arena, {0: Loaded(bind=fake.bind, uses_torch=False)}), daemon=True)
    thread.start()
    yield fake
    fake.link.call(Call(operation=Operation.EXIT), 60.0)
    thread.join()
    ours.close()
    theirs.close()


def trial_of(runner: Runner, **how: object) -> wire.Trial:
    bench = WorkloadContext(Task(spec=PROBLEM, reference=reference), WORKLOAD)
    for _ in range(3):
        result = run(runner.link, bench, RunOptions(limit_s=60.0, **how))  # type: ignore[arg-type]
        trial = judge_run(result, bench, wire.TrialPhase.VERIFY, 0)
        if trial.outcome is not TrialOutcome.PASSED:
            return explain(trial, result, bench, None)
    return trial


@pytest.mark.parametrize("how", [{}, {"poison_allocations": True, "stir": True}, {"warm_count": 3}])
def test_every_run_begins_with_fresh_inputs(runner: Runner, how: dict[str, object]) -> None:
    """Whatever warm launches and earlier runs have made of them; the entry is given its place once, as an input."""
    assert trial_of(runner, **how).outcome is TrialOutcome.PASSED
    assert {(len(call.inputs), len(call.outputs)) for call in runner.calls} == {(2, 1)}


def test_what_is_written_before_go_is_gone(runner: Runner) -> None:
    """A kernel that has all its work done where it learns of a place has done nothing. The control works in its turn."""

    def early(y: torch.Tensor, x: torch.Tensor, out: torch.Tensor) -> None:
        x.fill_(7.0)
        honest(y, x, out)

    runner.before_go = early
    assert trial_of(runner).outcome is TrialOutcome.PASSED
    runner.kernel = lambda y, x, out: out.copy_(x - y)
    assert trial_of(runner).symptom is Symptom.UNCHANGED


@pytest.mark.parametrize(
    ("kernel", "outcome", "symptom"),
    [
        (lambda y, x, out: out.copy_(x - y), TrialOutcome.MISMATCHED, Symptom.UNCHANGED),
        (lambda y, x, out: x.mul_(2).add_(y), TrialOutcome.UNWRITTEN, None),
        (lambda y, x, out: (honest(y, x, out), y.zero_()), TrialOutcome.INPUT_MODIFIED, None),
        (lambda y, x, out: (out.copy_(x - y), x.fill_(float("nan"))), TrialOutcome.NON_FINITE, None),
    ],
)
def test_a_wrong_kernel_is_refused(runner: Runner, kernel: Callable[..., None], outcome: TrialOutcome, symptom: Symptom | None) -> None:
    """A kernel that does nothing is told so; other inputs and other outputs are judged as they always are."""
    runner.kernel = kernel
    trial = trial_of(runner)
    assert (trial.outcome, trial.symptom) == (outcome, symptom)


def test_a_byte_behind_it_is_out_of_bounds(runner: Runner) -> None:
    def kernel(*tensors: torch.Tensor) -> None:
        honest(*tensors)
        runner.arena.tensor(runner.calls[-1].inputs[1].offset + 400, "uint8", (1,)).add_(1)

    runner.kernel = kernel
    assert trial_of(runner).outcome is TrialOutcome.OUT_OF_BOUNDS


def test_what_a_kernel_writes_is_published_last(runner: Runner) -> None:
    """Inputs, then poison, then what is both: a kernel that writes early has not all that it needs, or loses what it wrote."""
    assert trial_of(runner).outcome is TrialOutcome.PASSED
    assert len(runner.link.copies) == 3
    for call, copies in zip(runner.calls, runner.link.copies, strict=True):
        names = {runner.arena.address(slot.offset): name for slot, name in zip((*call.inputs, *call.outputs), "yxo", strict=True)}
        assert [names[to.data_ptr()] for to, _ in copies.publish] == ["y", "x", "o"]
        assert [names[source.data_ptr()] for _, source in copies.snapshot] == ["x", "o"]


def test_it_has_one_place_with_bands_around_it() -> None:
    for _ in range(20):
        placement = place(PROBLEM, WORKLOAD)
        assert placement.outputs[0] == placement.inputs[1] and len(placement.bands) == 6
        begin = placement.inputs[1].offset
        assert (begin - BAND_BYTES, begin) in placement.bands and (begin + 400, begin + 400 + BAND_BYTES) in placement.bands


def test_a_byte_that_is_no_boolean_is_wrong() -> None:
    """The control: values that are poison elsewhere are right where nothing was poisoned."""
    assert unwritten_mask(torch.tensor([0, 1, 2], dtype=torch.uint8).view(torch.bool), None).tolist() == [False, False, True]
    assert not unwritten_mask(torch.tensor([127, -1, 3], dtype=torch.int8), None).any()


def test_a_baseline_leaves_its_inputs_and_copies_what_is_separate() -> None:
    """As much as the subject's runner copies: what is changed in place is in nobody's copy."""
    device, arena = EmulatedDevice(), EmulatedDevice().create_arena(ARENA_BYTES)
    job = runner_job(PROBLEM, "", "", device, trusted=True)
    assert (job.inputs, job.outputs) == ((Y, X), (OUT,))
    slots = [Slot(offset=4096 * number, shape=(100,)) for number in range(3)]
    y, x, out = (arena.tensor(slot.offset, "float32", slot.shape) for slot in slots)
    for number, tensor in enumerate((y, x, out)):
        tensor.fill_(number + 1.0)
    call = Call(operation=Operation.PLACE, inputs=tuple(slots[:2]), outputs=(slots[2],), copy_out=True)
    bound = _load(reference, PROBLEM, job, arena).bind(call)
    assert bound.finish is not None
    bound.finish(bound.launch())
    assert [float(tensor[0]) for tensor in (y, x, out)] == [1.0, 2.0, 1.0]


@pytest.mark.slow
def test_a_sort_is_not_held_to_a_claim_on_what_is_sorted(tmp_path: Path, baseline: Baseline) -> None:
    """do_bench launches it on its own results. The control: the same claim of a kernel that is not in place is taken for a lie."""
    in_place, separate = replace(X, name="a"), replace(X, name="a", inout=False)
    problem = replace(LANE_PROBLEM, inputs=(in_place,), outputs=(separate,), reference="def reference(a):\n    return a.sort().values\n")

    def kernel(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        (values,) = inputs
        if bool((values.diff() < 0).any()):
            time.sleep(0.1)
            values.copy_(values.sort().values)

    facts = judged(tmp_path, kernel, problem=problem, baseline=baseline, measure_s=0.1)
    (measurement,) = [fact for fact in facts if isinstance(fact, wire.Measurement)]
    assert measurement.reported is None and not measurement.reported_confirmed and impossible([measurement]) is None
    claim, certified = wire.Samples(durations_ns=(10_000,)), wire.Samples(durations_ns=(10**9, 10**9))
    claimed = replace(measurement, reported=claim, certified=certified, shortest_ns=None, baselines={})
    assert impossible([claimed]) is not None


# -- entries -------------------------------------------------------------------------------------------------------------


def job_of(problem: wire.ProblemSpec) -> wire.RunnerJob:
    return runner_job(problem, "python", "solve", EmulatedDevice())


def test_an_entry_may_return_what_it_was_given_or_nothing() -> None:
    y, x, target = torch.ones(2), torch.ones(2), torch.zeros(2)
    for result in (None, x, x.view(2, 1), (x,), []):
        copy_out(result, [], job_of(IN_PLACE_ONLY), (), [x])
    for result in (y, [y], (x, y), (y, x.view(1, 2))):
        copy_out(result, [target], job_of(PROBLEM), (), [x])
        assert target.tolist() == [1.0, 1.0]
        target.zero_()
    empty = torch.ones(0)
    copy_out((empty, torch.zeros(0)), [torch.zeros(0)], job_of(PROBLEM), (), [empty])
    copy_out(empty.view(0), [], job_of(IN_PLACE_ONLY), (), [empty])
    copy_out(x.view(2), [target], job_of(PROBLEM), (), [x])  # a view of what is changed may be another output, too
    assert target.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("problem", "result", "sentence"),
    [
        (IN_PLACE_ONLY, "another", "the kernel returned 1 outputs; the problem has 0, next to x, which is changed in place: write there"),
        (
            PROBLEM,
            None,
            "the kernel returned nothing, and the problem has y, x -> out; return out, or take it",
        ),
        (PROBLEM, "itself", "the kernel returned 0 outputs; the problem has 1, next to x"),
    ],
)
def test_a_result_that_is_not_asked_for_is_refused(problem: wire.ProblemSpec, result: str | None, sentence: str) -> None:
    x = torch.ones(2)
    returned = {None: None, "another": torch.ones(2), "itself": x}[result]
    with pytest.raises(LaunchRefused) as refused:
        copy_out(returned, [torch.zeros(2) for _ in problem.separate_outputs], job_of(problem), (), [x])
    assert refused.value.message.startswith(sentence)


def test_what_a_schema_writes_to_is_matched() -> None:
    """By name where names are the problem's, else in order; a problem without outputs of its own takes its inputs."""
    tensors = {"y": True, "x": True, "out": True}
    assert order_of(tensors, job_of(PROBLEM), ["x", "out"]) == (0, 1, 2)
    assert order_of({"out": True, "x": True, "y": True}, job_of(PROBLEM), ["out", "x"]) == (2, 1, 0)
    assert order_of({"a": True, "b": True, "c": True}, job_of(PROBLEM), ["a", "b"]) == (1, 2, 0)
    assert order_of({"x": True, "n": False, "y": True}, job_of(IN_PLACE_ONLY)) == (1, 2, 0)
    number = wire.TensorSpec(name="n", dtype="int64", shape=(), distribution=wire.Distribution(kind="constant", high_axis="n"))
    job = job_of(replace(PROBLEM, inputs=(number, Y), outputs=(OUT,)))
    assert order_of({"Y": True, "OUT": True, "n": None}, job) == (1, 2, 0)  # the axis is among the inputs, too
    assert order_of({"values": True, "other": True}, job_of(IN_PLACE_ONLY), ["values"]) == (1, 0)


@pytest.mark.parametrize(
    ("parameters", "order", "mismatch"),
    [
        ("const float* y, float* x, float* out, int64_t n", (), ""),
        ("float* x, const float* y, int n, float* out", (1, 0, 3, 2), ""),
        ("float* data, float* result, int n, const float* other", (1, 2, 3, 0), ""),
        ("const float* y, const float* x, float* out, int64_t n", (), "`const float* x` is given the input x, which is to be written"),
    ],
)
def test_a_raw_entry_has_it_as_one_parameter(parameters: str, order: tuple[int, ...], mismatch: str) -> None:
    call = wire.EntryCall(inputs=PROBLEM.inputs, outputs=PROBLEM.separate_outputs, axes=("n",))
    note = entry_signature.note("solve", call, {"k.cu": f'extern "C" void solve({parameters}) {{}}'})
    assert note.argument_order == order and mismatch in note.mismatch and bool(note.mismatch) is bool(mismatch)


def test_declarations() -> None:
    """Of both kinds of problem; nothing is returned that is changed in place."""
    assert cuda_signature(PROBLEM) == 'extern "C" void solve(const float* y, float* x, float* out, int64_t n, cudaStream_t stream)'
    assert torch_signature(PROBLEM) == "torch::Tensor forward(torch::Tensor y, torch::Tensor x)"
    assert torch_signature(IN_PLACE_ONLY) == "void forward(torch::Tensor y, torch::Tensor x)"


@pytest.mark.parametrize(("dtype", "count"), [("float32", 3), ("bfloat16", 3), ("int32", 1), ("bool", 1)])
def test_integers_that_are_changed_in_place_are_launched_once(dtype: str, count: int) -> None:
    """They may be places, and a second launch on the first one's results then leaves the tensor: no do_bench, one launch to warm up."""
    problem = replace(IN_PLACE_ONLY, inputs=(replace(Y, dtype="int32"), replace(X, dtype=dtype)))
    assert problem.is_repeatable is (count > 1)
    bench = WorkloadContext(Task(spec=problem, reference=reference), WORKLOAD)
    benched = list[float]()

    class Trusted:
        device = EmulatedDevice()

        def call(self, call: Call, limit_s: float) -> Answer:
            benched.append(limit_s)
            return Answer(status=Status.OK, samples_ns=(1,))

    trusted: Any = Trusted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baseline, "timed", lambda *_, **__: [])
        drained(baseline.bench_baselines(trusted, bench, {"eager": [1]}, 1, Heartbeat(wire.Stage.BASELINE)))
        patch.setattr(measuring, "run", lambda *_: None)
        claim = measuring._claim(trusted, bench, 1, 1.0)
    assert (claim is not None, len(benched)) == ((True, 2) if count > 1 else (False, 0))
