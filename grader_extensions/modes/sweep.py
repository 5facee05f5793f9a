"""Mode sweep: the sizes of an axis one after the other, each verified and then timed, whatever became of the others. Nothing is scored.

A submission is judged by a problem that has the sizes as its workloads and nothing of the problem's own: no hidden one reaches a sweep.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, replace

from grader import devices
from grader.errors import FieldViolation, InvalidSubmission
from grader.formats import formats
from grader.formats.native import swept_amounts
from grader.grading.attempt import Attempt, Lane, OpenRunBox
from grader.grading.pipeline import judge_process, judged
from grader.model import Decision, Problem, Reason, Report, Sweep, Verdict
from grader.rules.sweep import LARGEST_SIZE, SweepInvalid, size_bytes, sizes
from grader.v1 import problem_pb2, submission_pb2
from grader.verdict.fold import Facts, IncompleteFacts, caught, first_failure, missing, report_of
from grader.verdict.fold import fold as fold_failure
from sandbox.protocol import wire
from sandbox.protocol.devices import DeviceKind
from sandbox.protocol.wire import TrialOutcome

DISCLOSED: Mapping[type, Collection[str]] = {}
MEASURE_LIMIT_S = 30.0  # that a submission may ask for


def plan(submission: submission_pb2.Submission, problem: Problem, device_kinds: Sequence[str]) -> Problem:
    """Make the problem whose workloads are the sizes of the sweep."""
    kinds = [kind for kind in (devices.CUDA, devices.EMULATED) if kind in device_kinds]  # where no device is named, a GPU is taken
    if submission.device_kind:
        kinds = [DeviceKind(submission.device_kind.partition(":")[0])]
    try:
        return sweep_problem(problem, submission.sweep, kinds)
    except SweepInvalid as error:
        raise InvalidSubmission([FieldViolation(f"sweep.{error.key}", str(error))]) from None


def sweep_problem(problem: Problem, request: problem_pb2.Sweep, device_kinds: Sequence[str]) -> Problem:
    """The problem with the sizes of a sweep as its workloads, for devices of these kinds; the first one's sweep has to be valid.

    What is not set in the request is as the problem's own sweep has it. SweepInvalid where there is none, or its sizes are too many or
    too large.
    """
    measure_s = request.measure_duration.ToNanoseconds() / 1e9 if request.HasField("measure_duration") else None
    if measure_s is not None and not 0 < measure_s <= MEASURE_LIMIT_S:
        raise SweepInvalid("measure_duration", f"is {measure_s:g} s; it has to be over 0, and at most {MEASURE_LIMIT_S:g} s")
    spec = problem.spec
    # Of some formats only the judge knows what the tensors of a size take, so that nobody could bound them here.
    is_bounded = bool(spec.inputs) and not any(workload.arguments for workload in spec.workloads)
    if not spec.axes or not is_bounded or not getattr(formats().get(spec.format), "SECRET_SIZES", False):
        text = f"problem {problem.problem_id!r} is of the format {spec.format}, whose sizes cannot be changed"
        raise SweepInvalid("axis", f"{text}; a native problem with axes can be swept")
    axis, workloads = "", list[wire.Workload]()
    for kind in device_kinds:
        try:
            sweep = _chosen(problem, request, kind)
            workloads += _workloads(problem, sweep, kind)
        except SweepInvalid:
            if not workloads and kind == device_kinds[0]:
                raise
            continue  # the device that is used unless another is named has its sweep
        axis = axis or sweep.axis
    decides = [problem.digest, "sweep", axis, measure_s, [asdict(workload) for workload in workloads]]
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    return replace(
        problem,
        spec=replace(spec, workloads=tuple(workloads), baselines=(), digest=digest),  # max-autotune tries kernels for minutes at each size
        sweeps=(),
        swept_axis=axis,
        sweep_measure_s=measure_s,
    )


def _chosen(problem: Problem, request: problem_pb2.Sweep, kind: str) -> Sweep:
    """The problem's first sweep for this kind of device, along the axis that was asked for, with what was asked for in its place."""
    if request.axis and request.axis not in problem.spec.axes:
        raise SweepInvalid(
            "axis", f"{request.axis!r} is not an axis of {problem.problem_id!r}; take one of: {', '.join(problem.spec.axes)}"
        )
    numbers = {name: getattr(request, name) for name in ("start", "stop", "factor", "step") if request.HasField(name)}
    stepped = numbers.keys() & {"factor", "step"}
    fitting = (sweep for sweep in problem.sweeps if sweep.device_kind in ("", kind) and request.axis in ("", sweep.axis))
    default = next(fitting, None)
    if default is None:
        # The whole range has to be asked for, and the other axes are those of the first workload.
        if not request.axis or not {"start", "stop"} <= numbers.keys() or not stepped:
            along = f" along {request.axis!r}" if request.axis else ""
            text = f"problem {problem.problem_id!r} has no sweep{along} for a device of kind {kind}; add a [[sweep]] to its problem.toml"
            raise SweepInvalid("axis", f"{text}, or give axis, start, stop, and factor or step")
        axes = {name: size for name, size in _like(problem, kind).axes.items() if name != request.axis}
        default = Sweep(axis=request.axis, start=request.start, stop=request.stop, axes=axes)
    if stepped:
        numbers = {"factor": None, "step": None, **numbers}
    sweep = replace(default, **numbers, axes={**default.axes, **request.axes}, device_kind=kind)
    other_axes = set(problem.spec.axes) - {sweep.axis}
    if set(sweep.axes) != other_axes:
        wrong = sorted(set(sweep.axes) ^ other_axes)[0]
        raise SweepInvalid(
            "axes", f"{wrong!r} is the swept axis, or no axis; give the others only: {', '.join(sorted(other_axes)) or 'none'}"
        )
    return sweep


