"""Wrong answers that a problem has to reject: what a kernel would give that computes less than it is asked to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from grader_extensions.problem_check.judge import numerics
from grader_extensions.problem_check.judge.case import AdmissionCase, equal
from grader_extensions.problem_check.judge.numerics import careless, first_columns, flushed, relative_border
from sandbox.judge.references import Reference, ReferenceFailed, Task, Tensors, WeightCheck
from sandbox.judge.tolerance import FLOAT4, is_narrow
from sandbox.protocol import wire

SYMMETRIC = 1e-9  # relative; in double nothing but rounding is that small
_LOWER = {torch.float32: torch.float16, torch.float64: torch.float32}
_VALUES = "lower atol and rtol, or make the outputs larger against them (scale, needles, smaller axes)"
_SPREAD = "give one workload inputs on which it fails, such as distributions = { x = { kind = 'normal', scale = 64.0 } }"
_SHIFTED = "give one workload inputs whose mean is far from zero, such as distributions = { x = { kind = 'normal', offset = 256.0 } }"
_CONSTANT = "it is one constant in every trial; make it a parameter of several elements, and import the file without --keep-weights"
_CLUSTERED = (
    "give one workload inputs that crowd near the largest, such as distributions = { x = { kind = 'mixture', parts = "
    "[{ kind = 'uniform', low = 50.0, high = 51.0, weight = 9.0 }, { kind = 'uniform' }] } }, or near the smallest, if that is looked for"
)
_TAIL_CHEAT = "looks for extremes, or adds up a softmax, among values far from the mean only, as if they were normal"
_INPUTS = "lower atol and rtol, or make the input weigh more (scale, needles, heavy_tail, smaller axes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """make: (a case, another draw of the same workload) to outputs; None where nothing of the kind can be made.

    vital: it has to be rejected at one workload at least. own_rule_may: a format's own rule may let it through.
    one_rejects: it may be accepted at a workload as long as another one of the same kind of device rejects it.
    right_by_inputs: where it gives the right answer, the inputs are the reason, and it counts as accepted.
    needs_no_input: it computes nothing from an input, so that a problem of any format that accepts it is refused.
    lowers_precision: right where the tolerance says that lower precision may be.
    """

    check: str
    make: Callable[[AdmissionCase, AdmissionCase], Tensors | None]
    cheat: str
    remedy: str = _VALUES
    vital: bool = False
    own_rule_may: bool = False
    one_rejects: bool = False
    right_by_inputs: bool = False
    needs_no_input: bool = False
    lowers_precision: bool = False

    @property
    def accepted_here(self) -> str:
        """The message of a workload that accepts it, where one workload has to reject it."""
        return f"{self.cheat} is accepted at this workload"


def mutants(task: Task) -> Iterator[Mutant]:
    """Every mutant of a problem, the telling ones first."""
    spec = task.spec
    for index, tensor in enumerate(spec.inputs):
        yield Mutant(
            check=f"input {tensor.name}",
            make=partial(_other_input, index),
            cheat=f"a kernel that ignores {tensor.name!r}",
            remedy=f"use {tensor.name!r} in the reference or leave it out of the inputs; where it is used, {_INPUTS}",
            # What is only written to may hold anything, and a nest of data may hold the same numbers in two orders.
            vital=index not in task.scratch and spec.convention is not wire.Convention.DATA,
            needs_no_input=True,
        )
    yield Mutant(
        check="seed",
        make=lambda case, second: second.right,
        cheat="a kernel that remembers the answer to other inputs",
        remedy="the answer has to depend on the inputs' values; change what is asked for, or " + _VALUES,
        vital=True,
        needs_no_input=True,
    )
    for index, output in enumerate(spec.outputs):
        yield from _of_output(spec, index, f" in {output.name}" if len(spec.outputs) > 1 else "")
    yield Mutant(
        check="half precision",
        make=_lower_precision,
        cheat="a kernel that rounds its inputs to half of their precision",
        remedy="lower atol and rtol, or set tolerance.budget_factor",
        lowers_precision=True,
    )
    softmax = partial(careless, numerics.WITHOUT_MAXIMUM, needs="exp")
    moments, tail = (partial(careless, replaced) for replaced in (numerics.ONE_PASS_MOMENTS, numerics.NORMAL_TAIL))
    for check, make, cheat, remedy, by_inputs in (
        ("no maximum", softmax, "takes exp() without subtracting the maximum", _SPREAD, False),
        ("one pass", moments, "computes the variance as E[x^2] - E[x]^2", _SHIFTED, False),
        ("normal tail", tail, _TAIL_CHEAT, _CLUSTERED, True),
    ):
        yield Mutant(check=check, make=make, cheat=f"a kernel that {cheat}", remedy=remedy, one_rejects=True, right_by_inputs=by_inputs)
    for index, tensor in enumerate(spec.inputs):
        if tensor.shape:
            yield Mutant(
                check=f"every second of {tensor.name}",
                make=partial(_every_second, index),
                cheat=f"a kernel that reads only every second element of each row of {tensor.name!r} and doubles it",
                remedy=_INPUTS,
            )
    for weight in task.weights:
        yield Mutant(
            check=f"weight {weight.name}",
            make=partial(_other_weight, weight),
            cheat=f"a kernel that ignores the weight {weight.name!r}",
            remedy=_VALUES if weight.drawn else _CONSTANT,
            vital=not weight.drawn,
        )


def _of_output(spec: wire.ProblemSpec, index: int, where: str) -> Iterator[Mutant]:
    def mutant(check: str, cheat: str, change: Callable[..., torch.Tensor | None], **flags: Any) -> Mutant:
        """change: (the right output, the case, another draw) to a wrong output."""

        def make(case: AdmissionCase, second: AdmissionCase) -> Tensors | None:
            changed = change(case.right[index], case, second)
            return None if changed is None else [*case.right[:index], changed, *case.right[index + 1 :]]

        return Mutant(check=check + where, make=make, cheat=f"a kernel {cheat}{where}", **flags)

    yield mutant("zeros", "that writes zeros", lambda right, *_: _zeros(right), needs_no_input=True)
    if is_narrow(getattr(torch, spec.outputs[index].dtype)):  # torch has no arithmetic for these
        yield mutant("one element", "with one wrong element", _one_byte_wrong)
        return
    yield mutant("ones", "that writes ones", lambda right, *_: torch.ones_like(right), needs_no_input=True)
    yield mutant("constant mean", "that writes one constant", lambda _, __, second: _mean(second.right[index]), needs_no_input=True)
    yield mutant("nan", "that writes NaN", lambda right, *_: _nan(right), needs_no_input=True)
    for number, tensor in enumerate(spec.inputs):
        if tensor.shape:
            yield mutant(f"copy of {tensor.name}", f"that copies {tensor.name!r}", partial(_copy, number))
    yield mutant("transposed", "that writes the transposed answer", partial(_transposed, index))
    yield mutant("one element", "with one wrong element", _one_wrong, own_rule_may=True)
    cheat = "that writes zeros for elements below"
    yield mutant("small values", f"{cheat} 1e-6 of the largest", lambda right, *_: flushed(right, relative_border(right)), one_rejects=True)
    below = lambda right, case, _: flushed(right, (case.workload.tolerance or spec.tolerance).atol)  # noqa: E731
    yield mutant("below atol", f"{cheat} atol", below, one_rejects=True)
    for count in numerics.FIRST_COLUMNS:
        change = partial(first_columns, count)
        yield mutant(f"first {count} columns", f"that computes only the first {count} columns", change, one_rejects=True)


def _zeros(right: torch.Tensor) -> torch.Tensor:
    zeros = torch.empty_like(right)
    zeros.view(torch.uint8 if is_narrow(right.dtype) else right.dtype).zero_()  # torch fills no float4 on a GPU
    return zeros


def _mean(right: torch.Tensor) -> torch.Tensor | None:
    values = right.double()
    values = values[values.isfinite()]
    if not values.numel():
        return None
    mean = values.mean() if right.is_floating_point() else values.mean().round()
    return mean.to(right.dtype).expand(right.shape).contiguous()


def _nan(right: torch.Tensor) -> torch.Tensor | None:
    return torch.full_like(right, float("nan")) if right.is_floating_point() and right.numel() else None


def _copy(number: int, right: torch.Tensor, case: AdmissionCase, second: AdmissionCase) -> torch.Tensor | None:
    tensor = case.inputs[number]
    if FLOAT4 in (tensor.dtype, right.dtype):
        return None
    return tensor.to(right.dtype) if tensor.shape == right.shape else None


def _transposed(index: int, right: torch.Tensor, case: AdmissionCase, second: AdmissionCase) -> torch.Tensor | None:
    if right.dim() < 2 or right.shape[-1] != right.shape[-2] or right.shape[-1] < 2:
        return None
    exact = (right if case.exact is None else case.exact[index]).double()
    apart = (exact - exact.transpose(-1, -2)).abs()
    if bool((apart <= SYMMETRIC * exact.abs()).all()):
        return right  # symmetric but for rounding: there is nothing to be seen
    return right.transpose(-1, -2).contiguous()


def _one_wrong(right: torch.Tensor, case: AdmissionCase, second: AdmissionCase) -> torch.Tensor | None:
    """Change an element by as much as elements are large, and by no less than itself."""
    if not right.numel():
        return None
    wrong = right.clone(memory_format=torch.contiguous_format)
    flat, place = wrong.view(-1), random.Random(case.key).randrange(right.numel())
    if right.dtype == torch.bool:
        flat[place] = ~flat[place]
    elif not right.is_floating_point():
        flat[place] += 1
    else:
        values = right.double()
        values = values[values.isfinite()]
        usual = float(values.square().mean().sqrt()) if values.numel() else 0.0
        here = float(flat[place].nan_to_num(0.0, 0.0, 0.0))
        flat[place] = here + (max(usual, abs(here)) or 1.0)
    return wrong


def _one_byte_wrong(right: torch.Tensor, case: AdmissionCase, second: AdmissionCase) -> torch.Tensor | None:
    """Give an element another exponent."""
    if not right.numel():
        return None
    wrong = right.clone(memory_format=torch.contiguous_format)
    wrong.view(torch.uint8).view(-1)[random.Random(case.key).randrange(right.numel())] ^= 0x20
    return wrong


def _lower_precision(case: AdmissionCase, second: AdmissionCase) -> Tensors | None:
    floats = {tensor.dtype for tensor in case.right if tensor.is_floating_point()}
    lower = _LOWER.get(floats.pop()) if len(floats) == 1 else None
    if lower is None or not any(tensor.is_floating_point() and tensor.dim() for tensor in case.inputs):
        return None
    rounded = (
        tensor.to(lower).to(tensor.dtype) if tensor.dtype != FLOAT4 and tensor.is_floating_point() and tensor.dim() else tensor
        for tensor in case.inputs
    )
    return _answer(case, list(rounded))


def _every_second(index: int, case: AdmissionCase, second: AdmissionCase) -> Tensors | None:
    tensor = case.inputs[index]
    if not tensor.is_floating_point() or is_narrow(tensor.dtype) or tensor.dim() == 0 or tensor.shape[-1] < 2:
        return None
    sampled = tensor.clone()
    sampled[..., 1::2] = 0
    sampled[..., 0::2] *= 2
    return _answer(case, [*case.inputs[:index], sampled, *case.inputs[index + 1 :]])


def _other_input(index: int, case: AdmissionCase, second: AdmissionCase) -> Tensors | None:
    if equal(case.inputs[index], second.inputs[index]):
        return None  # always the same: a constant of the problem
    return _answer(case, [*case.inputs[:index], second.inputs[index], *case.inputs[index + 1 :]])


def _other_weight(weight: WeightCheck, case: AdmissionCase, second: AdmissionCase) -> Tensors | None:
    """None where the answer does not depend on it, such as on running statistics in training. What is never drawn need not be read."""
    outputs = _answer(case, case.inputs, weight.changed)
    if outputs is None or case.is_right(outputs):
        return None
    return outputs if weight.drawn else case.right


def _answer(case: AdmissionCase, inputs: Tensors, reference: Reference | None = None) -> Tensors | None:
    """None where the reference refuses what it would never be given."""
    try:
        return case.answer(inputs, reference)
    except ReferenceFailed:
        return None
