"""The judge's half of robust_kbench: a kernel gets what the task's Model gives forward_fn, or what its AutogradFunction gives backward_fn.

What goes to a runner is the flat list of the tensors among them; the template has what lies around them. Weights are inputs: each key draws
others, as their harness does with each seed. The reference is forward_fn, or autograd's gradients of it. Settings of a task may give other
tensors, such as none for a layer that is not there; then that input has no elements, and the kernel is not given it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sandbox.judge import references
from sandbox.judge.compare import low_magnitude
from sandbox.judge.references import seeds, sources
from sandbox.judge.references.nests import permutations_of, strides_of, with_strides
from sandbox.judge.references.robust_kbench_code import FORWARD, KERNEL, KernelCall, TaskCode, renumbered
from sandbox.judge.references.robust_kbench_code import NAME as NAME
from sandbox.judge.tensors import dtype_name, same_bytes
from sandbox.protocol import pytree, wire
from sandbox.protocol.gate import RANK_LIMIT, TENSOR_LIMIT

DTYPES = {"float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"}
MARK = "setting_number"
_Tensors = list[torch.Tensor]
_Shapes = dict[str, tuple[str, tuple[int, ...]]]  # of tensors by name: dtype and shape


def task(spec: wire.ProblemSpec, where: str) -> references.Task:
    """Execute the file once, and every setting once if its shapes are not known yet."""
    code = TaskCode.of(spec, where)
    if not spec.outputs:
        spec = _described(spec, code)
    settings = {workload.workload_id: _Setting.of(spec, workload, code) for workload in spec.workloads}
    by_shapes = {one.shapes: one for one in settings.values()}

    def reference(inputs: _Tensors) -> _Tensors:
        return by_shapes[tuple(tuple(one.shape) for one in inputs)].run(inputs)

    def wide(inputs: _Tensors) -> _Tensors:
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)  # of what forward_fn makes itself
        try:
            given = [one.double() if one.is_floating_point() else one for one in inputs]
            return by_shapes[tuple(tuple(one.shape) for one in inputs)].run(given, wide=True)
        finally:
            torch.set_default_dtype(before)

    for one in (reference, wide):
        one.__code__ = one.__code__.replace()  # their own: what torch.compile makes is kept with the code object
    return references.Task(
        spec=spec,
        reference=reference,
        reference64=wide,
        draw=lambda workload, key: settings[workload.workload_id].draw(key),
        compare=low_magnitude.ElementwiseComparer(allowed=spec.tolerance, wide=wide),
        templates=tuple(one.template for one in settings.values()),
        scratch=tuple(sorted({index for one in settings.values() for index in one.scratch})),
    )


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """One workload as it was found.

    template: a kernel's arguments. places: which inputs the tensors of a call are. forward: forward_fn's arguments, over the inputs and
    own, the tensors that no kernel is given. output: the gradient of what forward_fn returns, over the inputs; None: a task without.
    """

    name: str
    code: TaskCode
    arguments: Mapping[str, Any]
    template: str
    places: tuple[int, ...]
    inputs: tuple[tuple[str, tuple[int, ...]], ...]
    strides: tuple[tuple[int, ...], ...]  # of the inputs; () where one is contiguous
    scratch: tuple[int, ...]
    forward: pytree.Make
    own: tuple[torch.Tensor, ...]
    gradients: tuple[int, ...]
    output: pytree.Make | None

    @classmethod
    def of(cls, spec: wire.ProblemSpec, workload: wire.Workload, code: TaskCode) -> _Setting:
        """As the described spec has it."""
        found = json.loads(workload.arguments)
        return cls(
            name=workload.workload_id,
            code=code,
            arguments=found,
            template=found["template"],
            places=tuple(found["places"]),
            inputs=tuple((one.dtype, tuple(workload.axes[str(axis)] for axis in one.shape)) for one in spec.inputs),
            strides=tuple(workload.strides.get(one.name, ()) for one in spec.inputs),
            scratch=tuple(found["scratch"]),
            forward=pytree.builder(found["forward"]),
            own=tuple(code.call(found, _key(spec, workload)).own) if found["has_own"] else (),
            gradients=tuple(found["gradients"]),
            output=pytree.builder(found["output"]) if found["output"] else None,
        )

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """By which the setting is found."""
        return tuple(shape for _, shape in self.inputs)

    def run(self, inputs: _Tensors, *, wide: bool = False) -> _Tensors:
        """The outputs. forward_fn gets copies of the inputs that it writes to. wide: in double precision, as the inputs are."""
        own = [one.double() if wide and one.is_floating_point() else one for one in self.own]
        tensors = [*(one.clone() if index in self.scratch else one for index, one in enumerate(inputs)), *own]
        found = self.code.outputs(self.forward(tensors), self.gradients, self.output(tensors) if self.output else None)
        return [one.contiguous() for one in found]

    def draw(self, key: str) -> _Tensors:
        """Inputs of a key, of the same shapes and with the same values around them as at first."""
        call = self.code.call(self.arguments, key)
        if json.dumps(renumbered(call.tree, self.places)) != self.template:
            raise references.ReferenceFailed(f"setting {self.name!r} gives other values with each seed; let only tensors differ")
        found = [torch.zeros(shape, dtype=getattr(torch, dtype), device=self.code.where) for dtype, shape in self.inputs]
        for place, one in zip(self.places, call.tensors, strict=True):
            found[place] = one
        if tuple((dtype_name(one), tuple(one.shape)) for one in found) != self.inputs:
            raise references.ReferenceFailed(f"setting {self.name!r} gives tensors whose shapes or dtypes differ from seed to seed")
        return [with_strides(one, strides) for one, strides in zip(found, self.strides, strict=True)]


@dataclass(frozen=True, kw_only=True)
class _SettingRun:
    """One run of a setting: its call without tensors; by name the shapes of what a kernel gets and returns; what forward_fn writes to."""

    call: KernelCall
    inputs: _Shapes
    strides: dict[str, tuple[int, ...]]
    outputs: _Shapes
    scratch: frozenset[str]
    own_count: int

    @classmethod
    def of(cls, spec: wire.ProblemSpec, workload: wire.Workload, code: TaskCode) -> _SettingRun:
        """Run it."""
        setting, name = json.loads(workload.arguments), workload.workload_id
        call = code.call(setting, _key(spec, workload))
        forward = pytree.builder(call.forward)

        def run(own: _Tensors) -> tuple[_Tensors, _Tensors]:
            tensors = [*(one.clone() for one in call.tensors), *own]
            output = pytree.builder(call.output)(tensors) if call.output else None
            with sources.contained(f"{FORWARD} in setting {name!r}", code.where), seeds.seeded(name, code.where):
                return code.outputs(forward(tensors), call.gradients, output), tensors

        outputs, tensors = run([one.clone() for one in call.own])
        if call.own:
            others = run(code.call(setting, _key(spec, workload, "other")).own)[0]
            if not all(torch.allclose(*pair, rtol=1e-3, atol=1e-6) for pair in zip(outputs, others, strict=True)):
                text = f"{KERNEL} is not given all that the gradients depend on, or not as {FORWARD} gets it; give it those tensors"
                raise references.ReferenceFailed(text)
        output_names = call.gradient_names or [f"output{index}" if len(outputs) > 1 else "output" for index in range(len(outputs))]
        pairs = zip(call.names, call.tensors, tensors, strict=False)
        return cls(
            call=replace(call, tensors=[], own=[]),  # all settings are looked at together, and only for their shapes
            inputs={of: _shape(one, of) for of, one in zip(call.names, call.tensors, strict=True)},
            strides=strides_of(dict(zip(call.names, call.tensors, strict=True)))
            | permutations_of(dict(zip(output_names, outputs, strict=True))),
            outputs={of: _shape(one, of) for of, one in zip(output_names, outputs, strict=True)},
            scratch=frozenset(of for of, before, after in pairs if not same_bytes(before, after)),
            own_count=len(call.own),
        )


def _described(spec: wire.ProblemSpec, code: TaskCode) -> wire.ProblemSpec:
    """The spec with inputs, outputs and templates, from running every setting once."""
    runs = [_SettingRun.of(spec, workload, code) for workload in spec.workloads]
    inputs = _joined([one.inputs for one in runs])
    shapes = [tuple(one.items()) for one in inputs]
    if any(shapes.index(one) != index for index, one in enumerate(shapes)):  # a tensor that no kernel is given distinguishes them
        inputs = [{**one, MARK: ("uint8", (index + 1,))} for index, one in enumerate(inputs)]
    outputs = _joined([one.outputs for one in runs])
    if len(inputs[0]) + len(outputs[0]) > TENSOR_LIMIT:
        text = f"a kernel gets {len(inputs[0])} tensors and returns {len(outputs[0])}; {TENSOR_LIMIT} can be sent"
        raise references.ReferenceFailed(text)
    names = list(inputs[0])
    workloads = []
    for index, (workload, run) in enumerate(zip(spec.workloads, runs, strict=True)):
        places = [names.index(name) for name in run.call.names]
        own = range(len(names), len(names) + run.own_count)
        arguments = {
            **json.loads(workload.arguments),
            "template": json.dumps(renumbered(run.call.tree, places)),
            "places": places,
            "forward": renumbered(run.call.forward, [*places, *own]),
            "output": run.call.output and renumbered(run.call.output, places),
            "gradients": run.call.gradients,
            "has_own": run.own_count > 0,
            "scratch": [names.index(name) for name in run.scratch],
        }
        axes = _axes(inputs[index]) | _axes(outputs[index])
        workloads.append(replace(workload, axes=axes, arguments=json.dumps(arguments), strides=run.strides))
    return replace(spec, inputs=_specs(inputs[0]), outputs=_specs(outputs[0]), workloads=tuple(workloads), axes=())


def _joined(settings: Sequence[_Shapes]) -> list[_Shapes]:
    """The same tensors for every setting, in one order; one that a setting does not have has no elements there."""
    known = {name: shape for one in reversed(settings) for name, shape in one.items()}
    order = dict.fromkeys(name for one in settings for name in one)
    for one in settings:
        for name, (dtype, sizes) in one.items():
            if (dtype, len(sizes)) != (known[name][0], len(known[name][1])):
                raise references.ReferenceFailed(f"{name!r} has another dtype or number of axes in another setting; make them the same")
    return [{name: one.get(name, (known[name][0], (0,) * len(known[name][1]))) for name in order} for one in settings]


def _specs(shapes: _Shapes) -> tuple[wire.TensorSpec, ...]:
    return tuple(
        wire.TensorSpec(name=name, dtype=dtype, shape=tuple(f"{name}_{index}" for index in range(len(sizes))))
        for name, (dtype, sizes) in shapes.items()
    )


def _axes(shapes: _Shapes) -> dict[str, int]:
    return {f"{name}_{index}": size for name, (_, sizes) in shapes.items() for index, size in enumerate(sizes)}


def _shape(one: torch.Tensor, name: str) -> tuple[str, tuple[int, ...]]:
    dtype = dtype_name(one)
    if dtype not in DTYPES or one.dim() > RANK_LIMIT:
        text = f"{name!r} is {dtype} with {one.dim()} axes; take one of {', '.join(sorted(DTYPES))}, and at most {RANK_LIMIT} axes"
        raise references.ReferenceFailed(text)
    return dtype, tuple(one.shape)


def _key(spec: wire.ProblemSpec, workload: wire.Workload, part: str = "") -> str:
    """The key of what is drawn once for a task."""
    return hashlib.sha256(f"{spec.digest}/{workload.workload_id}/{part}".encode()).hexdigest()[:32]
