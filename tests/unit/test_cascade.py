"""The stage on the emulated device, before a GPU: it ends a grading where the answer is wrong, and in no other case."""

from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from grader.errors import JudgeBroken, NoSuchDevice, ProblemBroken
from grader.grading import cascade
from grader.model import SourceFile, Verdict
from grader.verdict.fold import fold
from sandbox.protocol import wire
from sandbox.protocol.wire import BuildOutcome, LoadOutcome, ScreeningOutcome, TrialOutcome
from tests import fakes

GPU = object()
BUILD = wire.Build(outcome=BuildOutcome.BUILT, log="", log_truncated=False, duration_ns=1)
RIGHT = [fakes.ENVIRONMENT, BUILD, wire.Load(outcome=LoadOutcome.LOADED, message=""), fakes.trial("n4"), wire.Finished(job_id="j")]
TIMELINE = wire.AttemptTimeline(spans=(wire.Span(step=wire.Step.DEVICE, begin_ns=0, duration_ns=5),))


class Host:
    """A host with a GPU; `gpu=None`: only with the emulated device."""

    def __init__(self, gpu=GPU):
        self.gpu = gpu

    @contextmanager
    def seat(self, device_kind):
        yield SimpleNamespace(gpu=None if device_kind == "emulated" else self.gpu)


def lease(*, text="", sizes=(4, 1 << 21), **fields):
    problem = fakes.problem()
    workloads = tuple(replace(problem.spec.workloads[0], workload_id=f"n{size}", axes={"n": size}) for size in sizes)
    problem = replace(problem, spec=replace(problem.spec, workloads=workloads, trial_s=60.0))
    fields = {"cascade": True, "mode": wire.Mode.BENCHMARK, "device_kind": "cuda", **fields}
    submission = replace(fakes.new_submission(), sources=(SourceFile(path="kernel.py", content=text),), **fields)
    return fakes.lease(submission, problem)


async def graded(lease, emulated, host=None):
    """The facts, and the leases that the pipeline got. emulated: facts of that device, or an exception at their end."""
    leases = []

    async def pipeline(lease, host):
        leases.append(lease)
        on_gpu = lease.submission.new.device_kind != "emulated"
        for fact in [*RIGHT, TIMELINE] if on_gpu else emulated:
            if isinstance(fact, Exception):
                raise fact
            yield fact

    return [fact async for fact in cascade.grade(lease, host or Host(), grade_on_device=pipeline)], leases


def screening(facts):
    return next(fact for fact in facts if isinstance(fact, wire.Screening))


@pytest.mark.parametrize("outcome", TrialOutcome)
async def test_only_a_wrong_answer_ends_a_grading(outcome):
    """Crashes, limits and errors of a call may be the emulated device's; a right answer is judged by the GPU as ever."""
    facts, leases = await graded(lease(), [*RIGHT[:3], fakes.trial("n4", outcome=outcome), wire.Finished(job_id="j"), TIMELINE])
    wrong = outcome in cascade.WRONG
    assert len(leases) == (1 if wrong else 2)
    assert screening(facts).outcome is (
        ScreeningOutcome.FAILED if wrong else ScreeningOutcome.PASSED if outcome is TrialOutcome.PASSED else ScreeningOutcome.INCONCLUSIVE
    )
    assert [fact for fact in facts if isinstance(fact, wire.Trial)] == [facts[facts.index(BUILD) + 2]]  # of one device only
    if wrong:
        report = fold(facts)
        assert report.verdict is not Verdict.ACCEPTED and report.summary.startswith("On the emulated device, before a GPU was used: ")


