"""The share of a submission's own kernels: when its process is asked, what an answer comes to, and how it is shown."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from grader.api.messages import event_to_proto
from grader.model import Event, Verdict
from grader.rules.disclosure import Redactor
from grader.verdict.fold import fold
from grader.views import formatting
from sandbox.judge.library_use import own_share
from sandbox.launch.loop import serve
from sandbox.protocol import wire
from tests import fakes
from tests.collection import AFTER_COLLECTION
from tests.unit.fat_objects import fat_object

if AFTER_COLLECTION:
    import torch

    from sandbox.judge import lane
    from sandbox.judge.baseline import Baseline
    from sandbox.judge.runner_link import RunnerLink, Silence
    from sandbox.judge.trial import Run, RunOptions, WorkloadContext
    from sandbox.protocol.gate import Answer, Operation, Status
    from tests.unit.test_lane import PROBLEM, HostActivity, honest, judged

SIZES = {"n64": False, "n100": False, "n33": True}  # and whether they are hidden
DECOY = "1 launch\n9 operator matmul\n90 operator empty"
ARTIFACT = fat_object("_Z4minePf", "_ZN7cutlass13device_kernelI4GemmEEvT_", "_ZN2at6native3addEv")


def used_by_others(monkeypatch: pytest.MonkeyPatch, cores: float) -> None:
    """So many of this machine's 16 cores are busy with what is not the judge's. More than twelve, and times of baselines are not kept."""
    monkeypatch.setattr("sandbox.judge.baseline.os.cpu_count", lambda: 16)
    monkeypatch.setattr("sandbox.judge.baseline.HostActivity", lambda: HostActivity(lambda: round(1e9 * cores * time.monotonic())))


@pytest.fixture(autouse=True)
def kept_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of baselines are kept and believed, on a busy machine too."""
    used_by_others(monkeypatch, 0.0)
    monkeypatch.setattr(lane, "outdated", lambda *_: False)


def benchmark(
    place: Path,
    baseline: Baseline,
    answer: Callable[[], str],
    mode: wire.Mode = wire.Mode.BENCHMARK,
    *,
    digest: str = "d",
    **changes: Any,
) -> tuple[list[wire.Fact], list[int], list[int]]:
    """The facts of a job, the sizes of all launches, and after how many of them the process was asked. changes: of the job."""
    sizes, counts = list[int](), list[int]()

    def kernel(inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> None:
        sizes.append(inputs[0].numel())
        honest(inputs, outputs)

    def observe_amounts(launch: Callable[[], object], kernels: bool) -> str:
        counts.append(len(sizes))
        launch()
        return answer()

    workloads = tuple(wire.Workload(workload_id=name, axes={"n": int(name[1:])}, hidden=hidden) for name, hidden in SIZES.items())
    if mode is wire.Mode.SWEEP:
        workloads = workloads[:1]
    facts = judged(
        place,
        kernel,
        problem=replace(PROBLEM, digest=digest, workloads=workloads),
        baseline=baseline,
        serve=lambda *parts: serve(*parts, None, None, observe_amounts),
        mode=mode,
        measure_s=0.2,
        **changes,
    )
    return facts, sizes, counts


def timed_before(place: Path, baseline: Baseline, answer: Callable[[], str]) -> tuple[list[wire.Fact], list[int], list[int]]:
    """The first process of a benchmark whose baselines an earlier one has timed."""
    benchmark(place, baseline, answer, digest="timed before")
    return benchmark(place, baseline, answer, digest="timed before", kept_times=True)


def shares(facts: list[wire.Fact]) -> dict[str, float | None]:
    return {fact.workload_id: fact.own_share for fact in facts if isinstance(fact, wire.Measurement)}


@pytest.mark.slow
@pytest.mark.parametrize("mode", [wire.Mode.TEST, wire.Mode.RANKED, wire.Mode.SWEEP])
def test_no_other_mode_asks(tmp_path: Path, baseline: Baseline, mode: wire.Mode) -> None:
    """The jobs are as a server makes them: of these modes, only test may do with times that were kept."""
    facts, _, counts = benchmark(tmp_path, baseline, lambda: DECOY, mode, kept_times=mode is wire.Mode.TEST)
    assert counts == [] and isinstance(facts[-1], wire.Finished) and not any(shares(facts).values())


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["", "nonsense", "-5 launch\n\N{SUPERSCRIPT TWO} launch", None])
def test_an_answer_decides_nothing(tmp_path: Path, baseline: Baseline, answer: str | None) -> None:
    """None: it raises. The control is an answer with a share, above."""

    def answer_text() -> str:
        if answer is None:
            raise RuntimeError("no profiler")
        return answer

    facts, _, _ = timed_before(tmp_path, baseline, answer_text)
    assert shares(facts) == {"n64": None, "n100": None}
    assert fold([wire.Build(outcome=wire.BuildOutcome.BUILT, artifact_digest="d"), *facts]).verdict is Verdict.ACCEPTED


