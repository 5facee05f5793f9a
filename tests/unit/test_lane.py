"""The judge against runners that are Python functions in a thread: what passes, and what lying gains.

The real runner's loop, gate and arena; only the kernel is a fake, so that a lie is three lines long.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import itertools
import json
import os
import platform
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from grader.verdict.failure_reasons import trial_failed
from sandbox.devices import Arena
from sandbox.devices.clock import RunCopies, TrainTime
from sandbox.devices.emulated import EmulatedDevice
from sandbox.judge.runner_link import CLOSED_SUFFIX, RunnerLink, Silence
from sandbox.launch.loop import Bound, LaunchRefused, Loaded, serve
from sandbox.protocol import wire
from sandbox.protocol.gate import Answer, Call, Gate, Operation, Status, receive_job
from sandbox.protocol.version import VERSION
from tests import fakes
from tests.collection import AFTER_COLLECTION
from tests.draining import drained

if AFTER_COLLECTION:
    import torch

    from sandbox.judge import lane
    from sandbox.judge import measure as measuring
    from sandbox.judge.__main__ import environment
    from sandbox.judge.baseline import Baseline, Heartbeat, HostActivity
    from sandbox.judge.lane import judge, plan_trials
    from sandbox.judge.measure import BENCH_NS, VARIABLE, measure
    from sandbox.judge.references import Task
    from sandbox.judge.timing import OWN_NULL, SUBJECT, SoloTimings, Times, TimingSetup
    from sandbox.judge.trial import RunOptions, WorkloadContext, judge_run, run

Kernel = Callable[[list["torch.Tensor"], list["torch.Tensor"]], None]

NEVER_S = 3600.0  # a limit that nobody lives to see: who waits for it fails by pytest's own
PROBLEM = wire.ProblemSpec(
    problem_id="affine",
    format="native",
    entry="solve",
    inputs=(wire.TensorSpec(name="a", dtype="float32", shape=("n",)), wire.TensorSpec(name="b", dtype="float32", shape=("n",))),
    outputs=(wire.TensorSpec(name="c", dtype="float32", shape=("n",)),),
    workloads=(wire.Workload(workload_id="n100", axes={"n": 100}), wire.Workload(workload_id="n33", axes={"n": 33}, hidden=True)),
    tolerance=wire.Tolerance(),
    reference="def reference(a, b):\n    return a * 2 + b\n",
    axes=("n",),
    trial_count=3,
    trial_s=NEVER_S,
)


def honest(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    outputs[0].copy_(inputs[0] * 2 + inputs[1])


def judged(
    tmp_path: Path,
    kernel: Kernel | None = None,
    *,
    problem: wire.ProblemSpec = PROBLEM,
    serve: Callable[..., None] = serve,
    baseline: Baseline | None = None,
    on_fact: Callable[[wire.Fact], None] = lambda fact: None,
    of_state: Callable[[bytes], Kernel] | None = None,
    device: type[EmulatedDevice] = EmulatedDevice,
    **changes: object,
) -> list[wire.Fact]:
    """The facts of a job whose runner is kernel, or what of_state makes of the state that a runner gets, served by `serve`; in mode TEST,
    which needs no baseline, or else in BENCHMARK. on_fact has each of them while the judge goes on. changes: of the job."""
    (tmp_path / "artifact").write_bytes(b"no elf")
    job = replace(job_of(tmp_path, problem, wire.Mode.BENCHMARK if baseline else wire.Mode.TEST), **changes)  # type: ignore[arg-type]
    thread = threading.Thread(target=run_runner, args=(job.link_path, kernel, serve, of_state), daemon=True)
    thread.start()
    facts = []
    for fact in judge(job, device(), baseline):  # type: ignore[arg-type]
        facts.append(fact)
        on_fact(fact)
    if not isinstance(facts[-1], wire.Broken):
        thread.join(300)
    return facts


def job_of(place: Path, problem: wire.ProblemSpec = PROBLEM, mode: wire.Mode = wire.Mode.TEST) -> wire.Job:
    places = {"link_path": str(place / "judge.sock"), "artifact_path": str(place / "artifact")}
    return fakes.job(problem=problem, mode=mode, artifact_digest=hashlib.sha256(b"no elf").hexdigest(), load_s=NEVER_S, **places)


def run_runner(
    path: str, kernel: Kernel | None, serve: Callable[..., None] = serve, of_state: Callable[[bytes], Kernel] | None = None
) -> None:
    """The runner of a kernel, to the end of its job."""
    link, deadline = socket.socket(socket.AF_UNIX), time.monotonic() + 300
    while True:
        try:
            link.connect(path)
            break
        except OSError:
            if time.monotonic() > deadline:
                return  # the judge has refused the problem
            time.sleep(0.005)
    job, (gate_fd, arena_fd, _, state_fd) = receive_job(link)
    device, gate = EmulatedDevice(), Gate(gate_fd)
    arena = device.attach_arena(arena_fd, job.arena_bytes)
    kernel = of_state(Path(f"/proc/self/fd/{state_fd}").read_bytes()) if of_state else kernel

    def bind(call: Call) -> Bound:
        inputs = [
            arena.tensor(slot.offset, spec.dtype, slot.shape, slot.strides) if spec.shape else slot.scalar
            for slot, spec in zip(call.inputs, job.inputs, strict=True)
        ]
        outputs = [arena.tensor(slot.offset, spec.dtype, slot.shape) for slot, spec in zip(call.outputs, job.outputs, strict=True)]
        return Bound(launch=lambda: kernel(inputs, outputs))

    first = gate.announce(VERSION)
    gate.reply(first, Answer(status=Status.OK))
    serve(gate, first, device, arena, {0: Loaded(bind=bind, uses_torch=False)})
    link.close()


def outcomes(facts: list[wire.Fact]) -> list[str]:
    return [fact.outcome.value for fact in facts if isinstance(fact, wire.Trial)]


def test_an_honest_kernel_passes_every_planned_trial(tmp_path: Path) -> None:
    """The control: three trials on each workload, hidden ones too, each with a key of its own, and Finished at the end."""
    facts = judged(tmp_path, honest)
    trials = [fact for fact in facts if isinstance(fact, wire.Trial)]
    assert outcomes(facts) == ["passed"] * 6 and isinstance(facts[-1], wire.Finished)
    assert {trial.workload_id for trial in trials if trial.hidden} == {"n33"} and len({trial.key for trial in trials}) == 6


def test_an_answer_kept_from_the_first_call_fails_on_the_second(tmp_path: Path) -> None:
    answers: list[torch.Tensor] = []

    def replay(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        if not answers:
            answers.append(inputs[0] * 2 + inputs[1])
        outputs[0].copy_(answers[0])

    assert outcomes(judged(tmp_path, replay)) == ["passed", "mismatched"]


def test_an_answer_kept_by_pointer_fails(tmp_path: Path) -> None:
    """Pointers come again with other values; over 40 trials the memo is hit at least once (chance of escape 2^-39)."""
    memo: dict[int, torch.Tensor] = {}

    def by_pointer(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        key = inputs[0].data_ptr()
        memo.setdefault(key, inputs[0] * 2 + inputs[1])
        outputs[0].copy_(memo[key])

    assert outcomes(judged(tmp_path, by_pointer, problem=replace(PROBLEM, trial_count=40)))[-1] == "mismatched"


def test_writing_nothing_is_unwritten_even_when_the_answer_lies_there(tmp_path: Path) -> None:
    """The right answer of the last call in the same place is no answer: outputs are poisoned before every call."""
    calls: list[int] = []

    def once(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        calls.append(1)
        if len(calls) == 1:
            honest(inputs, outputs)

    facts = judged(tmp_path, once)
    assert outcomes(facts) == ["passed", "unwritten"]
    last = [fact for fact in facts if isinstance(fact, wire.Trial)][-1]
    assert last.unwritten_count == last.element_count == 100


@pytest.mark.parametrize(
    ("kernel", "outcome"),
    [
        (lambda i, o: o[0].fill_(0), "mismatched"),
        (lambda i, o: o[0].fill_(float("inf")), "non_finite"),
        (lambda i, o: (honest(i, o), i[0].zero_()), "input_modified"),
        (lambda i, o: (honest(i, o), ctypes.memset(o[0].data_ptr() + o[0].nbytes, 1, 4)), "out_of_bounds"),
        (lambda i, o: (honest(i, o), ctypes.memset(i[1].data_ptr() - 4096, 1, 64)), "out_of_bounds"),
        (lambda i, o: o[0][1:].copy_((i[0] * 2 + i[1])[1:]), "unwritten"),
        (lambda i, o: (_ for _ in ()).throw(RuntimeError("boom")), "raised"),
        (lambda i, o: (_ for _ in ()).throw(LaunchRefused(Status.WRONG_DTYPE, "half")), "wrong_dtype"),
    ],
)
def test_a_wrong_kernel_stops_at_its_first_trial(tmp_path: Path, kernel: Kernel, outcome: str) -> None:
    assert outcomes(judged(tmp_path, kernel)) == [outcome]


def test_saying_done_before_the_work_gains_nothing(tmp_path: Path) -> None:
    """The snapshot is taken at `done`; what comes later is not in it."""

    def early(gate: Gate, last: int, device: EmulatedDevice, arena: Arena, kernels: dict[int, Loaded]) -> None:
        while True:
            last = gate.next(last)
            call = gate.call()
            if call.operation is Operation.PLACE:
                placed = kernels[0].bind(call)
            gate.reply(last, Answer(status=Status.OK))
            if call.operation is Operation.EXIT:
                return
            if call.operation is Operation.CALL:
                time.sleep(0.05)
                placed.launch()

    assert outcomes(judged(tmp_path, honest, serve=early)) == ["unwritten"]


def test_a_number_out_of_nowhere_is_a_violation(tmp_path: Path) -> None:
    """Answering calls that were never made is what no shim does."""

    def babble(gate: Gate, last: int, device: EmulatedDevice, arena: Arena, kernels: dict[int, Loaded]) -> None:
        number = gate.next(last)
        gate.reply(number + 2, Answer(status=Status.OK))

    facts = judged(tmp_path, honest, serve=babble)
    assert any(isinstance(fact, wire.Violation) for fact in facts) and outcomes(facts) == []


def test_a_runner_that_leaves_is_a_crash(tmp_path: Path) -> None:
    """A closed link is never a pass, and is noticed long before the deadline."""
    facts = judged(tmp_path, honest, serve=lambda *_: None)
    assert outcomes(facts) == ["crashed"]


def test_a_reference_that_raises_is_not_the_kernels_fault(tmp_path: Path) -> None:
    broken = replace(PROBLEM, reference="def reference(a, b):\n    return a[:1]\n")
    last = judged(tmp_path, honest, problem=broken)[-1]
    assert isinstance(last, wire.Broken) and last.problem_at_fault


@pytest.mark.parametrize("hidden", [True, False])
def test_of_a_reference_that_fails_on_a_hidden_workload_nothing_is_quoted(tmp_path: Path, hidden: bool) -> None:
    """Its error may tell the size; on a public one it is quoted."""
    small, larger = PROBLEM.workloads
    reference = "def reference(a, b):\n    assert len(a) != 33, f'not of {len(a)}'\n    return a * 2 + b\n"
    problem = replace(PROBLEM, reference=reference, workloads=(small, replace(larger, hidden=hidden)))
    last = judged(tmp_path, honest, problem=problem)[-1]
    assert isinstance(last, wire.Broken) and last.problem_at_fault
    assert ("33" in last.message) is not hidden and ("hidden workload" in last.message) is hidden


@pytest.mark.slow
def test_a_measurement_has_certified_runs_and_a_baseline(tmp_path: Path, baseline: Baseline) -> None:
    """Every certified run is a verified trial of its own, as many as the plan says, and only public workloads are timed."""
    # A reference that takes long beside what a busy machine adds: else it may have no time.
    reference = "import time\n\ndef reference(a, b):\n    time.sleep(0.02)\n    return a * 2 + b\n"
    facts = judged(tmp_path, honest, problem=replace(PROBLEM, reference=reference), baseline=baseline)
    (measurement,) = [fact for fact in facts if isinstance(fact, wire.Measurement)]
    certified = [fact for fact in facts if isinstance(fact, wire.Trial) and fact.phase is wire.TrialPhase.CERTIFY]
    planned = [fact.trials for fact in facts if isinstance(fact, wire.Plan)][-1]
    run_count = sum(fact.run_count for fact in certified)
    assert planned == (("n100", wire.TrialPhase.CERTIFY, run_count),)
    assert len(measurement.certified.durations_ns) == run_count == len(measurement.baselines["eager"].durations_ns)
    assert measurement.workload_id == "n100" and measurement.reported is not None


@pytest.mark.slow
def test_a_kernel_that_stops_computing_when_it_is_timed_is_caught(tmp_path: Path, baseline: Baseline) -> None:
    """Honest for the three verified calls, then nothing: the first certified run is unwritten, and there is no measurement."""
    calls: list[int] = []

    def lazy(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        calls.append(1)
        if len(calls) <= 3:
            honest(inputs, outputs)

    facts = judged(tmp_path, lazy, baseline=baseline)
    assert outcomes(facts) == ["passed"] * 3 + ["unwritten"]
    assert not any(isinstance(fact, wire.Measurement) for fact in facts)


def test_hidden_workloads_are_timed_last_while_nobody_else_is_there(tmp_path: Path) -> None:
    """Between public ones, each would be seen to take its time."""
    mixed = replace(PROBLEM, workloads=PROBLEM.workloads[::-1])
    assert plan_trials(job_of(tmp_path, mixed, wire.Mode.RANKED)).measured == ("n100", "n33")


@pytest.mark.parametrize("hidden", [False, True])
def test_only_a_public_wrong_answer_is_explained(tmp_path: Path, hidden: bool) -> None:
    """Elements, pattern and sentence: the size is in each of them. The control is the same wrong answer of a public workload."""

    def leaves_out_the_last(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        outputs[0][:32] = (inputs[0] * 2 + inputs[1])[:32]

    workload = wire.Workload(workload_id="n37", axes={"n": 37}, hidden=hidden)
    facts = judged(tmp_path, leaves_out_the_last, problem=replace(PROBLEM, workloads=(workload,)))
    (trial,) = (fact for fact in facts if isinstance(fact, wire.Trial))
    assert trial.outcome is wire.TrialOutcome.UNWRITTEN and trial.hidden is hidden
    assert (trial.wrong_pattern is None and trial.wrong_elements == ()) is hidden
    assert ("the last 5 of 37 elements, from element 32 on" in trial_failed(trial, None)[2]) is not hidden


@pytest.mark.slow
def test_what_has_met_a_hidden_workload_says_nothing_that_is_shown(tmp_path: Path, baseline: Baseline) -> None:
    """An error, an exit code or a claimed time of a public workload could tell a hidden one's size: public ones are over by then."""
    sizes: list[int] = []

    def tells(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        sizes.append(inputs[0].numel())
        if len(sizes) > 1 and sizes[-1] == 100 and 33 in sizes:
            raise ValueError(f"I have seen {sizes}")
        honest(inputs, outputs)

    facts = judged(tmp_path, tells, baseline=baseline)
    shown = [getattr(fact, "hidden", None) for fact in facts if isinstance(fact, wire.Trial | wire.Measurement)]
    assert shown == sorted(shown) and True in shown and any(isinstance(fact, wire.Measurement) for fact in facts)
    assert isinstance(facts[-1], wire.Finished) and 33 in sizes and set(outcomes(facts)) == {"passed"}
    hidden_at = next(index for index, fact in enumerate(facts) if isinstance(fact, wire.Progress) and fact.hidden_at_ns)
    assert not any(isinstance(fact, wire.Evidence | wire.Measurement) and not getattr(fact, "hidden", True) for fact in facts[hidden_at:])


@pytest.mark.slow
def test_the_next_job_is_measured_after_one_that_was_given_up(tmp_path: Path, baseline: Baseline) -> None:
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    facts = judged(
        tmp_path / "1", honest, baseline=baseline, serve=lambda gate, last, *_: gate.reply(gate.next(last) + 2, Answer(status=Status.OK))
    )
    assert any(isinstance(fact, wire.Violation) for fact in facts)
    assert any(isinstance(fact, wire.Measurement) for fact in judged(tmp_path / "2", honest, baseline=baseline))


@contextlib.contextmanager
def among_trusted(baseline: Baseline, alone: SoloTimings | None) -> Iterator[tuple[TimingSetup, WorkloadContext]]:
    """The trusted runner plays both parts."""
    bench = WorkloadContext(Task(spec=PROBLEM, reference=lambda inputs: [inputs[0] * 2 + inputs[1]]), PROBLEM.workloads[0])
    with baseline.serve(PROBLEM) as trusted:
        yield TimingSetup(subject=trusted, trusted=trusted, copies=True, alone=alone, budget_s=1.0), bench


@pytest.mark.slow
def test_a_subject_that_keeps_the_machine_busy_gains_no_speedup(tmp_path: Path, baseline: Baseline) -> None:
    """The protocol's cost and the baseline's time while they were alone bound what a busy machine may forgive (cheating F2)."""
    alone = SoloTimings(
        null_ns={False: [100, 110, 120], True: [100, 110, 120]}, floor_ns=[100, 105], run_ns={"eager": [1_000, 1_010, 1_020]}
    )
    with among_trusted(baseline, alone) as (parties, bench):  # beside these times alone it is a thousand times slowed
        *_, measurement = measure(parties, bench, bench, None)
    assert isinstance(measurement, wire.Measurement) and measurement.baseline_slowed and measurement.floor_ns == 100
    assert set(measurement.baselines["eager"].durations_ns) == {1_010 - 110}
    assert all(item.ratio < 0.5 for item in measurement.speedups)


@pytest.mark.slow
def test_a_baseline_that_seems_to_take_less_than_the_protocol_has_no_time(tmp_path: Path, baseline: Baseline) -> None:
    """No time is below nothing; above, it is shown (the test before)."""
    alone = SoloTimings(null_ns={False: [100] * 3, True: [100] * 3}, floor_ns=[100], run_ns={"eager": [60] * 3})
    with among_trusted(baseline, alone) as (parties, bench):
        *_, measurement = measure(parties, bench, bench, None)
    assert isinstance(measurement, wire.Measurement) and measurement.baselines == {} and measurement.speedups == ()


SLOW_SPEC = replace(PROBLEM, digest="kept", reference="import time\n\ndef reference(a, b):\n    time.sleep(0.06)\n    return a * 2 + b\n")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is never busy: else times are not kept."""
    monkeypatch.setattr("sandbox.judge.baseline.HostActivity", lambda: HostActivity(lambda: 0))


def stages(facts: list[wire.Fact]) -> list[wire.Stage]:
    return [fact.stage for fact in facts if isinstance(fact, wire.Progress)]


def benchmarked(
    tmp_path: Path, kernel: Kernel, baseline: Baseline, *, kept_times: bool, problem: wire.ProblemSpec = SLOW_SPEC
) -> list[wire.Fact]:
    place = tmp_path / str(len(list(tmp_path.iterdir())))
    place.mkdir()
    return judged(place, kernel, problem=problem, baseline=baseline, kept_times=kept_times)


def kept_names(baseline: Baseline, problem: wire.ProblemSpec = SLOW_SPEC) -> set[str]:
    return {item.workload_id for item in problem.workloads if baseline.kept.find(problem, [item], {}) is not None}


@pytest.mark.slow
def test_a_wrong_kernel_does_not_wait_for_the_baselines(tmp_path: Path, baseline: Baseline, quiet: None) -> None:
    """Without kept times its public workloads are verified, and times are asked for if they are right. With such times nobody waits."""
    problem = replace(SLOW_SPEC, digest="not waited for")
    wrong = benchmarked(tmp_path, lambda _, outputs: outputs[0].fill_(0), baseline, kept_times=True, problem=problem)
    right = benchmarked(tmp_path, honest, baseline, kept_times=True, problem=problem)
    assert outcomes(wrong) == ["mismatched"] and isinstance(wrong[-1], wire.Finished)
    assert right[-1] == wire.Restart(job_id="job", cause=wire.RestartCause.NOT_TIMED)
    assert {fact.workload_id for fact in right if isinstance(fact, wire.Trial)} == {"n100"} and outcomes(right) == ["passed"] * 3
    assert wire.Stage.BASELINE not in stages(wrong) + stages(right)
    first = benchmarked(tmp_path, honest, baseline, kept_times=False, problem=problem)  # the control: before, everybody waited
    assert stages(first)[0] is wire.Stage.BASELINE and kept_names(baseline, problem) == {"n100"}
    second = benchmarked(tmp_path, honest, baseline, kept_times=True, problem=problem)
    if not isinstance(second[-1], wire.Restart):  # as next to a busy machine
        assert wire.Stage.BASELINE not in stages(second) and isinstance(second[-1], wire.Finished)
        assert [fact.workload_id for fact in second if isinstance(fact, wire.Measurement)] == ["n100"]
        assert "n33" in {fact.workload_id for fact in second if isinstance(fact, wire.Trial)}


@pytest.mark.slow
def test_a_problem_is_prepared_before_it_has_a_submission(tmp_path: Path, baseline: Baseline, quiet: None) -> None:
    """Its first submission finds the times of its public workloads. A problem that can't be loaded is no fault of the device."""
    problem, device = replace(SLOW_SPEC, digest="prepared"), EmulatedDevice()
    facts = list(lane.prepare(wire.Prepare(job_id="p", problem=problem), device, baseline))
    assert stages(facts) == [wire.Stage.BASELINE] and facts[-1] == wire.Finished(job_id="p")
    assert kept_names(baseline, problem) == {"n100"}
    assert list(lane.prepare(wire.Prepare(job_id="p", problem=problem), device, baseline)) == [wire.Finished(job_id="p")]
    first = benchmarked(tmp_path, honest, baseline, kept_times=True, problem=problem)
    assert wire.Stage.BASELINE not in stages(first)
    # On a busy machine the times may not fit.
    assert not isinstance(first[-1], wire.Restart) or first[-1].cause is not wire.RestartCause.NOT_TIMED
    broken = replace(SLOW_SPEC, digest="broken", reference="import nothing_of_this_name\n")
    (fact,) = lane.prepare(wire.Prepare(job_id="p", problem=broken), device, baseline)
    assert isinstance(fact, wire.Broken) and fact.problem_at_fault and not fact.device_lost and "nothing_of_this_name" in fact.message


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.3, 100.0])
def test_times_that_are_stale_are_not_believed(
    tmp_path: Path, baseline: Baseline, quiet: None, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    """A baseline that was much slower when it was timed would let a subject slow it; one that was faster says that it was slowed.
    Nothing is measured with either, and neither is used again. The control: without the comparison the first is believed."""
    problem = replace(SLOW_SPEC, digest=f"stale {factor}")
    benchmarked(tmp_path, honest, baseline, kept_times=False, problem=problem)
    (timings,) = (baseline.kept.find(problem, problem.workloads[:1], {}) or {}).values()
    stale = replace(timings, run_ns={name: [round(factor * item) for item in runs_ns] for name, runs_ns in timings.run_ns.items()})
    baseline.kept.keep(problem, {"n100": stale}, {})
    if factor > 1:
        with monkeypatch.context() as patched:
            patched.setattr(lane, "outdated", lambda *_: False)
            assert isinstance(benchmarked(tmp_path, honest, baseline, kept_times=True, problem=problem)[-1], wire.Finished)
    facts = benchmarked(tmp_path, honest, baseline, kept_times=True, problem=problem)
    assert facts[-1] == wire.Restart(job_id="job", cause=wire.RestartCause.OUTDATED)
    assert not any(isinstance(fact, wire.Measurement) for fact in facts) and kept_names(baseline, problem) == set()


@pytest.mark.slow
def test_times_of_a_busy_machine_are_not_kept(tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is busy while a baseline is timed slows it, for later submissions too. The control is the same on a quiet one."""
    problem = replace(SLOW_SPEC, digest="busy")
    used_ns = itertools.count(0, 10**15)
    for cpu_ns, names in ((lambda: next(used_ns), set()), (lambda: 0, {"n100"})):
        monkeypatch.setattr("sandbox.judge.baseline.HostActivity", lambda cpu_ns=cpu_ns: HostActivity(cpu_ns))
        facts = benchmarked(tmp_path, honest, baseline, kept_times=False, problem=problem)
        assert any(isinstance(fact, wire.Measurement) for fact in facts) and kept_names(baseline, problem) == names


@pytest.mark.slow
def test_a_claim_that_no_run_is_near_gets_more_runs(tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of four runs may have waited for a core of a busy machine; what a sixteenth run is not near, either, is no accident."""
    alone = SoloTimings(null_ns={False: [100], True: [100]}, floor_ns=[100], run_ns={"eager": [1_000]})
    monkeypatch.setattr(measuring, "ADDED_S", NEVER_S)
    with among_trusted(baseline, alone) as (parties, bench):
        times = Times(taken_ns={SUBJECT: [[90_000_000_000] * 4]})
        claims = (None, wire.Samples(durations_ns=(80_000_000_000,)), wire.Samples(durations_ns=(2_000_000_000,)))
        signs = Heartbeat(wire.Stage.MEASURING, "n100")
        assert [len(drained(measuring._added_runs(parties, bench, times, claim, signs))[1]) for claim in claims] == [0, 0, 1]
        monkeypatch.setattr(measuring, "HOST_SLACK_NS", 0)
        added = measuring._added_runs(parties, bench, times, wire.Samples(durations_ns=(1,)), signs)
        assert len(drained(added)[1]) == measuring.ADDED_LIMIT


class EventDevice(EmulatedDevice):
    """The emulated device with the rules of a device clock, so that these run where there is no GPU; its times are the host's."""

    CLOCK = wire.Clock.DEVICE_EVENTS


@pytest.mark.slow
@pytest.mark.parametrize("dawdle_s", [0.0, 0.03])
def test_a_subject_that_dawdles_over_nothing_is_forgiven_no_more(
    tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch, dawdle_s: float
) -> None:
    """By device clock the subject's own null runs count, but what they take longer than the trusted runner's does not."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "record"))

    def loop(gate: Gate, last: int, device: EmulatedDevice, arena: Arena, kernels: dict[int, Loaded]) -> None:
        launch = device.launch_null
        device.launch_null = lambda: (time.sleep(dawdle_s), launch())[1]  # type: ignore[method-assign]
        serve(gate, last, device, arena, kernels)

    facts = judged(tmp_path, sleeper, serve=loop, baseline=baseline, device=EventDevice, measure_s=1.0)
    (measurement,) = [fact for fact in facts if isinstance(fact, wire.Measurement)]
    assert min(measurement.certified.durations_ns) > 20_000_000  # 10 ms, were the dawdling believed
    (record,) = (json.loads(path.read_text("utf-8")) for path in (tmp_path / "record").iterdir())
    assert min(item for turn in record["turns"][OWN_NULL] for item in turn) > 1e9 * dawdle_s
    assert record["reported"].keys() == {SUBJECT}  # the baseline is timed by the host's clock here, and has its do_bench from before


def sleeper(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
    time.sleep(0.04)
    honest(inputs, outputs)


@pytest.mark.slow
def test_a_kernel_of_a_tight_limit_is_not_blamed_for_do_bench(tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch) -> None:
    """do_bench takes far longer than one trial may, so it has a limit of its own; an honest kernel keeps its verdict, on every workload
    after it too. The limits are noted and not kept: on a busy machine the honest kernel might miss a tight one."""
    shown = tuple(replace(item, hidden=False) for item in PROBLEM.workloads)
    tight = replace(PROBLEM, trial_s=0.2, workloads=shown)
    limits: dict[Operation, set[float]] = {}
    usual_call, usual_train = RunnerLink.call, RunnerLink.take_train

    def call(self: RunnerLink, call: Call, limit_s: float, meanwhile: Callable[[], None] = lambda: None) -> Answer | Silence:
        limits.setdefault(call.operation, set()).add(limit_s)
        return usual_call(self, call, NEVER_S, meanwhile)

    def take_train(self: RunnerLink, operation: Operation, limit_s: float, *copies: Any) -> TrainTime:
        limits.setdefault(operation, set()).add(limit_s)
        return usual_train(self, operation, NEVER_S, *copies)

    monkeypatch.setattr(RunnerLink, "call", call)
    monkeypatch.setattr(RunnerLink, "take_train", take_train)
    facts = judged(tmp_path, honest, baseline=baseline, problem=tight)
    assert not any(isinstance(fact, wire.Violation) for fact in facts)
    assert {fact.workload_id for fact in facts if isinstance(fact, wire.Measurement)} == {"n100", "n33"}
    assert min(limits[Operation.CALL]) == tight.trial_s and min(limits[Operation.BENCH]) > 10 * BENCH_NS[wire.Clock.HOST] / 1e9


def test_what_a_runner_writes_before_it_has_answered_is_not_out_of_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A do_bench whose answer was forged may still write when the next run is placed: the guards are written after that answer."""
    usual = RunnerLink.call

    def call(self: RunnerLink, call: Call, limit_s: float, meanwhile: Callable[[], None] = lambda: None) -> Answer | Silence:
        reply = usual(self, call, limit_s, meanwhile)
        if call.operation is Operation.PLACE:
            self.arena.tensor(0, "uint8", (self.arena.size_bytes,)).fill_(7)
        return reply

    monkeypatch.setattr(RunnerLink, "call", call)
    assert set(outcomes(judged(tmp_path, honest))) == {"passed"}


def test_a_runner_that_did_not_answer_is_not_asked_again(tmp_path: Path) -> None:
    """Its late answer would look like one to a call that was never made. It comes when the judge has given it up: how long that takes
    depends on how busy this machine is."""
    given_up = threading.Event()

    def late(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        given_up.wait(NEVER_S)
        honest(inputs, outputs)

    def on_fact(fact: wire.Fact) -> None:
        if isinstance(fact, wire.Trial):
            given_up.set()

    facts = judged(tmp_path, late, problem=replace(PROBLEM, trial_s=0.1), on_fact=on_fact)
    assert outcomes(facts) == ["timed_out"] and not any(isinstance(fact, wire.Violation) for fact in facts)


def test_a_box_without_a_runner_is_our_fault(tmp_path: Path) -> None:
    """Until a runner has connected nothing of the submission has run: no verdict, the attempt is repeated."""
    (tmp_path / f"judge.sock{CLOSED_SUFFIX}").touch()
    (tmp_path / "artifact").write_bytes(b"no elf")
    facts = list(judge(job_of(tmp_path), EmulatedDevice(), None))  # type: ignore[arg-type]
    assert isinstance(facts[-1], wire.Broken) and not facts[-1].problem_at_fault
    assert not any(isinstance(fact, (wire.Load, wire.Trial, wire.Finished)) for fact in facts)


def test_a_runner_of_another_uid_is_not_let_in(tmp_path: Path) -> None:
    """Another user of this host who finds the socket is no runner; the control is the same job for our own uid."""
    for uid, last in ((os.getuid() + 1, wire.Broken), (os.getuid(), wire.Finished)):
        place = tmp_path / str(uid)
        place.mkdir()
        (place / "artifact").write_bytes(b"no elf")
        job = replace(job_of(place), runner_uid=uid)
        threading.Thread(target=_try, args=(job.link_path,), daemon=True).start()
        assert isinstance(list(judge(job, EmulatedDevice(), None))[-1], last)  # type: ignore[arg-type]


def _try(path: str) -> None:
    """Run, or be refused: the link is closed before anything is sent. Then the judge hears that no other runner comes."""
    with contextlib.suppress(OSError, EOFError):
        run_runner(path, honest)
    Path(path + CLOSED_SUFFIX).touch()


@pytest.mark.slow
def test_only_null_runs_are_made_on_inputs_that_were_there_before(baseline: Baseline) -> None:
    """Nobody reads theirs, and drawing takes longer than they do; every call has fresh ones."""
    with among_trusted(baseline, None) as (parties, bench):
        runs = [
            run(parties.trusted, bench, RunOptions(operation=operation))
            for operation in (Operation.NULL, Operation.CALL, Operation.NULL, Operation.CALL)
        ]
    first, second, third, fourth = (run_result.inputs for run_result in runs)
    assert second[0] is third[0] and judge_run(runs[1], bench, wire.TrialPhase.CERTIFY, 0).outcome is wire.TrialOutcome.PASSED
    assert not any(torch.equal(before[0], after[0]) for before, after in ((first, second), (second, fourth)))


def test_outputs_are_poisoned_inside_the_clock_and_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values written there before the inputs came are gone: no part of the work can be done while they are on their way."""
    runs: list[tuple[list[int], list[int], bool]] = []
    usual = RunnerLink.take_train

    def watched(self: RunnerLink, operation: Operation, limit_s: float, copies: Sequence[RunCopies], *scalars: Any) -> TrainTime:
        publish, snapshot = copies[0].publish, copies[0].snapshot
        last = publish[-len(snapshot) :]
        poisoned = all(bool(source.isnan().all()) for _, source in last)
        runs.append(([to.data_ptr() for to, _ in last], [source.data_ptr() for _, source in snapshot], poisoned))
        return usual(self, operation, limit_s, copies, *scalars)

    monkeypatch.setattr(RunnerLink, "take_train", watched)
    assert outcomes(judged(tmp_path, honest)) == ["passed"] * 6
    assert len(runs) == 6 and all(written == read and poisoned for written, read, poisoned in runs)


def test_a_hidden_workload_is_never_profiled() -> None:
    """The judge refuses whatever its job says; nothing is asked of the runner."""
    hidden = wire.Workload(workload_id="secret", axes={"n": 33}, hidden=True)
    with pytest.raises(RuntimeError, match="never profiled"):
        list(lane._profile(None, None, hidden, None))


def test_a_report_has_the_versions_of_what_every_host_has() -> None:
    versions = environment(EmulatedDevice()).versions
    expected = {"kernel": platform.release(), "python": platform.python_version(), "torch": str(torch.__version__)}
    assert versions.items() >= expected.items()
    assert versions["os"] and versions["cpu"] and versions["numpy"] and all(versions.values())
