"""The judge's half of reference_kernels: `generate_input(**case)`, `ref_kernel(data)`, `check_implementation(data, output)`.

Their eval.py is never run. What goes to a runner is the flat list of the tensors in `data`, each as it lies in memory; the template has
what lies around them.
Booleans and lists of a case are passed as what they are (their own harness passes the text "False", which is true).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from sandbox.judge import references
from sandbox.judge.compare import tolerance
from sandbox.judge.references import reference_kernels_cases as seen
from sandbox.judge.references.nests import tensors_of
from sandbox.judge.references.reference_kernels_code import GENERATE, REFERENCE, Code
from sandbox.judge.tensors import dtype_name, is_nan, is_narrow
from sandbox.protocol import pytree, wire

NAME = "reference_kernels"


def task(spec: wire.ProblemSpec, where: str) -> references.Task:
    """Execute the files once, and every case once if its shapes are not known yet."""
    code = Code.of(spec, where)
    if not spec.outputs:
        spec = seen.described(spec, code)
    cases = {one.shapes(): one for one in (_TaskCase.of(spec, workload, code) for workload in spec.workloads)}

    def reference(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return cases[tuple(one.shape for one in inputs)].run(code.reference, inputs)

    reference.__code__ = reference.__code__.replace()  # its own: what torch.compile makes is kept with the code object

    def draw(workload: wire.Workload, key: str) -> list[torch.Tensor]:
        return _TaskCase.of(spec, workload, code).draw(code, key)

    def compare(
        workload: wire.Workload,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        expected: list[torch.Tensor],
        unwritten: list[torch.Tensor],
    ) -> list[tolerance.Comparison]:
        case = _TaskCase.of(spec, workload, code)
        case.check_outputs(expected)
        allowed = replace(workload.tolerance or spec.tolerance, budget_factor=None)
        pairs = list(zip(outputs, expected, unwritten, strict=True))
        if any(_is_certain(out) and bool(mask.any()) for out, _, mask in pairs) or not code.accepts(case.both, inputs, outputs, expected):
            return _refused([tolerance.compare(out, ref, None, mask, allowed) for out, ref, mask in pairs])
        return [_accepted(out, ref, mask, allowed) for out, ref, mask in pairs]

    templates = tuple(json.loads(workload.arguments)["template"] for workload in spec.workloads)
    scratch = tuple(sorted({index for one in cases.values() for index in one.scratch}))
    return references.Task(spec=spec, reference=reference, draw=draw, compare=compare, templates=templates, scratch=scratch)


@dataclass(frozen=True, kw_only=True)
class _TaskCase:
    """One workload as it was found: what is generated, what goes around the tensors, and which inputs the reference writes to."""

    name: str
    arguments: dict[str, Any]
    data_text: str
    data: pytree.Make
    output: pytree.Make
    input_numbers: list[int]
    output_numbers: list[int]
    output_orders: list[list[int] | None]  # how `permute` makes what is sent of what is returned
    scratch: dict[int, str]
    mark: int | None
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, spec: wire.ProblemSpec, workload: wire.Workload, code: Code) -> _TaskCase:
        """As the described spec has it."""
        found = json.loads(workload.arguments)
        data, _, output = json.loads(found["template"])[1]

        def sizes(specs: tuple[wire.TensorSpec, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
            return tuple((one.dtype, tuple(workload.axes[str(axis)] for axis in one.shape)) for one in specs)

        return cls(
            name=workload.workload_id,
            arguments=found["case"],
            data_text=json.dumps(data),
            data=pytree.builder(data, code.make_object),
            output=pytree.builder(output),
            input_numbers=[number for number, _ in pytree.leaves(data)],
            output_numbers=[number - len(spec.inputs) for number, _ in pytree.leaves(output)],
            output_orders=[seen.inverse(dimensions) for _, dimensions in pytree.leaves(output)],
            scratch={int(index): kind for index, kind in found["scratch"].items()},
            mark=found["mark"],
            inputs=sizes(spec.inputs),
            outputs=sizes(spec.outputs),
        )

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """By which the case is found."""
        return tuple(shape for _, shape in self.inputs)

    def both(self, tensors: list[torch.Tensor]) -> tuple[Any, Any]:
        """The data and the output that these are the tensors of."""
        return self.data(tensors), self.output(tensors)

    def run(self, reference: Callable[[Any], Any], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs. Inputs that the reference writes to are its own: those that it only writes come without their content."""
        given = list(inputs)
        for index, kind in self.scratch.items():
            if kind != seen.UNUSED:
                given[index] = torch.empty_like(inputs[index]) if kind == seen.BLANK else inputs[index].clone()
        returned = tensors_of(reference(self.data(given)))
        if len(returned) != len(self.output_numbers):
            raise references.ReferenceFailed(f"{REFERENCE} at {self.name!r} returns more or fewer tensors than at first")
        found = [
            (one if order is None or one.dim() != len(order) else one.permute(order)).detach().contiguous()
            for one, order in zip(returned, self.output_orders, strict=True)
        ]
        return found if len(found) == len(self.outputs) else seen.placed(found, self.output_numbers, self.outputs, str(found[0].device))

    def draw(self, code: Code, key: str) -> list[torch.Tensor]:
        """Inputs of a key, of the same shapes and with the same values around them as at first."""
        tensors, text = code.flat(code.data(self.arguments, key), f"{GENERATE} at {self.name!r}")
        seen.check_inputs(tensors, self.name)
        found = [seen.moved(one, code.where) for one in tensors]
        kinds = [(dtype_name(one), tuple(one.shape)) for one in found]
        same_count = len(found) == len(self.input_numbers)
        if (
            not same_count
            or kinds != [self.inputs[number] for number in self.input_numbers]
            or json.dumps(pytree.renumbered(json.loads(text), self.input_numbers)) != self.data_text
        ):
            text = "shapes, dtypes or plain values that differ from seed to seed; let them depend on the case alone"
            raise references.ReferenceFailed(f"{GENERATE} at {self.name!r} makes {text}")
        own = len(self.inputs) - (self.mark is not None)
        return [
            *seen.placed(found, self.input_numbers, self.inputs[:own], code.where),
            *([] if self.mark is None else [seen.marker(self.mark, code.where)]),
        ]

    def check_outputs(self, expected: list[torch.Tensor]) -> None:
        """That the reference returned what it did at first."""
        if tuple((dtype_name(one), tuple(one.shape)) for one in expected) != self.outputs:
            raise references.ReferenceFailed(f"{REFERENCE} at {self.name!r} returns shapes or dtypes that differ from seed to seed")


