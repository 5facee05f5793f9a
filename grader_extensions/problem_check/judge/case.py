"""A draw of a workload's inputs with its right answers, and the problem's own rule for other answers.  For admission only."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass

import torch

from sandbox.devices import Device
from sandbox.judge.inputs import of_workload, shape_of
from sandbox.judge.references import Reference, ReferenceFailed, Task, Tensors
from sandbox.judge.tolerance import FLOAT4, is_narrow, same_bytes
from sandbox.judge.trial import Run, WorkloadContext, expected, judge_run
from sandbox.protocol import wire
from sandbox.protocol.gate import FINE


def equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    """`torch.equal`, also for float4."""
    return same_bytes(first, second) if first.dtype == second.dtype == FLOAT4 else torch.equal(first, second)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionCase:
    """A workload at one key. right: the reference's outputs; exact: the same in double, None where the reference does not do that."""

    key: str
    task: Task
    workload: wire.Workload
    inputs: Tensors
    right: Tensors
    exact: Tensors | None

    @classmethod
    def draw(cls, task: Task, workload: wire.Workload, index: int, device: Device) -> AdmissionCase:
        """A workload's draw number index; ReferenceFailed where the reference does not take it, or answers otherwise than declared.

        The key is no secret here: a problem that is admitted today is admitted tomorrow.
        """
        key = hashlib.sha256(f"{task.spec.digest} {workload.workload_id} {index}".encode()).hexdigest()[:32]
        drawn = of_workload(task.spec, workload, task.draw, key, device)
        right = expected(task.reference, drawn, task.spec)
        where = drawn[0].device if drawn and drawn[0].dim() else None
        for tensor, answer in zip(task.spec.outputs, right, strict=True):
            declared = f"{getattr(torch, tensor.dtype)} {shape_of(tensor, workload.axes)}"
            actual = f"{answer.dtype} {tuple(answer.shape)}" if isinstance(answer, torch.Tensor) else f"a {type(answer).__name__}"
            if actual != declared:
                raise ReferenceFailed(f"the reference's {tensor.name!r} is {actual}; the problem declares {declared}")
            if where is not None and answer.device != where:
                raise ReferenceFailed(f"the reference's {tensor.name!r} is on {answer.device}; return a tensor on the device of its inputs")
        case = cls(key=key, task=task, workload=workload, inputs=drawn, right=right, exact=None)
        return dataclasses.replace(case, exact=case._in_double())

    def answer(self, inputs: Tensors, reference: Reference | None = None) -> Tensors:
        """Return the reference's answer to other inputs. reference: another one than the task's."""
        return expected(reference or self.task.reference, inputs, self.task.spec)

    def accepts(self, outputs: Tensors) -> bool:
        """Return whether the problem's own rule takes these for right, every element written."""
        reference64 = None if self.exact is None else self._exactly
        bench = WorkloadContext(dataclasses.replace(self.task, reference=lambda _: self.right, reference64=reference64), self.workload)
        own_rule = self.task.compare is not None  # a format's own code may change what it is given
        result = Run(
            key=self.key,
            reply=FINE,
            duration_ns=0,
            inputs=[tensor.clone() for tensor in self.inputs] if own_rule else self.inputs,
            outputs=[output.clone() for output in outputs] if own_rule else outputs,
            unwritten=[torch.zeros_like(output, dtype=torch.bool) for output in outputs],
        )
        return judge_run(result, bench, wire.TrialPhase.VERIFY, 0).outcome is wire.TrialOutcome.PASSED

    def is_right(self, outputs: Tensors) -> bool:
        """Return whether these are the right answers to the last bit."""
        return all(equal(output, right) for output, right in zip(outputs, self.right, strict=True))

    def _exactly(self, inputs: Tensors) -> Tensors:
        """The right answers in double: known for the case's own inputs, and not for shaken ones."""
        own_inputs = all(equal(tensor, mine.to(tensor.dtype)) for tensor, mine in zip(inputs, self.inputs, strict=True))
        return self.exact if own_inputs and self.exact is not None else list((self.task.reference64 or self.task.reference)(inputs))

    def _in_double(self) -> Tensors | None:
        has_unrounded = self.task.reference64 is not None and self.task.compare is None
        if not any(tensor.is_floating_point() and (has_unrounded or not is_narrow(tensor.dtype)) for tensor in self.right):
            return None
        tolerance = self.workload.tolerance or self.task.spec.tolerance
        widened = [tensor.double() if tensor.is_floating_point() and not is_narrow(tensor.dtype) else tensor for tensor in self.inputs]
        try:
            return expected(self.task.reference64 or self.task.reference, widened, self.task.spec)
        except ReferenceFailed as failure:
            if self.task.compare is not None or tolerance.budget_factor is None:
                return None
            raise ReferenceFailed(f"with inputs in float64, for the error budget: {failure}") from failure
