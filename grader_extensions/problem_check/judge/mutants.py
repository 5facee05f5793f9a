"""Wrong answers that a problem has to reject: what a kernel would give that computes less than it is asked to."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch

from grader_extensions.problem_check.judge.case import AdmissionCase, Tensors
from grader_extensions.problem_check.judge.numerics import (
    FIRST_COLUMNS,
    first_columns,
    flushed,
    normal_tail,
    one_pass_moments,
    relative_border,
    without_maximum,
)
from sandbox.judge.references import Reference, ReferenceFailed, Task, WeightCheck
from sandbox.judge.tensors import FLOAT4, equal, is_narrow
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
    yield Mutant(
        check="no maximum",
        make=without_maximum,
        cheat="a kernel that takes exp() without subtracting the maximum",
        remedy=_SPREAD,
        one_rejects=True,
    )
    yield Mutant(
        check="one pass",
        make=one_pass_moments,
        cheat="a kernel that computes the variance as E[x^2] - E[x]^2",
        remedy=_SHIFTED,
        one_rejects=True,
    )
    yield Mutant(
        check="normal tail",
        make=normal_tail,
        cheat="a kernel that looks for extremes, or adds up a softmax, among values far from the mean only, as if they were normal",
        remedy=_CLUSTERED,
        one_rejects=True,
        right_by_inputs=True,
    )
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
    def mutant(check: str, change: Callable[[AdmissionCase, AdmissionCase], torch.Tensor | None], cheat: str) -> Mutant:
        def make(case: AdmissionCase, second: AdmissionCase) -> Tensors | None:
            changed = change(case, second)
            return None if changed is None else [*case.right[:index], changed, *case.right[index + 1 :]]

        return Mutant(check=check + where, make=make, cheat=cheat)

    constants: dict[str, tuple[Callable[[AdmissionCase, AdmissionCase], torch.Tensor | None], str]] = {
        "zeros": (lambda case, _: _zeros(case.right[index]), "zeros"),
        "ones": (lambda case, _: torch.ones_like(case.right[index]), "ones"),
        "constant mean": (lambda _, second: _mean(second.right[index]), "one constant"),
        "nan": (lambda case, _: _nan(case.right[index]), "NaN"),
    }
    narrow = is_narrow(getattr(torch, spec.outputs[index].dtype))  # torch has no arithmetic for these
    for check, (change, phrase) in constants.items():
        if check == "zeros" or not narrow:
            yield replace(mutant(check, change, f"a kernel that writes {phrase}{where}"), needs_no_input=True)
    if narrow:
        yield mutant("one element", lambda case, _: _one_byte_wrong(case, index), "a kernel with one wrong element" + where)
        return
    for number, tensor in enumerate(spec.inputs):
        if tensor.shape:
            yield mutant(
                f"copy of {tensor.name}",
                partial(_copy, number, index),
                f"a kernel that copies {tensor.name!r}{where}",
            )
    yield mutant("transposed", lambda case, _: _transposed(case, index), "a kernel that writes the transposed answer" + where)
    one_wrong = mutant("one element", lambda case, _: _one_wrong(case, index), "a kernel with one wrong element" + where)
    yield replace(one_wrong, own_rule_may=True)
    for check, border, cheat in (
        (
            "small values",
            lambda case: relative_border(case.right[index]),
            "a kernel that writes zeros for elements below 1e-6 of the largest",
        ),
        ("below atol", lambda case: (case.workload.tolerance or spec.tolerance).atol, "a kernel that writes zeros for elements below atol"),
    ):
        yield replace(mutant(check, partial(_flushed, index, border), cheat + where), one_rejects=True)
    for count in FIRST_COLUMNS:
        cheat = f"a kernel that computes only the first {count} columns{where}"
        yield replace(mutant(f"first {count} columns", partial(_first_columns, index, count), cheat), one_rejects=True)


def _flushed(index: int, border: Callable[[AdmissionCase], float], case: AdmissionCase, second: AdmissionCase) -> torch.Tensor | None:
    return flushed(case.right[index], border(case))


def _first_columns(index: int, count: int, case: AdmissionCase, second: AdmissionCase) -> torch.Tensor | None:
    return first_columns(case.right[index], count)


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


def _copy(number: int, index: int, case: AdmissionCase, second: AdmissionCase) -> torch.Tensor | None:
    tensor, right = case.inputs[number], case.right[index]
    if FLOAT4 in (tensor.dtype, right.dtype):
        return None
    return tensor.to(right.dtype) if tensor.shape == right.shape else None


def _transposed(case: AdmissionCase, index: int) -> torch.Tensor | None:
    right = case.right[index]
    if right.dim() < 2 or right.shape[-1] != right.shape[-2] or right.shape[-1] < 2:
        return None
    exact = case.exact[index].double() if case.exact is not None else right.double()
    apart = (exact - exact.transpose(-1, -2)).abs()
    if bool((apart <= SYMMETRIC * exact.abs()).all()):
        return right  # symmetric but for rounding: there is nothing to be seen
    return right.transpose(-1, -2).contiguous()


def _one_wrong(case: AdmissionCase, index: int) -> torch.Tensor | None:
    """Change an element by as much as elements are large, and by no less than itself."""
    right = case.right[index]
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


def _one_byte_wrong(case: AdmissionCase, index: int) -> torch.Tensor | None:
    """Give an element another exponent."""
    right = case.right[index]
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
