"""The judge's half of reference_kernels: `generate_input(**case)`, `ref_kernel(data)`, `check_implementation(data, output)`.

Their eval.py is never run. What goes to a runner is the flat list of the tensors in `data`; the template has what lies around them.
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
from sandbox.judge.references import reference_kernels_code as written
from sandbox.judge.references.nests import tensors_of
from sandbox.judge.references.reference_kernels_code import Code
from sandbox.judge.tensors import dtype_name
from sandbox.protocol import pytree, wire

NAME = "reference_kernels"


def task(spec: wire.ProblemSpec, where: str) -> references.Task:
    """Execute the files once, and every case once if its shapes are not known yet."""
    code = Code.of(spec, where)
    if not spec.outputs:
        spec = written.described(spec, code)
    cases = {one.shapes(): one for one in (_TaskCase.of(spec, workload) for workload in spec.workloads)}

    def reference(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return cases[tuple(one.shape for one in inputs)].run(code.reference, inputs)

    reference.__code__ = reference.__code__.replace()  # its own: what torch.compile makes is kept with the code object

    def draw(workload: wire.Workload, key: str) -> list[torch.Tensor]:
        return _TaskCase.of(spec, workload).draw(code, key)

    def compare(
        workload: wire.Workload,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        expected: list[torch.Tensor],
        unwritten: list[torch.Tensor],
    ) -> list[tolerance.Comparison]:
        case = _TaskCase.of(spec, workload)
        case.check_outputs(expected)
        allowed = replace(workload.tolerance or spec.tolerance, budget_factor=None)
        pairs = list(zip(outputs, expected, unwritten, strict=True))
        if any(out.is_floating_point() and bool(mask.any()) for out, _, mask in pairs) or not code.accepts(
            case.both, inputs, outputs, expected
        ):
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
    scratch: dict[int, str]
    mark: int | None
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: tuple[tuple[str, tuple[int, ...]], ...]

    @classmethod
    def of(cls, spec: wire.ProblemSpec, workload: wire.Workload) -> _TaskCase:
        """As the described spec has it."""
        found = json.loads(workload.arguments)
        data, _, output = json.loads(found["template"])[1]

        def sizes(specs: tuple[wire.TensorSpec, ...]) -> tuple[tuple[str, tuple[int, ...]], ...]:
            return tuple((one.dtype, tuple(workload.axes[str(axis)] for axis in one.shape)) for one in specs)

        return cls(
            name=workload.workload_id,
            arguments=found["case"],
            data_text=json.dumps(data),
            data=pytree.builder(data),
            output=pytree.builder(output),
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
            given[index] = torch.empty_like(inputs[index]) if kind == written.BLANK else inputs[index].clone()
        return [one.detach().contiguous() for one in tensors_of(reference(self.data(given)))]

    def draw(self, code: Code, key: str) -> list[torch.Tensor]:
        """Inputs of a key, of the same shapes and with the same values around them as at first."""
        tensors, text = written.flat(code.data(self.arguments, key), f"{written.GENERATE} at {self.name!r}")
        written.check_inputs(tensors, self.name)
        found = [written.moved(one, code.where) for one in tensors]
        found += [] if self.mark is None else [written.marker(self.mark, code.where)]
        if json.dumps(json.loads(text)) != self.data_text or tuple((dtype_name(one), tuple(one.shape)) for one in found) != self.inputs:
            text = "shapes, dtypes or plain values that differ from seed to seed; let them depend on the case alone"
            raise references.ReferenceFailed(f"{written.GENERATE} at {self.name!r} makes {text}")
        return found

    def check_outputs(self, expected: list[torch.Tensor]) -> None:
        """That the reference returned what it did at first."""
        if tuple((dtype_name(one), tuple(one.shape)) for one in expected) != self.outputs:
            raise references.ReferenceFailed(f"{written.REFERENCE} at {self.name!r} returns shapes or dtypes that differ from seed to seed")


def _accepted(out: torch.Tensor, ref: torch.Tensor, mask: torch.Tensor, allowed: wire.Tolerance) -> tolerance.Comparison:
    """An output that the problem's check accepts: what is left to be wrong is what nobody wrote, and NaN where the reference has none."""
    found = tolerance.compare(out, ref, None, mask, allowed)
    # A byte may hold the sentinel and be right within the check's own tolerance.
    unwritten = found.unwritten_count if out.dtype == torch.bool or out.dtype.itemsize > 2 else 0
    wrong = out.is_floating_point() and not bool(ref.isnan().any())
    counts = replace(found, mismatched_count=unwritten, unwritten_count=unwritten, nonfinite_count=int(out.isnan().sum()) if wrong else 0)
    # Indices that differ and are right all the same have no error to speak of.
    return counts if out.is_floating_point() else replace(counts, max_absolute_error=0.0, max_relative_error=0.0)


def _refused(found: list[tolerance.Comparison]) -> list[tolerance.Comparison]:
    """Outputs that the problem's check refuses, although each element may be near the reference's."""
    if all(one.outcome is wire.TrialOutcome.PASSED for one in found):
        found[0] = replace(found[0], mismatched_count=1)
    return found