def _is_certain(out: torch.Tensor) -> bool:
    """Whether what still holds the poison was not written: a float of one byte may be right and look so."""
    return out.is_floating_point() and not is_narrow(out.dtype)


def _accepted(out: torch.Tensor, ref: torch.Tensor, mask: torch.Tensor, allowed: wire.Tolerance) -> tolerance.Comparison:
    """An output that the problem's check accepts: what is left to be wrong is what nobody wrote, and NaN where the reference has none."""
    found = tolerance.compare(out, ref, None, mask, allowed)
    # A byte may hold the sentinel and be right within the check's own tolerance.
    unwritten = found.unwritten_count if out.dtype == torch.bool or out.dtype.itemsize > 2 else 0
    wrong = out.is_floating_point() and not bool(is_nan(ref).any())
    nan_count = int(is_nan(out).sum()) if wrong else 0
    counts = replace(found, mismatched_count=unwritten, unwritten_count=unwritten, nonfinite_count=nan_count)
    # Indices that differ and are right all the same have no error to speak of.
    return counts if out.is_floating_point() else replace(counts, max_absolute_error=0.0, max_relative_error=0.0)


def _refused(found: list[tolerance.Comparison]) -> list[tolerance.Comparison]:
    """Outputs that the problem's check refuses, although each element may be near the reference's."""
    if all(one.outcome is wire.TrialOutcome.PASSED for one in found):
        found[0] = replace(found[0], mismatched_count=1)
    return found