def _like(problem: Problem, kind: str) -> wire.Workload:
    """The first public workload for this kind of device, or of any: it says what a size does not."""
    public = [workload for workload in problem.spec.workloads if not workload.hidden]
    if not public:
        raise SweepInvalid("axis", f"problem {problem.problem_id!r} has no public workload that the sizes of a sweep could be like")
    return next((workload for workload in public if workload.device_kind in ("", kind)), public[0])


def _public_sizes(problem: Problem, kind: str) -> Sequence[Mapping[str, int]]:
    """The axes of the sizes that everybody may see and that this kind of device runs; hidden ones would be found by asking."""
    public = [workload.axes for workload in problem.spec.workloads if not workload.hidden and workload.device_kind in ("", kind)]
    public += [{**sweep.axes, sweep.axis: sizes(sweep)[-1]} for sweep in problem.sweeps if sweep.device_kind in ("", kind)]
    if not public:
        raise SweepInvalid("axis", f"problem {problem.problem_id!r} has no public size for a device of kind {kind}; add a [[sweep]] for it")
    return public


def _check_public(spec: wire.ProblemSpec, axes: Mapping[str, int], axis: str, public_sizes: Sequence[Mapping[str, int]]) -> None:
    """SweepInvalid where this size is larger than what the problem shows: in any axis, or in all its tensors together. public_sizes: their
    axes. A reference may take memory that grows faster than its tensors do, such as the scores of attention: only sizes that the problem's
    author has chosen bound it."""
    limits = {name: max((size[name] for size in public_sizes), default=0) for name in axes}
    if any(axes[name] > limits[name] for name in axes) or size_bytes(spec, axes) > max(size_bytes(spec, size) for size in public_sizes):
        shown = ", ".join(f"{name} up to {size}" for name, size in limits.items())
        text = f"at {axis} = {axes[axis]} the size is larger than all that the problem has for this kind of device ({shown})"
        raise SweepInvalid("stop", f"{text}; choose a smaller stop or smaller other axes, or add a [[sweep]] to its problem.toml")


def _workloads(problem: Problem, sweep: Sweep, kind: str) -> list[wire.Workload]:
    like, public_sizes, workloads = _like(problem, kind), _public_sizes(problem, kind), []
    for size in sizes(sweep):
        axes = {name: size if name == sweep.axis else sweep.axes[name] for name in problem.spec.axes}
        if wrong := [name for name, value in axes.items() if not 1 <= value <= LARGEST_SIZE]:
            raise SweepInvalid("axes", f"{wrong[0]} is {axes[wrong[0]]}; it has to be from 1 to {LARGEST_SIZE}")
        _check_public(problem.spec, axes, sweep.axis, public_sizes)
        moved_bytes, flops = swept_amounts(problem, axes, sweep.axis, kind)
        named = replace(like, workload_id=f"{sweep.axis}-{size}", axes=axes, hidden=False, device_kind=kind)
        workloads.append(replace(named, moved_bytes=moved_bytes, flops=flops))
    return workloads


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
    return {size for fact in facts if isinstance(fact, wire.Plan) for size in fact.measured}


def _ends_all(fact: wire.Fact) -> bool:
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