@pytest.mark.slow
@pytest.mark.parametrize("end", ["GONE", "TIMED_OUT", "DEVICE_FAULT"])
def test_a_process_that_a_profiler_broke_is_judged_anew(
    tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """The next one does not meet it; where another is needed anyway, that is all that it needs."""
    ordinary, reply = lane.run, Answer(status=Status[end]) if end in Status.__members__ else Silence[end]

    def run(runner: RunnerLink, bench: WorkloadContext, how: RunOptions) -> Run:
        result = ordinary(runner, bench, how)
        return replace(result, reply=reply) if how.operation is Operation.OBSERVE_AMOUNTS else result

    monkeypatch.setattr(lane, "run", run)
    facts, _, counts = timed_before(tmp_path, baseline, lambda: DECOY)
    assert len(counts) == 1 and facts[-1] == wire.Restart(job_id="job", cause=wire.RestartCause.UNOBSERVED)
    facts, _, counts = benchmark(tmp_path, baseline, lambda: DECOY, digest=end, kept_times=True)
    assert len(counts) == 1 and facts[-1] == wire.Restart(job_id="job", cause=wire.RestartCause.NOT_TIMED)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cores", "fits", "causes"),
    [(0.5, True, ["not_timed", None]), (13.0, True, ["not_timed", "not_timed"]), (0.5, False, ["not_timed", "outdated"])],
)
def test_every_benchmark_has_a_share_however_its_baselines_are_timed(
    tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch, cores: float, fits: bool, causes: list[str | None]
) -> None:
    """The first of a problem and the second, on 16 cores: with times of an earlier job, where a busy machine keeps none, and where
    they do not fit. Each asks once, behind all that its process is timed for, and before that meets a hidden workload, of which an answer
    could tell."""
    used_by_others(monkeypatch, cores)
    monkeypatch.setattr(lane, "outdated", lambda *_: not fits)
    for cause in causes:
        facts, sizes, (count,) = benchmark(tmp_path, baseline, lambda: DECOY, digest=f"{cores} {fits}", kept_times=True)
        assert sizes[count - 1 : count + 1] == [64 if cause == "outdated" else 100, 100]
        assert set(sizes[count + 1 :]) == ({33} if cause is None else set())
        if cause is not None:
            assert facts[-1] == wire.Restart(job_id="job", cause=wire.RestartCause(cause), own_share=0.1)
            facts, _, counts = benchmark(tmp_path, baseline, lambda: DECOY, digest=f"{cores} {fits}", own_share=0.1)
            assert counts == []
        assert shares(facts) == {"n64": None, "n100": 0.1} and isinstance(facts[-1], wire.Finished)


@pytest.mark.slow
def test_a_process_that_is_timed_at_once_is_asked(tmp_path: Path, baseline: Baseline, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a GPU's clock where kept times did not fit a while ago, such as those of a product that runs into its limit of power: for
    minutes no benchmark has any, and each first process is timed."""
    place = baseline.place
    monkeypatch.setattr(baseline, "place", lambda *parts, kept_times, **options: place(*parts, kept_times=False, **options))
    facts, sizes, (count,) = benchmark(tmp_path, baseline, lambda: DECOY, kept_times=True)
    assert shares(facts) == {"n64": None, "n100": 0.1} and isinstance(facts[-1], wire.Finished)
    assert sizes[count] == 100 and 33 not in sizes[: count + 1] and 33 in sizes


@pytest.mark.slow
def test_a_process_is_not_asked_where_no_other_can_be_judged(tmp_path: Path, baseline: Baseline) -> None:
    """As where no process came before, whose share it would have."""
    facts, _, counts = benchmark(tmp_path, baseline, lambda: DECOY)
    assert counts == [] and not any(shares(facts).values()) and isinstance(facts[-1], wire.Finished)


@pytest.mark.parametrize(
    ("answer_text", "share"),
    [
        ("98 kernel mine\n2 kernel at::native::reduce_kernel", 0.98),
        ("3 kernel mine\n1 kernel ", 0.75),  # it copies
        ("5 kernel cutlass::device_kernel", 1.0),
        ("5 kernel cutlass::Kernel2", 0.0),  # of cuBLAS
        ("5 kernel at::native::add", 0.0),  # the library's name, which the artifact has given to a decoy
        ("5 kernel triton_poi_fused_add_0", 0.0),  # of torch.compile
        ("cut\n5 kernel mine", 1.0),
        ("3 launch\n1 operator softmax\n7 operator view", 0.75),
        ("0 launch\n7 operator view", None),
        (f"{'9' * 2000} kernel mine\n1 kernel gemm", 1.0),
    ],
)
def test_a_share_is_of_kernels_that_the_artifact_defines(answer_text: str, share: float | None) -> None:
    assert own_share(answer_text, ARTIFACT) == share


@pytest.mark.parametrize(
    ("clock", "share", "text"),
    [
        (wire.Clock.DEVICE_EVENTS, 0.978, "own kernels: 98 % of device time (by the kernel's own process)"),
        (wire.Clock.DEVICE_EVENTS, 0.0051, "own kernels: 0.51 % of device time (by the kernel's own process)"),
        (wire.Clock.HOST, 0.5, "own kernels: 50 % of launches, PyTorch's operators counted too (by the kernel's own process)"),
        (wire.Clock.DEVICE_EVENTS, 0.0, "own kernels: 0 % of device time (by the kernel's own process)"),
        (wire.Clock.DEVICE_EVENTS, None, ""),
    ],
)
def test_it_is_shown_as_a_claim(clock: wire.Clock, share: float | None, text: str) -> None:
    measurement = replace(fakes.measurement(), clock=clock, own_share=share)
    for hidden in (False, True):
        fact = replace(measurement, hidden=hidden)
        event = Event(sequence=1, event_time=datetime(2026, 1, 1, tzinfo=UTC), attempt=1, fact=fact)
        message = event_to_proto(event, fakes.submission(), Redactor({}))
        assert formatting.own_share(message.measurement) == ("" if hidden else text)