@pytest.mark.parametrize(
    ("emulated", "outcome", "detail"),
    [
        ([replace(BUILD, outcome=BuildOutcome.REJECTED, reason="UNSUPPORTED")], ScreeningOutcome.INCONCLUSIVE, "COMPILE_ERROR UNSUPPORTED"),
        ([BUILD, wire.Load(outcome=LoadOutcome.CRASHED, message="")], ScreeningOutcome.INCONCLUSIVE, "RUNTIME_ERROR"),
        ([wire.Violation(kind=wire.ViolationKind.TIMING, detail="x")], ScreeningOutcome.INCONCLUSIVE, "DISQUALIFIED"),
        ([BUILD, JudgeBroken("the judge ended with 9")], ScreeningOutcome.INCONCLUSIVE, "the judge ended with 9"),
        ([ProblemBroken("no workload for the device")], ScreeningOutcome.SKIPPED, "no workload for the device"),
        ([NoSuchDevice("emulated", ("cuda",))], ScreeningOutcome.SKIPPED, "emulated"),
    ],
)
async def test_a_failure_that_is_no_wrong_answer_goes_on_to_the_gpu(emulated, outcome, detail):
    facts, leases = await graded(lease(), emulated)
    assert [device_lease.submission.new.device_kind for device_lease in leases] == ["emulated", "cuda"]
    assert screening(facts).outcome is outcome and detail in screening(facts).detail
    assert facts.count(BUILD) == 1 and facts[-2] == RIGHT[-1]  # nothing of the emulated device's is in the report


async def test_a_launch_that_was_refused_goes_on_to_the_gpu():
    """The launch may need more multiprocessors or cluster blocks than are emulated. The control: without an error the answer is wrong."""
    for error, count in (("cudaErrorCooperativeLaunchTooLarge (8 fit)", 2), ("", 1)):
        trial = replace(fakes.trial("n4", outcome=TrialOutcome.UNWRITTEN), cuda_error=error)
        _, leases = await graded(lease(), [*RIGHT[:3], trial])
        assert len(leases) == count


async def test_a_fault_after_the_verdict_is_ours():
    """The fault does not send a wrong kernel to the GPU."""
    with pytest.raises(JudgeBroken):
        await graded(lease(), [*RIGHT[:3], fakes.trial("n4", outcome=TrialOutcome.MISMATCHED), JudgeBroken("later")])


async def test_the_stage_is_a_test_of_the_smallest_workloads():
    """On the GPU all of it is as it was."""
    facts, (first, second) = await graded(lease(sizes=(9, 1 << 21, 7, 8, 6)), RIGHT)
    assert [workload.axes["n"] for workload in first.problem.spec.workloads] == [6, 7, 8]
    assert (first.submission.new.mode, first.problem.spec.trial_s) == (wire.Mode.TEST, cascade.TRIAL_LIMIT_S)
    assert (len(second.problem.spec.workloads), second.problem.spec.trial_s) == (5, 60.0)
    (timeline,) = [fact for fact in facts if isinstance(fact, wire.AttemptTimeline)]
    stage, device = timeline.spans
    assert stage.step is wire.Step.SCREEN and device.begin_ns == stage.duration_ns == screening(facts).duration_ns > 0


@pytest.mark.parametrize("settings", [{"sizes": (1 << 21,)}, {"text": "from numba import cuda"}], ids=["large", "Numba"])
async def test_what_the_emulated_device_is_no_judge_of_skips_it(settings):
    """Numba's simulator has integers that do not wrap."""
    facts, leases = await graded(lease(**settings), [])
    assert screening(facts).outcome is ScreeningOutcome.SKIPPED and len(leases) == 1


@pytest.mark.parametrize(
    ("settings", "gpu", "count"),
    [
        ({"cascade": False}, GPU, 1),
        ({}, None, 1),
        ({"competition_id": "cup"}, GPU, 1),
        ({"mode": wire.Mode.RANKED}, GPU, 2),
        ({"mode": wire.Mode.SWEEP}, GPU, 1),
    ],
)
async def test_who_is_screened(settings, gpu, count):
    """A submission that asks for it, where a GPU would be used, and outside of competitions."""
    _, leases = await graded(lease(**settings), RIGHT, Host(gpu))
    assert len(leases) == count
