"""Makes, of a problem and a sweep, the problem that a submission in sweep mode is judged by.

It has the sizes of the sweep as its workloads, and nothing of the problem's own workloads: no hidden one ever reaches a sweep.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from grader.formats import formats
from grader.formats.arithmetic import ExpressionInvalid, evaluate
from grader.model import Problem, Sweep
from grader.rules.sweep import LARGEST_SIZE, SweepInvalid, check_bytes, check_known, sizes
from sandbox.protocol import wire

MEASURE_LIMIT_S = 30.0  # that a submission may ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """Sweep as a submission requests it. A value that is None, or not in axes, is as the problem's own sweep has it."""

    axis: str | None = None
    start: int | None = None
    stop: int | None = None
    factor: float | None = None
    step: int | None = None
    axes: Mapping[str, int] = field(default_factory=dict)
    measure_s: float | None = None


def sweep_problem(problem: Problem, request: SweepRequest, device_kinds: Sequence[str]) -> Problem:
    """The problem with the sizes of a sweep as its workloads, for devices of these kinds; the first one's sweep has to be valid.

    SweepInvalid where there is no such sweep, or its sizes are too many or too large.
    """
    if request.measure_s is not None and not 0 < request.measure_s <= MEASURE_LIMIT_S:
        raise SweepInvalid("measure_duration", f"is {request.measure_s:g} s; it has to be over 0, and at most {MEASURE_LIMIT_S:g} s")
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
    decides = [problem.digest, "sweep", axis, request.measure_s, [asdict(workload) for workload in workloads]]
    digest = hashlib.sha256(json.dumps(decides, sort_keys=True).encode()).hexdigest()
    return replace(
        problem,
        spec=replace(spec, workloads=tuple(workloads), baselines=(), digest=digest),  # max-autotune tries kernels for minutes at each size
        sweeps=(),
        swept_axis=axis,
        sweep_measure_s=request.measure_s,
    )


def _chosen(problem: Problem, request: SweepRequest, kind: str) -> Sweep:
    """The problem's first sweep for this kind of device, along the axis that was asked for, with what was asked for in its place."""
    axis = request.axis
    if axis is not None and axis not in problem.spec.axes:
        raise SweepInvalid("axis", f"{axis!r} is not an axis of {problem.problem_id!r}; take one of: {', '.join(problem.spec.axes)}")
    fitting = [sweep for sweep in problem.sweeps if sweep.device_kind in ("", kind) and axis in (None, sweep.axis)]
    default = fitting[0] if fitting else _unsaid(problem, request, kind)
    stepped = request.factor is not None or request.step is not None
    sweep = Sweep(
        axis=default.axis,
        start=default.start if request.start is None else request.start,
        stop=default.stop if request.stop is None else request.stop,
        factor=request.factor if stepped else default.factor,
        step=request.step if stepped else default.step,
        axes={**default.axes, **request.axes},
        device_kind=kind,
    )
    other_axes = set(problem.spec.axes) - {sweep.axis}
    if set(sweep.axes) != other_axes:
        wrong = sorted(set(sweep.axes) ^ other_axes)[0]
        raise SweepInvalid(
            "axes", f"{wrong!r} is the swept axis, or no axis; give the others only: {', '.join(sorted(other_axes)) or 'none'}"
        )
    return sweep


def _unsaid(problem: Problem, request: SweepRequest, kind: str) -> Sweep:
    """A sweep that the problem does not have: the whole range has to be asked for, and the other axes are those of the first workload."""
    stepped = request.factor is not None or request.step is not None
    if request.axis is None or request.start is None or request.stop is None or not stepped:
        along = f" along {request.axis!r}" if request.axis else ""
        text = f"problem {problem.problem_id!r} has no sweep{along} for a device of kind {kind}; add a [[sweep]] to its problem.toml"
        raise SweepInvalid("axis", f"{text}, or give axis, start, stop, and factor or step")
    like = _like(problem, kind)
    other_axes = {name: size for name, size in like.axes.items() if name != request.axis}
    return Sweep(axis=request.axis, start=request.start, stop=request.stop, factor=request.factor, step=request.step, axes=other_axes)


def _like(problem: Problem, kind: str) -> wire.Workload:
    """The first public workload for this kind of device, or of any: it says what a size does not."""
    like = problem.first_shown(kind) or problem.first_shown(None)
    if like is None:
        raise SweepInvalid("axis", f"problem {problem.problem_id!r} has no public workload that the sizes of a sweep could be like")
    return like


def _known(problem: Problem, kind: str) -> list[Mapping[str, int]]:
    """The axes of the sizes that everybody may see and that this kind of device runs; hidden ones would be found by asking."""
    shown = [workload.axes for workload in problem.spec.workloads if not workload.hidden and workload.device_kind in ("", kind)]
    swept = [{**sweep.axes, sweep.axis: sizes(sweep)[-1]} for sweep in problem.sweeps if sweep.device_kind in ("", kind)]
    if not shown and not swept:
        raise SweepInvalid("axis", f"problem {problem.problem_id!r} has no public size for a device of kind {kind}; add a [[sweep]] for it")
    return [*shown, *swept]


def _workloads(problem: Problem, sweep: Sweep, kind: str) -> list[wire.Workload]:
    like, known_axes, workloads = _like(problem, kind), _known(problem, kind), []
    for size in sizes(sweep):
        axes = {name: size if name == sweep.axis else sweep.axes[name] for name in problem.spec.axes}
        if wrong := [name for name, value in axes.items() if not 1 <= value <= LARGEST_SIZE]:
            raise SweepInvalid("axes", f"{wrong[0]} is {axes[wrong[0]]}; it has to be from 1 to {LARGEST_SIZE}")
        check_known(problem.spec, axes, sweep.axis, known_axes)
        check_bytes(problem.spec, axes, sweep.axis, kind)
        try:
            amounts = [evaluate(text, axes) if text else None for text in (problem.moved_bytes, problem.flops)]
        except ExpressionInvalid as invalid:
            raise SweepInvalid("stop", f"at {sweep.axis} = {size} moved_bytes or flops {invalid}") from None
        named = replace(like, workload_id=f"{sweep.axis}-{size}", axes=axes, hidden=False, device_kind=kind)
        workloads.append(replace(named, moved_bytes=amounts[0], flops=amounts[1]))
    return workloads
