"""Mode sweep: the sizes of an axis one after the other, each verified and then timed, whatever became of the others. Nothing is scored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from grader import devices
from grader.errors import FieldViolation, InvalidSubmission
from grader.grading.attempt import Attempt, OpenRunBox
from grader.grading.pipeline import judge_process, judged
from grader.grading.ports import Lane
from grader.model import Decision, Problem, Reason, Report, Verdict
from grader.rules.sweep import SweepInvalid
from grader.v1 import submission_pb2
from grader.verdict.fold import Facts, IncompleteFacts, caught, first_failure, missing, report_of
from grader.verdict.fold import fold as fold_failure
from grader_extensions.modes.sweep_problem import sweep_problem
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind
from sandbox.protocol.wire import TrialOutcome

DISCLOSED: Mapping[type, Collection[str]] = {}


def plan(submission: submission_pb2.Submission, problem: Problem, device_kinds: Sequence[str]) -> Problem:
    """Make the problem whose workloads are the sizes of the sweep."""
    kinds = [kind for kind in (devices.CUDA, devices.EMULATED) if kind in device_kinds]  # where no device is named, a GPU is taken
    if submission.device_kind:
        kinds = [DeviceKind(submission.device_kind.partition(":")[0])]
    try:
        return sweep_problem(problem, submission.sweep, kinds)
    except SweepInvalid as error:
        raise InvalidSubmission([FieldViolation(f"sweep.{error.key}", str(error))]) from None


def run(attempt: Attempt, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
    """Judge the sizes."""
    return judged(attempt, build, open_run_box, _judge_sizes)


async def _judge_sizes(attempt: Attempt, lane: Lane, build: wire.Build, open_run_box: OpenRunBox) -> AsyncGenerator[wire.Fact, None]:
    """Judge the sizes. Those that a process did not reach, such as after a crash, get a fresh one within the sweep's time."""
    profile, now_s = attempt.host.profile, asyncio.get_running_loop().time
    workloads = tuple(workload for workload in attempt.problem.workloads if not workload.hidden)  # the problem of a sweep hides none
    end_s = now_s() + profile.sweep_s
    for _ in range(profile.sweep_process_count):
        process, sweep_s = list[wire.Fact](), max(end_s - now_s(), 0.0)
        async with attempt.host.turn(secret=False), open_run_box() as run_box:
            job = attempt.job(build, run_box.box, replace(attempt.problem, workloads=workloads), run_box.link_dir)
            measure_s = attempt.lease.problem.sweep_measure_s or profile.sweep_measure_s
            job = replace(job, mode=wire.Mode.SWEEP, measure_s=measure_s, sweep_s=sweep_s)
            await run_box.imported()
            async with aclosing(judge_process(lane, job, run_box)) as facts:
                async for fact in facts:
                    process.append(fact)
                    yield fact
        begun = _planned(process)
        workloads = tuple(workload for workload in workloads if workload.workload_id not in begun)
        if any(map(_ends_all, process)) or not workloads or not begun or now_s() > end_s:
            return


def _planned(facts: Iterable[wire.Fact]) -> set[str]:
    """Return the sizes that a process came to."""
    return {size for fact in facts if isinstance(fact, wire.Plan) for size in fact.measured}


def _ends_all(fact: wire.Fact) -> bool:
    """Return whether no other process would do better."""
    return isinstance(fact, wire.Violation) or (isinstance(fact, wire.Load) and fact.outcome is not wire.LoadOutcome.LOADED)


def fold(facts: Iterable[wire.Fact], /) -> Report:
    """Draw the report: no speedups, for a mean over the sizes of a plot would be of no problem."""
    facts = tuple(facts)
    swept = tuple(dict.fromkeys(size for fact in facts if isinstance(fact, wire.Plan) for size in fact.sweep))
    if not swept:
        return fold_failure(facts)
    right = _right_sizes(facts)
    decision = _decide(facts, swept, right)
    return report_of(facts, decision, [() if decision[0] is Verdict.DISQUALIFIED else right])


def _decide(facts: Facts, swept: tuple[str, ...], right: tuple[wire.Measurement, ...]) -> Decision:
    """Decide by what makes all times worthless, then by the first size that failed. Sizes that were not run decide nothing."""
    violations = tuple(fact for fact in facts if isinstance(fact, wire.Violation))
    if (decision := first_failure(violations) or caught(facts)) is not None:
        return decision
    begun = _planned(facts)
    counts = f"Right at {len({measurement.workload_id for measurement in right})} of {len(swept)} sizes"
    if unrun := len(swept) - len(begun):
        counts += f"; {unrun} {'was' if unrun == 1 else 'were'} not run, because the time or the processes of a sweep were used up"
    if (decision := first_failure(facts)) is not None:
        verdict, reason, summary = decision
        return verdict, reason, f"{summary} {counts}."
    if not any(isinstance(fact, wire.Finished) for fact in facts):
        raise IncompleteFacts("the judge did not finish")
    if not begun:
        return Verdict.TIME_LIMIT_EXCEEDED, Reason.RUN, f"{counts}."
    if lack := missing(facts):
        return Verdict.RUNTIME_ERROR, Reason.INCOMPLETE, f"{lack}; the kernel's process must answer every call."
    return Verdict.ACCEPTED, "", f"{counts}."


def _right_sizes(facts: Facts) -> tuple[wire.Measurement, ...]:
    """Return the measurements of the sizes at which every planned trial passed and none failed."""
    wrong = {fact.workload_id for fact in facts if isinstance(fact, wire.Trial) and fact.outcome is not TrialOutcome.PASSED}
    measurements = (fact for fact in facts if isinstance(fact, wire.Measurement) and fact.workload_id not in wrong)
    return tuple(row for row in measurements if missing(tuple(fact for fact in facts if _is_of(fact, row.workload_id))) is None)


def _is_of(fact: wire.Fact, size: str) -> bool:
    match fact:
        case wire.Plan(trials=trials, measured=measured):
            return size in (*measured, *(name for name, _, _ in trials))
        case wire.Trial(workload_id=workload_id) | wire.Measurement(workload_id=workload_id):
            return workload_id == size
    return isinstance(fact, wire.Load)
